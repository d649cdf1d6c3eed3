"""The solver's objectives stay exact where one sum would be too large."""

from __future__ import annotations

from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.cp_sat_search import MAX_OBJECTIVE
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from tests.factories.universes import snapshot_of

BY_SOLVER = Budget(steps=0)


def pairs(count: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Of each pair one can be the newest; all ``2 ** count`` best stacks weigh the same."""
    index: dict[str, dict[str, dict[str, Any]]] = {}
    for number in range(count):
        index[f"a{number}"] = {"2": {"requires": [f"b{number}<2"]}, "1": {}}
        index[f"b{number}"] = {"2": {}, "1": {}}
    return index


def settled_by_name(count: int) -> dict[str, str]:
    return {name: "2" if name[0] == "a" else "1" for name in pairs(count)}


@pytest.mark.parametrize("worst", [MAX_OBJECTIVE - less for less in range(1, 9)])
def test_scores_that_leave_no_room_for_ties_are_settled_apart(worst: int) -> None:
    index = {"app": {"2": {}, "1": {}}, **pairs(3)}
    roots = [*pairs(3), "app==2"]
    snapshot = snapshot_of(index, roots)
    scores = {it.purl: (0,) for them in snapshot.packages.values() for it in them}
    scores[snapshot.packages["app"][0].purl] = (-worst,)
    universe = universe_of(snapshot, ResolverRequest(), scores)
    for budget in (Budget(), BY_SOLVER):
        found = resolve(universe, budget)
        assert found.settled
        assert found.objective == found.bound
        assert found.objective[0] == -worst
        assert found.stacks[0].versions() == {"app": "2", **settled_by_name(3)}


def test_more_ties_than_one_sum_can_tell_apart_are_settled_part_by_part() -> None:
    """44 packages, each in two versions or not there: more than 64 bits tell apart."""
    index = pairs(22)
    found = resolve(universe_of(snapshot_of(index, list(index)), ResolverRequest(), {}), BY_SOLVER)
    assert found.settled
    assert found.stacks[0].versions() == settled_by_name(22)


@pytest.mark.parametrize("budget", [Budget(), BY_SOLVER], ids=["branch and bound", "solver"])
@pytest.mark.parametrize("count", [2, 30])
def test_direct_requirements_in_declared_order_come_before_all_others(
    count: int, budget: Budget
) -> None:
    """Each direct package in its newest version makes ten others as old as can be."""
    names = [f"direct-{number:02d}" for number in range(count)]
    others = [f"other-{number}" for number in range(10)]
    index: dict[str, dict[str, dict[str, Any]]] = {
        name: {"2": {"requires": [f"{it}<2" for it in others]}, "1": {"requires": others}}
        for name in names
    }
    index |= {name: {"2": {}, "1": {}} for name in others}
    first, last = names[0], names[-1]
    index[first]["2"]["requires"].append(f"{last}<2")
    snapshot = snapshot_of(index, names)
    scores = {it.purl: (-9000 * at,) for them in snapshot.packages.values()
              for at, it in enumerate(them)}  # fmt: skip
    for direct, older in ((names, last), (names[::-1], first)):
        request = ResolverRequest(direct=tuple(direct))
        found = resolve(universe_of(snapshot, request, scores, newness={0}), budget)
        assert found.settled
        assert found.stacks[0].versions() == {
            name: "1" if name == older or name in others else "2" for name in index
        }
        assert found.objective == found.bound
        assert found.objective == (
            0, *(-9000 * (name == older) for name in direct), -90_000, 0, 0
        )  # fmt: skip
