"""Resolving over listed versions while reading few finds what reading everything finds."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.listed_versions import NeededReads, may_invite_better, resolve_listed
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.results import Resolution, ResolutionStatus
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from tests.effort import slow
from tests.factories.stacks_by_force import stacks_by_force
from tests.factories.universes import snapshot_of

NAMES = ["a", "b", "c", "d"]
VERSIONS = ["3.0", "3.0rc1", "2.0", "1.5.1", "1.5", "1.0.1", "1.0"]
SPECIFIERS = [
    "", "", "", ">=1.5", "<2", "==2.0", "!=2.0", ">=2", "~=1.0", ">=3.0rc1", "==3.0rc1", ">2",
    "<=1.5.1",
]  # fmt: skip
EXTRAS = ["", "", "", "[x]", "[x,y]"]
MARKERS = ["", "", "", "; extra == 'x'", "; extra == 'y'", "; python_version < '3'"]

#: What branch and bound proves, and the same by the solver.
EITHER_WAY = (Budget(), Budget(steps=0))


def drawn_requirement(draw: random.Random) -> str:
    # Now and then a package that nobody knows.
    name = draw.choice(NAMES)
    return f"{name}{draw.choice(EXTRAS)}{draw.choice(SPECIFIERS)}{draw.choice(MARKERS)}"


def drawn_root(draw: random.Random) -> str:
    # An extra that the request asks for rules out most versions.
    extras = draw.choice(["", "", "", "", "[x]"])
    return f"{draw.choice(NAMES)}{extras}{draw.choice(SPECIFIERS)}"


@dataclass
class Listing:
    """An index of which pages and metadata are read on demand.

    :param truth: everything, as if all had been read
    :param unreadable: versions whose metadata turns out to be broken
    """

    truth: Snapshot
    request: ResolverRequest
    scores: Mapping[Purl, tuple[int, ...]]
    newness: set[int]
    unreadable: set[Purl]
    listed: set[str] = field(default_factory=set)
    read: set[Purl] = field(default_factory=set)

    def universe(self) -> tuple[Universe, Mapping[str, Sequence[Candidate]]]:
        """What is known so far."""
        known = self.snapshot()
        made = universe_of(known, self.request, self.scores, {2}, self.newness)
        return made, known.packages

    def snapshot(self) -> Snapshot:
        packages = {
            name: tuple(
                it if it.purl in self.read else replace(it, requires=(), extras=(), read=False)
                for it in candidates
                if not (it.purl in self.read and it.purl in self.unreadable)
            )
            for name, candidates in self.truth.packages.items()
            if name in self.listed
        }
        missing = tuple(sorted(self.listed - self.truth.packages.keys()))
        return replace(self.truth, packages=MappingProxyType(packages), missing=missing)

    def follow(self, reads: NeededReads) -> None:
        assert all(it.purl not in self.read for it in reads.versions)
        assert not self.listed.intersection(reads.packages)
        self.read.update(it.purl for it in reads.versions)
        self.listed.update(reads.packages)

    def whole(self) -> Universe:
        """The true universe."""
        packages = {
            name: tuple(it for it in candidates if it.purl not in self.unreadable)
            for name, candidates in self.truth.packages.items()
        }
        truth = replace(self.truth, packages=MappingProxyType(packages))
        return universe_of(truth, self.request, self.scores, {2}, self.newness)


def drawn_listing(seed: int) -> Listing:
    draw = random.Random(seed)
    index: dict[str, dict[str, dict[str, Any]]] = {}
    for name in NAMES[: draw.randint(2, 4)]:
        versions = [v for v in VERSIONS if draw.random() < 0.5] or ["1.0"]
        index[name] = {
            version: {
                "requires": [drawn_requirement(draw) for _ in range(draw.randint(0, 3))],
                "yanked": draw.random() < 0.12,
            }
            for version in versions
        }
    roots = [drawn_root(draw) for _ in range(draw.randint(1, 3))]
    snapshot = snapshot_of(index, roots)
    direct = [it.name for it in snapshot.roots]
    draw.shuffle(direct)
    bounds = [Dependency(draw.choice(NAMES), draw.choice(SPECIFIERS))] * (draw.random() < 0.2)
    candidates = [it for them in snapshot.packages.values() for it in them]
    return Listing(
        snapshot,
        ResolverRequest(
            direct=tuple(dict.fromkeys(direct)),
            constraints=tuple(bounds),
            inferred_bounds=draw.random() < 0.5,
        ),
        # Few different scores, so that much ties; the last is a penalty.
        {
            it.purl: (draw.randint(-1, 1), draw.choice([0, 0, -3]), draw.choice([0, 0, -1, -2]))
            for it in candidates
        },
        draw.choice([{0, 1}, {1}, {1, 2}, set()]),
        {it.purl for it in candidates if draw.random() < 0.08},
    )


def has_invited(whole: Universe, versions: Mapping[str, str]) -> bool:
    """Whether a stack has a version that only another package can admit."""
    return any(
        whole.needs_invitation(it)
        for name, version in versions.items()
        for it in whole.packages[name]
        if it.version == version
    )


def resolved(listing: Listing, budget: Budget, count: int) -> tuple[Resolution, Universe]:
    """The result, and its universe."""
    rounds = resolve_listed(listing, Listing.universe, partial(resolve, budget=budget), count=count)
    try:
        reads = next(rounds)
        while True:
            listing.follow(reads)
            reads = rounds.send(listing)
    except StopIteration as end:
        _, universe, resolution = end.value
        return resolution, universe


@pytest.mark.parametrize("budget", EITHER_WAY, ids=["branch and bound", "solver"])
@pytest.mark.parametrize("part", [0, *slow(range(1, 10))])
def test_resolution_over_listed_versions_equals_brute_force(part: int, budget: Budget) -> None:
    solved = spared = conflicts = with_exception = without_exception = 0
    # The solver is slower by far, and shares everything but the search itself.
    for seed in range(part * 200, part * 200 + (200 if budget.steps else 50)):
        listing = drawn_listing(seed)
        count = 1 + seed % 3
        resolution, universe = resolved(listing, budget, count)
        # Values come from pages: a version that nobody found out to be broken counts for them.
        whole = replace(listing.whole(), contributions=universe.contributions)
        expected = stacks_by_force(whole)
        found = [stack.versions() for stack in resolution.stacks]
        best = [versions for _, versions in expected]
        if found != best[:count]:
            # Only what a version that nobody read invites may be missing.
            assert found == [it for it in best if it in found], seed
            end = best.index(found[-1]) if len(found) == count else len(best)
            missing = [it for it in best[:end] if it not in found]
            assert all(has_invited(whole, it) for it in missing), seed
        assert check_resolution(universe, resolution) == [], seed
        total = sum(map(len, listing.truth.packages.values()))
        spared += total - len(listing.read)
        if expected:
            solved += 1
            assert resolution.status is ResolutionStatus.OPTIMAL
            costs = tuple(-it for it in resolution.objective or ())
            assert costs == expected[best.index(found[0])][0][0], seed
            unread = universe.inviting() is not None and any(costs)
            if not may_invite_better(universe, resolution):
                assert costs == expected[0][0][0], seed
                without_exception += unread
            else:
                with_exception += unread
        else:
            assert resolution.status is ResolutionStatus.INFEASIBLE
            assert resolution.conflict.minimal, seed
            conflicts += 1
    assert min(solved, conflicts) > 5, (solved, conflicts)
    assert spared > 200  # most versions are never read
    if budget.steps:
        assert min(without_exception, with_exception) > 2, (without_exception, with_exception)
