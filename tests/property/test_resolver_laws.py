"""Laws of the resolver: it finds what trying everything finds, however it is asked."""

import random
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import ConflictStep, ResolutionStatus
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate
from tests.effort import slow
from tests.factories.drawn_indexes import drawn_bound, drawn_case, drawn_universe
from tests.factories.installers import resolved
from tests.factories.stacks_by_force import stacks_by_force

SOLVER = f"ortools {version('ortools')}"
#: What branch and bound proves, and the same by the solver.
EITHER_WAY = (Budget(), Budget(steps=0))


@pytest.mark.parametrize("budget", EITHER_WAY, ids=["branch and bound", "solver"])
@pytest.mark.parametrize("part", [0, *slow(range(1, 5))])
def test_resolver_equals_exhaustive_search_on_500_small_indexes(part: int, budget: Budget) -> None:
    solved = 0
    for seed in range(part * 100, part * 100 + 100):
        universe = drawn_universe(seed)
        expected = stacks_by_force(universe)
        count = 1 + seed % 4
        resolution = resolve(universe, budget, count=count)
        found = [stack.versions() for stack in resolution.stacks]
        assert found == [versions for _, versions in expected[:count]], seed
        assert check_resolution(universe, resolution) == [], seed
        assert resolution.status is (
            ResolutionStatus.OPTIMAL if expected else ResolutionStatus.INFEASIBLE
        ), seed
        assert resolution.settled
        assert (resolution.solver == "branch and bound 2") == bool(budget.steps), seed
        if expected:
            costs = tuple(-it for it in resolution.objective or ())
            assert expected[0][0][0] == costs
            assert resolution.objective == resolution.bound
            solved += 1
        else:
            assert resolution.conflict.minimal, seed
    assert 20 < solved < 95  # both kinds are drawn


def test_contributions_are_relative_to_the_best_version_and_penalties_to_zero() -> None:
    special = 0
    for seed in range(300):
        snapshot, request, scores, penalties, newness = drawn_case(seed)
        universe = universe_of(snapshot, request, scores, penalties, newness)
        groups = [{0, 1} - newness, {0, 1} & newness]
        for candidates in snapshot.packages.values():
            plain = [it for it in candidates if not it.yanked and not it.prerelease]
            for it in candidates:
                contributions, raw = universe.contributions[it.purl], scores[it.purl]
                assert contributions[2] == raw[2]
                for group in groups:
                    best = max(_sum(scores[one.purl], group) for one in plain or candidates)
                    ours = _sum(raw, group)
                    assert _sum(contributions, group) == min(0, ours - best), (seed, it)
                    special += ours > best
                assert max(universe.values(it)) <= 0
                assert sum(universe.values(it)) == sum(contributions)
    assert special > 20


def _sum(values: Sequence[int], places: set[int]) -> int:
    return sum(values[it] for it in places)


def test_reported_conflict_is_infeasible_and_minimal() -> None:
    seen = 0
    for seed in range(4000, 4200):
        universe = drawn_universe(seed, plain=True)
        conflict = resolve(universe).conflict
        if conflict is None:
            continue
        seen += 1
        assert conflict.minimal
        assert not stacks_by_force(with_only(universe, conflict.steps)), seed
        for step in conflict.steps:
            others = tuple(it for it in conflict.steps if it is not step)
            assert stacks_by_force(with_only(universe, others)), (seed, step)
    assert seen > 40


def with_only(universe: Universe, steps: tuple[ConflictStep, ...]) -> Universe:
    """A world in which these are the only facts; whatever else is said is not said."""
    roots = {(it.required, it.specifier, it.extras) for it in steps if it.kind == "asked"}
    rules = {it.specifier for it in steps if it.kind == "rule"}
    needs = {
        (it.name, it.required, it.specifier, it.extras, it.extra)
        for it in steps
        if it.kind == "requires"
    }
    packages = {}
    for name, candidates in universe.packages.items():
        refused = [it for it in universe.refused[name] if it.candidate and it.rule not in rules]
        packages[name] = tuple(
            replace(
                it,
                requires=tuple(
                    one
                    for one in it.requires
                    if (name, one.name, universe.specifier_of(one), one.extras, one.extra) in needs
                ),
            )
            for it in (*candidates, *(one.candidate for one in refused if one.candidate))
        )
    return replace(
        universe,
        packages=packages,
        roots=tuple(
            it for it in universe.roots if (it.name, universe.specifier_of(it), it.extras) in roots
        ),
    )


def test_resolver_agrees_with_resolvelib_on_feasibility_of_200_indexes() -> None:
    solved = 0
    for seed in range(1000, 1200):
        universe = drawn_universe(seed, plain=True)
        feasible = resolved(universe) is not None
        assert bool(resolve(universe).stacks) == feasible, seed
        solved += feasible
    assert 40 < solved < 190


def test_further_constraint_never_improves_the_best_score() -> None:
    compared = 0
    for seed in range(2000, 2250):
        snapshot, request, scores, penalties, newness = drawn_case(seed, plain=True)
        extra = drawn_bound(random.Random(seed), plain=True)
        tighter = replace(request, constraints=(*request.constraints, extra))
        before = resolve(universe_of(snapshot, request, scores, penalties, newness))
        after = resolve(universe_of(snapshot, tighter, scores, penalties, newness))
        if before.objective is None:
            assert after.objective is None, seed
        elif after.objective is not None:
            assert after.objective <= before.objective, seed
            compared += 1
    assert compared > 50


def test_resolver_result_does_not_depend_on_input_order_seed_or_threads() -> None:
    for seed in range(3000, 3040):
        universe = drawn_universe(seed)
        expected = answer_of(universe, Budget())
        draw = random.Random(seed)
        names, refused = list(universe.packages), list(universe.refused)
        roots = list(universe.roots)
        for shuffled in (names, refused, roots):
            draw.shuffle(shuffled)
        other = replace(
            universe,
            packages={name: with_shuffled(draw, universe.packages[name]) for name in names},
            refused={name: universe.refused[name] for name in refused},
            roots=tuple(roots),
        )
        assert answer_of(other, Budget()) == expected, seed
        budget = Budget(threads=draw.choice([1, 2, 4]), seed=draw.randint(1, 1000), steps=0)
        assert answer_of(other, budget) == replace(expected, solver=SOLVER), seed


def with_shuffled(draw: random.Random, candidates: Any) -> tuple[Candidate, ...]:
    """Versions stay in their order, which has a meaning; what they require has none."""
    return tuple(
        replace(it, requires=tuple(draw.sample(it.requires, len(it.requires)))) for it in candidates
    )


def answer_of(universe: Universe, budget: Budget) -> Any:
    resolution = resolve(universe, budget, count=3)
    return replace(resolution, wall_s=0.0)
