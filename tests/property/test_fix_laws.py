"""Laws of fixes: the smallest change is what trying everything finds, and so is what blocks it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from adviser.advise import UnreadVersions
from adviser.fix import Fix, FixResult, FixSearch
from adviser.fix_universe import CountedVulnerabilities, LockToFix
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.relaxation import NeededReads, ReadingRounds
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.scoring.vulnerability_policy import AllowList
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, Dependency, KnownVulnerability
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from tests.effort import slow
from tests.factories.drawn_indexes import PLAIN, drawn_index, drawn_requirement
from tests.factories.stacks_by_force import stacks_by_force
from tests.factories.universes import ENVIRONMENT, snapshot_of

NOTHING = AllowList((), {})
NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: What branch and bound proves, and the same by the solver.
EITHER_WAY = (Budget(), Budget(steps=0))
#: Costs of a stack by level, and what breaks ties.
Costs = tuple[int, ...]


@dataclass
class Drawn:
    """A lock that meets a project's requirements, or stands alone, and vulnerabilities."""

    snapshot: Snapshot
    lock: LockToFix
    locked: Mapping[str, str]
    #: The same rules in plain words, for the oracle.
    roots: tuple[Dependency, ...]


def drawn_lock(seed: int, *, alike: bool = False) -> Drawn:
    """A lock with a vulnerability that counts.

    :param alike: whether all versions of a package require the same packages
    """
    drawn = (_drawn(random.Random(1000 * seed + more), alike) for more in range(1000))
    return next(it for it in drawn if it is not None and is_open(it))


def is_open(drawn: Drawn) -> bool:
    return any(
        drawn.lock.counted.to_remove(it)
        for name, version in drawn.locked.items()
        for it in drawn.snapshot.packages[name]
        if it.version == version
    )


def _drawn(draw: random.Random, alike: bool) -> Drawn | None:
    """``None`` if nothing meets the drawn requirements."""
    index = drawn_index(draw)
    for releases in index.values() if alike else ():
        first, *others = releases.values()
        for other in others:
            other["requires"] = [drawn_like(draw, it) for it in first["requires"]]
    requirements = [drawn_requirement(draw).partition(";")[0] for _ in range(draw.randint(1, 3))]
    snapshot = snapshot_of(index, sorted({*requirements, *index}))
    own = {it.partition("[")[0] for it in requirements}
    roots = tuple(
        it for it in snapshot_of(index, requirements).roots
        if any(one.startswith(it.name) for one in own)
    )  # fmt: skip
    stacks = stacks_by_force(universe_of(snapshot, ResolverRequest(roots=roots), {}))
    if not stacks:
        return None
    locked = draw.choice(stacks)[1]
    packages = {
        name: tuple(replace(it, vulnerabilities=drawn_vulnerabilities(draw)) for it in them)
        for name, them in snapshot.packages.items()
    }
    snapshot = replace(snapshot, packages=packages)
    alone = draw.random() < 0.5
    lock = LockToFix(
        locked,
        CountedVulnerabilities(
            AllowList(["V-3"] if draw.random() < 0.2 else [], {}),
            AllowList(["V-1"], {}) if draw.random() < 0.2 else None,
        ),
        ResolverRequest(),
        () if alone else roots,
        young_from=NOW if draw.random() < 0.3 else None,
    )
    if lock.young_from is not None:
        ages = [NOW.replace(year=2025), NOW.replace(month=2)]
        packages = {
            name: tuple(replace(it, uploaded_at=draw.choice(ages)) for it in them)
            for name, them in packages.items()
        }
        snapshot = replace(snapshot, packages=packages)
    return Drawn(snapshot, lock, locked, free_roots(snapshot, locked) if alone else roots)


def drawn_like(draw: random.Random, requirement: str) -> str:
    """The same requirement with another specifier."""
    like = Requirement(requirement)
    like.specifier = SpecifierSet(draw.choice(PLAIN))
    return str(like)


def drawn_vulnerabilities(draw: random.Random) -> tuple[KnownVulnerability, ...]:
    count = draw.choice([0, 0, 1, 1, 2])
    return tuple(map(KnownVulnerability, sorted(draw.sample(["V-1", "V-2", "V-3", "V-4"], count))))


