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
        assert found.objective == found.bound == -worst
        assert found.stacks[0].versions() == {"app": "2", **settled_by_name(3)}


def test_more_ties_than_one_sum_can_tell_apart_are_settled_part_by_part() -> None:
    """44 packages, each in two versions or not there: more than 64 bits tell apart."""
    index = pairs(22)
    found = resolve(universe_of(snapshot_of(index, list(index)), ResolverRequest(), {}), BY_SOLVER)
    assert found.settled
    assert found.stacks[0].versions() == settled_by_name(22)
