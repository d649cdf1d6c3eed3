"""What an upgrade costs or gains: two locks compared, and nothing said that is not settled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from adviser.explain import Change
from adviser.scoring.assess import assess
from adviser.scoring.assessments import Claim
from adviser.scoring.circumstances import Circumstances
from adviser.scoring.contrasts import Stacks
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.judging import Verdict
from adviser.scoring.performance import stack_claims
from common.environments import Environment
from common.packages import Purl
from common.version_ranges import version_of
from graph.candidates import Candidate
from graph.evidence import Evidence
from graph.snapshot import Snapshot

#: Verdicts that say something; equivalence is one of them.
SETTLED = frozenset({Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT})


@dataclass(frozen=True, slots=True)
class Harm:
    """A vulnerability of one version that the other side does not have.

    :param severity: ``None`` if unknown
    """

    name: str
    version: str
    id: str
    severity: str | None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A version of the new lock that its publisher took back."""

    name: str
    version: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Guarded:
    """An upgrade from one lock to another.

    :param changes: packages that differ, in what PEP 440 takes for another version;
        ``advised`` is the new version, ``forced`` the old one
    :param claims: what is settled of the changed packages on this hardware, each by itself
    :param stacks: what is settled of the two locks as a whole, where several packages differ and
        both locks were measured here as they are
    :param open_stacks: indicators by which both locks were measured as a whole, without a verdict
    :param unsettled: changed packages that were measured, without a verdict
    :param introduced: vulnerabilities that come with the new lock
    :param removed: those that go with the old one
    :param yanked: changed packages whose new version was taken back
    :param unknown: new versions that cannot be chosen here, with the reason
    :param unknown_before: the same of old versions, so that nothing is compared with them
    """

    changes: tuple[Change, ...]
    claims: tuple[Claim, ...]
    stacks: tuple[Claim, ...]
    open_stacks: tuple[str, ...]
    unsettled: tuple[str, ...]
    introduced: tuple[Harm, ...]
    removed: tuple[Harm, ...]
    yanked: tuple[Withdrawn, ...]
    unknown: Mapping[str, str]
    unknown_before: Mapping[str, str]

    @property
    def slower(self) -> tuple[Claim, ...]:
        """What the upgrade costs: as a whole where that is settled, else package by package."""
        whole = {it.comparison_key for it in self.stacks}
        parts = (it for it in self.claims if it.comparison_key not in whole)
        return tuple(it for it in (*self.stacks, *parts) if it.verdict is Verdict.SLOWER)

    @property
    def harmful(self) -> bool:
        """Whether something settled speaks against it."""
        return bool(self.slower or self.introduced or self.yanked)


def guard(
    old: Mapping[str, str],
    new: Mapping[str, str],
    snapshot: Snapshot,
    evidence: Evidence,
    environment: Environment,
    hardware: str | None,
) -> Guarded:
    """Compare two locks, each its versions by name.

    Only these two are asked about: no other version takes part in the tests.

    :param snapshot: with the packages of both among its roots
    """
    changes = tuple(
        Change(name, new.get(name), old.get(name))
        for name in sorted(old.keys() | new.keys())
        if not _same(old.get(name), new.get(name))
    )
    changed = {it.name for it in changes}
    ours, theirs = _candidates(snapshot, new), _candidates(snapshot, old)
    told = _package_claims(snapshot, evidence, environment, hardware, (theirs, ours), changed)
    settled = tuple(it for it in told if it.verdict in SETTLED)
    known = {it.package for it in settled}
    asked = Circumstances(hardware or None, environment.python_version)
    whole = _stack_claims(evidence, asked, (old, theirs), (new, ours)) if len(changes) > 1 else []
    return Guarded(
        changes=changes,
        claims=settled,
        stacks=tuple(it for it in whole if it.verdict in SETTLED),
        open_stacks=tuple(sorted({it.indicator for it in whole if it.verdict not in SETTLED})),
        unsettled=tuple(sorted({it.package for it in told if it.package} - known)),
        introduced=_harms(ours.values(), theirs),
        removed=_harms(theirs.values(), ours),
        yanked=tuple(
            Withdrawn(it.name, it.version, it.yanked_reason)
            for name, it in sorted(ours.items())
            if name in changed and it.yanked
        ),
        unknown=dict(_unknown(snapshot, new, ours, changed)),
        unknown_before=dict(_unknown(snapshot, old, theirs, changed)),
    )