def free_roots(snapshot: Snapshot, locked: Mapping[str, str]) -> tuple[Dependency, ...]:
    """What nothing in a lock requires; of packages that only require each other, the first."""
    chosen = {n: next(it for it in snapshot.packages[n] if it.version == v)
              for n, v in locked.items()}  # fmt: skip
    roots: list[str] = []
    left = set(locked)
    while left:
        required = {
            it.name for name in left for it in chosen[name].requires
            if it.extra is None and it.name != name
        }  # fmt: skip
        roots += sorted(left - required) or [min(left)]
        left = set(locked) - with_extras(chosen, roots)
    return tuple(map(Dependency, roots))


def with_extras(chosen: Mapping[str, Candidate], roots: list[str]) -> set[str]:
    """What roots reach in a lock, with the extras that are asked for on the way."""
    asked: set[tuple[str, str | None]] = {(name, None) for name in roots}
    size = 0
    while len(asked) > size:
        size = len(asked)
        for name, extra in list(asked):
            for it in chosen[name].requires if name in chosen else ():
                if it.extra == extra:
                    asked |= {(it.name, None), *((it.name, one) for one in it.extras)}
    return {name for name, _ in asked}


def candidates_to_choose(drawn: Drawn) -> Universe:
    """The universe without yanked versions, but for locked ones, with the lock's pre-releases."""
    packages = {
        name: tuple(it for it in them if not it.yanked or drawn.locked.get(name) == it.version)
        for name, them in drawn.snapshot.packages.items()
    }
    named = {it.name: it.purl for them in packages.values() for it in them
             if drawn.locked.get(it.name) == it.version}  # fmt: skip
    early = {it.name for them in packages.values() for it in them
             if it.prerelease and it.purl == named.get(it.name)}  # fmt: skip
    made = universe_of(
        replace(drawn.snapshot, packages=packages),
        ResolverRequest(roots=drawn.roots, prereleases=frozenset(early)), {},
    )  # fmt: skip
    return replace(made, pinned=made.pinned | {*named.values()})


def costs_of(drawn: Drawn, universe: Universe, versions: Mapping[str, str]) -> Costs:
    """Introduced, open, young, changed, and steps of each kind, from their definitions."""
    introduced = remaining = young = changed = 0
    steps = [0, 0, 0]
    counted = drawn.lock.counted
    for name in {*versions, *drawn.locked}:
        old, new = drawn.locked.get(name), versions.get(name)
        changed += old != new
        if new is None:
            continue
        listed = universe.packages[name]
        candidate = next(it for it in listed if it.version == new)
        ours = next((it for it in listed if it.version == old), None)
        known = {it.id for it in ours.vulnerabilities} if ours else set()
        counting = {it.id for it in candidate.vulnerabilities} - set(
            ["V-3"] if counted.accepted.accepts(KnownVulnerability("V-3")) else []
        )
        introduced += len(counting - known)
        remaining += len(counting if counted.only is None else counting & known & {"V-1"})
        if drawn.lock.young_from is not None and old != new:
            young += candidate.uploaded_at is not None and candidate.uploaded_at >= NOW
        if old is not None and old != new:
            one, other = Version(old), Version(new)
            releases = [Version(it.version) for it in listed]
            majors = sorted({it.major for it in releases})
            minors = sorted({(it.major, it.minor) for it in releases})
            if one.major != other.major:
                steps[0] += abs(majors.index(one.major) - majors.index(other.major))
            elif one.minor != other.minor:
                places = [minors.index((it.major, it.minor)) for it in (one, other)]
                steps[1] += abs(places[0] - places[1])
            else:
                steps[2] += 1
    return introduced, remaining, young, changed, *steps


@pytest.mark.parametrize("budget", EITHER_WAY, ids=["branch and bound", "solver"])
@pytest.mark.parametrize("part", [0, *slow(range(1, 11))])
def test_the_smallest_fixes_of_1100_locks_equal_brute_force(part: int, budget: Budget) -> None:
    fixable = kept = 0
    for seed in range(part * 100, part * 100 + 100):
        drawn = drawn_lock(seed)
        universe = candidates_to_choose(drawn)
        stacks = [
            ((costs_of(drawn, universe, versions), *key[1:]), versions)
            for key, versions in stacks_by_force(universe)
        ]
        best, expected = min(stacks, key=lambda it: it[0])
        result = fixed(drawn, budget)
        assert result.open, seed
        smallest = result.fixes[0]
        assert smallest.resolution is not None
        objective = smallest.resolution.objective or ()
        assert tuple(-it for it in objective) == best[0], seed
        assert dict(smallest.versions) == expected, seed
        assert smallest.is_proven, seed
        assert check_resolution(result.universe.universe, smallest.resolution) == [], seed
        assert len(smallest.changes) == best[0][3], seed
        assert len(smallest.introduced) == best[0][0], seed
        fixable += bool(smallest.fixed)
        kept += bool(smallest.remaining)
        check_blocked(drawn, universe, [it for _, it in stacks], result, smallest)
    assert min(fixable, kept) > 5


