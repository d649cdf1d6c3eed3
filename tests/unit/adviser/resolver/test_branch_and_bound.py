"""Branch and bound: what it proves, and that it leaves the rest to the solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.branch_and_bound import search_by_branching
from adviser.resolver.compression import compress
from adviser.resolver.cp_sat_search import search
from adviser.resolver.problem import SearchResult, SelectionProblem
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.universe import Universe
from tests.factories.universes import drawn_scores, snapshot_of, synthetic_index

STEPS = Budget().steps

Index = dict[str, dict[str, dict[str, Any]]]

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
def test_branch_and_bound_finds_the_optimum_of_the_solver(
    index: Index, roots: tuple[str, ...], count: int
) -> None:
    problem = problem_of(index, *roots, keep=count)
    assert search_by_branching(problem, count, STEPS) == by_solver(problem, count)


@pytest.mark.parametrize("seed", range(12))
def test_generated_closures_have_the_stacks_that_the_solver_finds(seed: int) -> None:
    count = 1 + seed % 3
    problem = compress(generated(seed), keep=count)
    assert search_by_branching(problem, count, 10 * STEPS) == by_solver(problem, count)


def test_what_takes_more_steps_is_left_to_the_solver() -> None:
    problem = compress(generated(0))
    assert search_by_branching(problem, 1, 10) is None
    assert search_by_branching(problem, 1, 0) is None
    answers = [resolve(generated(0), Budget(steps=steps)) for steps in (10, 10 * STEPS)]
    assert answers[0].solver.startswith("ortools ")
    assert answers[1].solver == "branch and bound 2"
    assert answers[0].stacks == answers[1].stacks