def _package_claims(
    snapshot: Snapshot,
    evidence: Evidence,
    environment: Environment,
    hardware: str | None,
    locks: tuple[Mapping[str, Candidate], Mapping[str, Candidate]],
    changed: Collection[str],
) -> list[Claim]:
    """What was measured on this hardware of the new versions next to the old ones."""
    theirs, ours = locks
    two = {it.purl for lock in locks for it in lock.values()}
    packages = {
        name: tuple(it for it in them if it.purl in two) for name, them in snapshot.packages.items()
    }
    assessment = assess(
        replace(snapshot, packages=packages),
        evidence,
        RecommendationType.PERFORMANCE,
        {name: it.version for name, it in theirs.items()},
        Circumstances(hardware or None, environment.python_version),
    )
    purls: set[Purl] = {it.purl for name, it in ours.items() if name in changed}
    return [it for it in assessment.claims_of(purls) if it.same_hardware]


def _stack_claims(
    evidence: Evidence,
    asked: Circumstances,
    old: tuple[Mapping[str, str], Mapping[str, Candidate]],
    new: tuple[Mapping[str, str], Mapping[str, Candidate]],
) -> list[Claim]:
    """What the locks show as a whole, if both are stacks that were measured."""
    stacks = Stacks(evidence)
    before, after = (_measured(stacks, *lock) for lock in (old, new))
    if before is None or after is None:
        return []
    return stack_claims(evidence, stacks, before, after, asked)


def _measured(
    stacks: Stacks, versions: Mapping[str, str], found: Mapping[str, Candidate]
) -> str | None:
    """The digest of the measured stack that a lock is; ``None`` if it is none."""
    purls = frozenset(it.purl for it in found.values())
    if not purls or len(found) < len(versions):
        return None
    holding = stacks.holding(min(purls))
    return next((it for it in holding if stacks.members[it] == purls), None)


def _candidates(snapshot: Snapshot, versions: Mapping[str, str]) -> dict[str, Candidate]:
    found = {}
    for name, version in versions.items():
        for it in snapshot.packages.get(name, ()):
            if _same(it.version, version):
                found[name] = it
                break
    return found


def _same(one: str | None, other: str | None) -> bool:
    """Whether two texts are one version: ``1.0`` is ``1.0.0``."""
    if one == other or one is None or other is None:
        return one == other
    parsed = version_of(one)
    return parsed is not None and parsed == version_of(other)


def _harms(ours: Iterable[Candidate], theirs: Mapping[str, Candidate]) -> tuple[Harm, ...]:
    found = []
    for it in ours:
        other = theirs.get(it.name)
        known = {harm.id for harm in other.vulnerabilities} if other else set()
        found += [
            Harm(it.name, it.version, harm.id, harm.severity)
            for harm in it.vulnerabilities
            if harm.id not in known
        ]
    return tuple(sorted(found, key=lambda it: (it.name, it.id)))


def _unknown(
    snapshot: Snapshot,
    lock: Mapping[str, str],
    found: Mapping[str, Candidate],
    changed: Collection[str],
) -> Iterator[tuple[str, str]]:
    """The versions of a lock that are no candidates, with the reason, by name."""
    for name, version in sorted(lock.items()):
        if name in changed and name not in found:
            out = (it for it in snapshot.excluded.get(name, ()) if _same(it.version, version))
            why = next((it.message for it in out), "nothing is known of this version")
            yield name, f"{version}: {why}"