def fixed(drawn: Drawn, budget: Budget) -> FixResult:
    def resolver(
        universe: Universe, budget: Budget | None = budget, *, count: int = 1
    ) -> Resolution:
        return resolve(universe, budget, count=count)

    evidence = Evidence(NOW)
    inputs = drawn.lock, drawn.snapshot, evidence, ENVIRONMENT, None
    search = FixSearch(*inputs, resolver, budget)
    return search.result()


@pytest.mark.parametrize("budget", EITHER_WAY, ids=["branch and bound", "solver"])
@pytest.mark.parametrize("part", [0, *slow(range(1, 6))])
def test_reading_a_few_versions_gives_what_reading_all_gives(part: int, budget: Budget) -> None:
    """An unread version may need what read versions of its package need, and nothing else."""
    compared = spared = 0
    for seed in range(5000 + part * 40, 5000 + part * 40 + 40):
        drawn = drawn_lock(seed, alike=True)
        expected = fixed(drawn, budget)
        result, read = fixed_by_reading(drawn, budget)
        assert result.open == expected.open, seed
        for ours, theirs in zip(result.fixes, expected.fixes, strict=True):
            assert ours.versions == theirs.versions, seed
            assert ours.remaining == theirs.remaining, seed
            assert ours.is_proven, seed
            compared += 1
        spared += sum(map(len, drawn.snapshot.packages.values())) - len(read)
    assert compared > 5
    assert spared > compared


def fixed_by_reading(drawn: Drawn, budget: Budget) -> tuple[FixResult, set[Purl]]:
    """The fixes of a lock, and the versions that were read for these."""
    read: set[Purl] = set()
    reading = ReadingRounds()
    while True:
        packages = {
            name: tuple(it if it.purl in read else replace(it, requires=(), extras=(), read=False)
                        for it in them)
            for name, them in drawn.snapshot.packages.items()
        }  # fmt: skip
        known, needed = replace(drawn.snapshot, packages=packages), list[NeededReads]()

        def noting(
            universe: Universe, budget: Budget | None = budget, *, count: int = 1,
            packages: Mapping[str, tuple[Candidate, ...]] = packages,
            needed: list[NeededReads] = needed,
        ) -> Resolution:  # fmt: skip
            resolution = resolve(universe, budget, count=count)
            needed.append(reading.needed(universe, resolution, packages))
            return resolution

        inputs = drawn.lock, known, Evidence(NOW), ENVIRONMENT, None
        try:
            result = FixSearch(*inputs, noting, budget).result()
            if not any(needed):
                return result, read
        except UnreadVersions as unread:
            needed.append(unread.reads)
        before = len(read)
        read.update(it.purl for reads in needed for it in reads.versions)
        assert len(read) > before


def check_blocked(
    drawn: Drawn,
    universe: Universe,
    stacks: list[dict[str, str]],
    result: FixResult,
    smallest: Fix,
) -> None:
    """A conflict is real: no stack removes the vulnerability and introduces none."""
    least = costs_of(drawn, universe, smallest.versions)
    for it in smallest.remaining:
        blocker = result.blocked[it.key]
        removing = [
            costs_of(drawn, universe, versions)
            for versions in stacks
            if not has(universe, versions, *it.key)
        ]
        possible = [costs for costs in removing if costs[0] == 0]
        assert blocker.proven
        if possible:
            assert min(possible)[1] >= least[1] or least[0] > 0
            assert "instead" in blocker.reasons[0]
        else:
            assert "instead" not in blocker.reasons[0]
            assert blocker.reasons


def has(universe: Universe, versions: Mapping[str, str], name: str, identifier: str) -> bool:
    version = versions.get(name)
    return any(
        it.version == version and any(v.id == identifier for v in it.vulnerabilities)
        for it in universe.packages[name]
    )
