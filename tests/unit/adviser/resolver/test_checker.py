"""The checker finds what is wrong with an answer that was tampered with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Choice, Resolution, ResolutionStatus, ResolvedStack
from adviser.resolver.universe import Universe
from tests.factories.universes import newest_scores, snapshot_of

INDEX = {
    "app": {"2.0": {"requires": ["lib[fast]>=2"]}, "1.0": {"requires": ["lib"]}},
    "lib": {
        "3.0rc1": {},
        "2.5": {"yanked": True},
        "2.0": {"requires": ["speed; extra == 'fast'"]},
        "1.0": {},
    },
    "speed": {"1.0": {}},
}


@pytest.fixture
def universe() -> Universe:
    snapshot = snapshot_of(INDEX, ["app"])
    return universe_of(snapshot, ResolverRequest(), newest_scores(snapshot))


def changed(stack: ResolvedStack, name: str, universe: Universe, version: str) -> ResolvedStack:
    """Another version of a package, with everything that is said of it right."""
    choices = list(stack.choices)
    at = next(at for at, it in enumerate(choices) if it.name == name)
    candidates = universe.packages[name]
    place = next(place for place, it in enumerate(candidates) if it.version == version)
    choices[at] = replace(
        choices[at],
        version=version,
        purl=candidates[place].purl,
        place=place,
        contributions=universe.contributions[candidates[place].purl],
    )
    return recounted(choices)


def recounted(choices: Sequence[Choice]) -> ResolvedStack:
    """The sums of a stack by its choices; no criterion is of newness, and app alone is direct."""
    uninvited = sum("rc" in it.version or it.version == "2.5" for it in choices)
    levels = (sum(it.score for it in choices), 0, 0)
    return ResolvedStack(tuple(choices), sum(it.place for it in choices), levels, uninvited)


def without(stack: ResolvedStack, name: str) -> ResolvedStack:
    return recounted([it for it in stack.choices if it.name != name])


def all_changed(stack: ResolvedStack, **changes: Any) -> ResolvedStack:
    return replace(stack, choices=tuple(replace(it, **changes) for it in stack.choices))


Tamper = Callable[[ResolvedStack, Universe], ResolvedStack]


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (lambda stack, u: changed(stack, "lib", u, "1.0"), "lib 1.0 is not within >=2"),
        (lambda stack, u: changed(stack, "lib", u, "2.5"), "is yanked"),
        (lambda stack, u: changed(stack, "lib", u, "3.0rc1"), "is a pre-release, and 2.0 would do"),
        (lambda stack, u: changed(stack, "app", u, "1.0"), "nothing requires speed"),
        (lambda stack, u: without(stack, "speed"), "speed is required and missing"),
        (lambda stack, u: without(stack, "app"), "app is required and missing"),
        (lambda stack, u: replace(stack, passed_over=7), "passed over"),
        (lambda stack, u: replace(stack, levels=(1, 0, 0)), "its score by level is (0, 0, 0"),
        (lambda stack, u: replace(stack, uninvited=1), "does not count its yanked"),
        (lambda stack, u: ResolvedStack((*stack.choices, stack.choices[0]), 2), "chosen twice"),
        (lambda stack, u: all_changed(stack, version="9.9"), "app 9.9 may not be chosen"),
        (lambda stack, u: all_changed(stack, extras=()), "extras are ['fast']"),
        (lambda stack, u: all_changed(stack, contributions=(1,)), "the contributions are"),
        (lambda stack, u: all_changed(stack, place=0), "2 versions are newer"),
    ],
)
def test_checker_detects_a_wrong_stack(tamper: Tamper, found: str, universe: Universe) -> None:
    resolution = resolve(universe)
    assert check_resolution(universe, resolution) == []
    wrong = replace(resolution, stacks=(tamper(resolution.stacks[0], universe),))
    assert any(found in problem for problem in check_resolution(universe, wrong))


def test_checker_detects_a_wrong_resolution(universe: Universe) -> None:
    right = resolve(universe, count=2)
    assert len(right.stacks) == 2
    one, other = right.stacks

    def problems(**changes: object) -> str:
        return "; ".join(check_resolution(universe, replace(right, **changes)))  # type: ignore[arg-type]

    assert "out of order" in problems(stacks=(other, one))
    assert "two stacks are the same" in problems(stacks=(one, one))
    first, *others = right.objective or ()
    assert "the objective is not" in problems(objective=(-5, 0, 0), bound=(-5, 0, 0))
    assert "bound is below" in problems(bound=(first - 1, *others))
    assert "must be optimal if, and only if" in problems(bound=(first + 1, *others))
    assert "but there are" in problems(stacks=())
    assert "but there are" in problems(status=ResolutionStatus.INFEASIBLE)
    assert problems() == ""
    assert check_resolution(universe, Resolution(ResolutionStatus.UNKNOWN)) == []
