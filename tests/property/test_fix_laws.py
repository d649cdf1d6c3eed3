"""Laws of fixes: the smallest change is what trying everything finds, and so is what blocks it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from adviser.advise import UnreadVersions
from adviser.fix import ASSUMPTION, Fix, FixResult, FixSearch
from adviser.fix_universe import LEVELS, CountedVulnerabilities, LockToFix
from adviser.guard import guard
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.listed_versions import NeededReads, ReadingRounds
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.scoring.criteria import AllowList
from model.measurements.evidence import Evidence
from model.packages.candidates import (
    Absence,
    AbsenceReason,
    Candidate,
    Dependency,
    KnownVulnerability,
)
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot, with_absences
from tests.effort import examples, slow
from tests.factories.drawn_indexes import PLAIN, drawn_index, drawn_requirement
from tests.factories.evidence import GAIN, HERE, Bench, jobs
from tests.factories.stacks_by_force import stacks_by_force
from tests.factories.universes import ENVIRONMENT, snapshot_of

NOTHING = AllowList((), {})
NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNMEASURED = Evidence(NOW)
#: The drawn index has everything that there is.
NOT_FOUND = Absence(AbsenceReason.NOT_FOUND, "the index does not have it")
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


def drawn_lock(seed: int, *, alike: bool = False, plain: bool = False) -> Drawn:
    """A lock with a vulnerability that counts.

    :param alike: whether all versions of a package require the same packages
    :param plain: without pre-releases and yanked versions
    """
    drawn = (_drawn(random.Random(1000 * seed + more), alike, plain) for more in range(1000))
    return next(it for it in drawn if it is not None and is_open(it))


def is_open(drawn: Drawn) -> bool:
    return any(
        drawn.lock.counted.to_remove(it)
        for name, version in drawn.locked.items()
        for it in drawn.snapshot.packages[name]
        if it.version == version
    )


def _drawn(draw: random.Random, alike: bool, plain: bool) -> Drawn | None:
    """``None`` if nothing meets the drawn requirements."""
    index = drawn_index(draw, plain=plain)
    for releases in index.values() if alike else ():
        first, *others = releases.values()
        for other in others:
            other["requires"] = [drawn_like(draw, it) for it in first["requires"]]
    requirements = [
        drawn_requirement(draw, plain).partition(";")[0] for _ in range(draw.randint(1, 3))
    ]
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
    snapshot = with_absences(
        replace(snapshot, packages=packages), dict.fromkeys(snapshot.missing, NOT_FOUND)
    )
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
            far = abs(majors.index(one.major) - majors.index(other.major))
            if one.major != other.major or other < one:
                steps[0] += max(far, 1)
            elif one.minor != other.minor:
                places = [minors.index((it.major, it.minor)) for it in (one, other)]
                steps[1] += abs(places[0] - places[1])
            else:
                steps[2] += 1
    return introduced, remaining, young, changed, *steps


@pytest.mark.parametrize("part", [0, *slow(range(1, 22))])
def test_smallest_fixes_of_1100_locks_equal_exhaustive_search(part: int) -> None:
    fixable = kept = 0
    for seed in range(part * 50, part * 50 + 50):
        drawn = drawn_lock(seed)
        universe = candidates_to_choose(drawn)
        stacks = [
            ((costs_of(drawn, universe, versions), *key[1:]), versions)
            for key, versions in stacks_by_force(universe)
        ]
        best, expected = min(stacks, key=lambda it: it[0])
        for budget in EITHER_WAY if examples(2) == 2 else [EITHER_WAY[seed % 2]]:
            result = fixed(drawn, budget)
            assert result.open, seed
            smallest = result.fixes[0]
            assert smallest.proof is not None
            assert tuple(smallest.proof.numbers.values()) == best[0][: len(LEVELS)], seed
            assert dict(smallest.versions) == expected, seed
            assert smallest.is_proven, seed
            assert result.resolution is not None
            assert check_resolution(result.universe.universe, result.resolution) == [], seed
            assert len(smallest.changed) == best[0][3], seed
            assert len(smallest.introduced) == best[0][0], seed
            check_blocked(drawn, universe, stacks, result, smallest)
        fixable += bool(smallest.fixed)
        kept += bool(smallest.remaining)
    assert min(fixable, kept) > 2


def fixed(drawn: Drawn, budget: Budget, evidence: Evidence = UNMEASURED) -> FixResult:
    inputs = drawn.lock, drawn.snapshot, evidence, ENVIRONMENT, HERE
    return FixSearch(*inputs, partial(resolve, budget=budget)).result()


@pytest.mark.parametrize("budget", EITHER_WAY, ids=["branch and bound", "solver"])
@pytest.mark.parametrize("part", [0, *slow(range(1, 12))])
def test_fix_after_few_reads_equals_the_fix_after_all_reads(part: int, budget: Budget) -> None:
    """An unread version may need what read versions of its package need, and nothing else."""
    compared = spared = 0
    for seed in range(5000 + part * 20, 5000 + part * 20 + 20):
        drawn = drawn_lock(seed, alike=True)
        expected = fixed(drawn, budget)
        result, read = fixed_by_reading(drawn, budget)
        assert result.open == expected.open, seed
        for ours, theirs in zip(result.fixes, expected.fixes, strict=True):
            assert ours.versions == theirs.versions, seed
            assert [it.key for it in ours.remaining] == [it.key for it in theirs.remaining], seed
            assert ours.is_proven, seed
            compared += 1
        spared += sum(map(len, drawn.snapshot.packages.values())) - len(read)
    assert compared > 5
    assert spared > compared


@pytest.mark.parametrize("part", [0, *slow(range(1, 12))])
def test_fix_proof_over_unread_versions_holds_for_independent_versions(part: int) -> None:
    held = 0
    for seed in range(7000 + part * 20, 7000 + part * 20 + 20):
        drawn = drawn_lock(seed, plain=True)
        first = fixed_by_reading(drawn, Budget())[0].fixes[0]
        expected = fixed(drawn, Budget()).fixes[0]
        assert first.proof is not None
        assert expected.proof is not None
        assert expected.proof.assumption is None
        if first.proof.assumption != ASSUMPTION:
            held += 1
            assert first.proof.numbers == expected.proof.numbers, seed
    assert held > 5


@pytest.mark.parametrize("part", [0, *slow(range(1, 6))])
def test_smallest_fix_without_a_slowdown_equals_exhaustive_search(part: int) -> None:
    """The smallest fix of which nothing is settled to be slower is what trying everything finds."""
    compared = 0
    for seed in range(9000 + part * 40, 9000 + part * 40 + 40):
        drawn = drawn_lock(seed)
        evidence = levels_of_package(drawn, seed)
        result = fixed(drawn, Budget(), evidence)
        universe = candidates_to_choose(drawn)
        fine = [
            (costs_of(drawn, universe, versions), *key[1:])
            for key, versions in stacks_by_force(universe)
            if not guard(drawn.locked, versions, drawn.snapshot, evidence, ENVIRONMENT, HERE).slower
        ]
        kinds = {it.kind: it for it in result.fixes}
        best = kinds.get("not_slower", kinds["smallest"])
        assert bool(result.fixes[0].slower) == (len(kinds) > 1) or not fine, seed
        assert best.proof is not None
        if not result.fixes[0].slower or len(kinds) > 1:
            assert not best.slower, seed
            assert tuple(best.proof.numbers.values()) == min(fine)[0], seed
        compared += len(kinds) > 1
    assert compared


def levels_of_package(drawn: Drawn, seed: int) -> Evidence:
    """Measurements of all versions of a vulnerable package, of which some are slower."""
    draw, bench = random.Random(seed), Bench()
    name = next(
        it for it, version in drawn.locked.items()
        for one in drawn.snapshot.packages[it]
        if one.version == version and drawn.lock.counted.to_remove(one)
    )  # fmt: skip
    others = [f"{it}=={version}" for it, version in drawn.locked.items() if it != name]
    for candidate in drawn.snapshot.packages[name]:
        is_locked = candidate.version == drawn.locked[name]
        level = 0.0 if is_locked else draw.choice([0.0, -GAIN])
        bench.measure(bench.stack(f"{name}=={candidate.version}", *others), jobs(level, 10))
    return bench.evidence()


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
            result = FixSearch(*inputs, noting, partial(resolve, budget=budget)).result()
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
    stacks: list[tuple[Costs, dict[str, str]]],
    result: FixResult,
    smallest: Fix,
) -> None:
    """A conflict is real: no stack removes the vulnerability and introduces none.

    Its requirers have the stated requirement. Otherwise what is named is what the best stack that
    removes the vulnerability has instead.
    """
    kept = open_in(drawn, universe, smallest.versions)
    for it in smallest.remaining:
        blocker = it.blocked_by
        assert blocker is not None
        assert blocker.proven
        removing = [
            (key, versions)
            for key, versions in stacks
            if not has(universe, versions, *it.key) and (smallest.introduced or not key[0][0])
        ]
        assert blocker.reasons
        if removing:
            _, instead = min(removing, key=lambda them: them[0])
            gained = open_in(drawn, universe, instead) - kept
            assert blocker.reasons[0].endswith("would be open instead")
            assert all(f"{one} (" in blocker.reasons[0] for _, one in gained)
            assert gained
        else:
            assert "instead" not in blocker.reasons[0]
            assert all(is_requirer(drawn, universe, one) for one in blocker.requirers)


def open_in(drawn: Drawn, universe: Universe, versions: Mapping[str, str]) -> set[tuple[str, str]]:
    """The vulnerabilities that count in a stack: those to remove, and those that it introduces."""
    counted, found = drawn.lock.counted, set[tuple[str, str]]()
    for name, version in versions.items():
        candidate = next(it for it in universe.packages[name] if it.version == version)
        ours = [
            v for it in universe.packages[name] if it.version == drawn.locked.get(name)
            for v in counted.to_remove(it)
        ]  # fmt: skip
        all_of_locked = {
            v.id for it in universe.packages[name] if it.version == drawn.locked.get(name)
            for v in it.vulnerabilities
        }  # fmt: skip
        found |= {
            (name, it.id) for it in candidate.vulnerabilities
            if it in ours or (it.id not in all_of_locked and counted.counts(candidate, it))
        }  # fmt: skip
    return found


def is_requirer(drawn: Drawn, universe: Universe, text: str) -> bool:
    """Whether a sentence such as ``web 2 requires core<2`` is true of some version."""
    who, _, wanted = text.partition(" requires ")
    requirement = Requirement(wanted)
    required = drawn.roots if who == "the project" else [
        one for it in universe.packages[who.split()[0]] for one in it.requires
    ]  # fmt: skip
    return any(
        it.name == requirement.name and SpecifierSet(it.specifier) == requirement.specifier
        for it in required
    )


def has(universe: Universe, versions: Mapping[str, str], name: str, identifier: str) -> bool:
    version = versions.get(name)
    return any(
        it.version == version and any(v.id == identifier for v in it.vulnerabilities)
        for it in universe.packages[name]
    )
