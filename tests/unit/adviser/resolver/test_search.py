"""Compression, branch and bound, and the solver: what is kept, and what each proves."""

from dataclasses import replace
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.branch_and_bound import search_by_branching
from adviser.resolver.compression import compress
from adviser.resolver.cp_sat_search import MAX_OBJECTIVE, search
from adviser.resolver.problem import SearchResult, SelectionProblem
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.universe import Universe
from tests.factories.universes import Index, drawn_scores, snapshot_of, synthetic_index


def kept_places(index: Index, *roots: str, keep: int = 1) -> dict[str, list[int]]:
    """Places of the kept versions by package."""
    problem = compress(universe_of(snapshot_of(index, roots), ResolverRequest(), {}), keep)
    places: dict[str, list[int]] = {name: [] for name in problem.names}
    for node in problem.nodes:
        places[problem.names[node.package]].append(node.place)
    return places


def test_only_the_best_of_interchangeable_versions_is_searched() -> None:
    index = {"app": {"1.0": {"requires": ["lib>=3"]}}, "lib": {f"{v}.0": {} for v in range(1, 9)}}
    assert kept_places(index, "app", "lib") == {"app": [0], "lib": [0, 6]}
    assert kept_places(index, "app", "lib", keep=3)["lib"] == [0, 1, 2, 6, 7]


def test_versions_are_interchangeable_if_their_requirements_admit_equal_versions() -> None:
    index = {
        "app": {"2.0": {"requires": ["lib>=1.5"]}, "1.0": {"requires": ["lib>1.0,<9"]}},
        "lib": {"2.0": {}, "1.0": {}},
    }
    assert kept_places(index, "app") == {"app": [0], "lib": [0]}


def test_interchangeable_versions_are_represented_by_the_best_score() -> None:
    snapshot = snapshot_of({"app": {"3.0": {}, "2.0": {}, "1.0": {}}}, ["app"])
    scores = {snapshot.packages["app"][1].purl: (5,)}
    problem = compress(universe_of(snapshot, ResolverRequest(), scores))
    assert [(node.place, node.first) for node in problem.nodes] == [(1, 0)]


def test_unreachable_and_uninstallable_versions_are_not_searched() -> None:
    index = {
        "app": {"2.0": {"requires": ["nowhere"]}, "1.0": {"requires": ["lib"]}},
        "lib": {"2.0": {}, "1.0": {"requires": ["more"]}},
        "more": {"1.0": {"requires": ["app>=2"]}},
    }
    assert kept_places(index, "app") == {"app": [1], "lib": [0]}


def test_problem_digest_depends_on_the_problem_and_not_on_the_order_of_roots() -> None:
    index, roots = synthetic_index(20, 6)
    first, second = (
        universe_of(snapshot_of(index, order), ResolverRequest(), {})
        for order in (roots, roots[::-1])
    )
    assert compress(first).digest == compress(second).digest
    other = universe_of(snapshot_of(index, [f"{roots[0]}<3"]), ResolverRequest(), {})
    assert compress(other).digest != compress(first).digest


def test_resolution_reports_the_size_of_the_searched_problem() -> None:
    sizes = resolve(universe_of(snapshot_of(*synthetic_index(30, 12)), ResolverRequest(), {})).sizes
    assert 0 < sizes.kept < sizes.versions
    assert sizes.packages <= 30


STEPS = Budget().steps

#: The newest of both cannot be had together, and an extra brings what the newest cannot have.
OPPOSED: Index = {
    "web": {"2": {"requires": ["core<2", "tls>=1; extra == 'safe'"]}, "1": {"requires": ["core"]}},
    "data": {"2": {"requires": ["core>=2"]}, "1": {"requires": ["core"]}},
    "core": {"2": {}, "1": {}},
    "tls": {"1": {"requires": ["core>=2"]}},
}
YANKED: Index = {
    "app": {"2": {"requires": ["lib==2"]}, "1": {"requires": ["lib"]}},
    "lib": {"3": {"yanked": True}, "2": {"yanked": True}, "1": {}},
}


def problem_of(index: Index, *roots: str, keep: int = 1) -> SelectionProblem:
    return compress(universe_of(snapshot_of(index, roots), ResolverRequest(), {}), keep=keep)


def generated(seed: int) -> Universe:
    snapshot = snapshot_of(*synthetic_index(20, 8, era=3, seed=seed))
    return universe_of(snapshot, ResolverRequest(), drawn_scores(snapshot, seed))


def by_solver(problem: SelectionProblem, count: int) -> SearchResult:
    return replace(search(problem, Budget(), count), branched=True)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize(
    ("index", "roots"),
    [
        (OPPOSED, ("web", "data")),
        (OPPOSED, ("web[safe]", "data")),
        (OPPOSED, ("web[safe]", "core<2")),
        (OPPOSED, ("web>=2", "data>=2")),
        (YANKED, ("app",)),
        (YANKED, ("lib",)),
    ],
)
def test_branch_and_bound_and_solver_find_equal_stacks(
    index: Index, roots: tuple[str, ...], count: int
) -> None:
    problem = problem_of(index, *roots, keep=count)
    assert search_by_branching(problem, count, STEPS) == by_solver(problem, count)


@pytest.mark.parametrize("seed", range(12))
def test_branch_and_bound_and_solver_agree_on_generated_closures(seed: int) -> None:
    count = 1 + seed % 3
    problem = compress(generated(seed), keep=count)
    assert search_by_branching(problem, count, 10 * STEPS) == by_solver(problem, count)


def test_solver_continues_when_branch_and_bound_reaches_its_step_limit() -> None:
    problem = compress(generated(0))
    assert search_by_branching(problem, 1, 10) is None
    assert search_by_branching(problem, 1, 0) is None
    answers = [resolve(generated(0), Budget(steps=steps)) for steps in (10, 10 * STEPS)]
    assert answers[0].solver.startswith("ortools ")
    assert answers[1].solver == "branch and bound 2"
    assert answers[0].stacks == answers[1].stacks


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
def test_scores_too_large_for_a_single_integer_sum_are_optimised_in_turn(worst: int) -> None:
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


def test_ties_among_many_packages_are_broken_deterministically() -> None:
    """44 packages, each in two versions or not there: more than 64 bits tell apart."""
    index = pairs(22)
    found = resolve(universe_of(snapshot_of(index, list(index)), ResolverRequest(), {}), BY_SOLVER)
    assert found.settled
    assert found.stacks[0].versions() == settled_by_name(22)


@pytest.mark.parametrize("budget", [Budget(), BY_SOLVER], ids=["branch and bound", "solver"])
@pytest.mark.parametrize("count", [2, 30])
def test_direct_requirements_are_optimised_in_declared_order_before_others(
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
        assert found.objective == (0, *(-9000 * (name == older) for name in direct), -90_000, 0, 0)
