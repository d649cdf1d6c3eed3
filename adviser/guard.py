"""What an upgrade costs or gains: two locks compared, and nothing said that is not settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adviser.explain import Change
from adviser.scoring.assess import assess
from adviser.scoring.assessments import Claim
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.verdicts import Verdict
from common.environments import Environment
from common.packages import Purl
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
class Guarded:
    """An upgrade from one lock to another.

    :param changes: packages that differ; ``advised`` is the new version, ``forced`` the old one
    :param claims: what is settled of the changed packages on this hardware
    :param unsettled: changed packages that were measured, without a verdict
    :param introduced: vulnerabilities that come with the new lock
    :param removed: those that go with the old one
    :param unknown: new versions that cannot be chosen here, with the reason
    """

    changes: tuple[Change, ...]
    claims: tuple[Claim, ...]
    unsettled: tuple[str, ...]
    introduced: tuple[Harm, ...]
    removed: tuple[Harm, ...]
    unknown: Mapping[str, str]

    @property
    def slower(self) -> tuple[Claim, ...]:
        """What the upgrade costs."""
        return tuple(it for it in self.claims if it.verdict is Verdict.SLOWER)

    @property
    def harmful(self) -> bool:
        """Whether something settled speaks against it."""
        return bool(self.slower or self.introduced)


def guard(
    old: Mapping[str, str],
    new: Mapping[str, str],
    snapshot: Snapshot,
    evidence: Evidence,
    environment: Environment,
    hardware: str | None,
) -> Guarded:
    """Compare two locks, each its versions by name.

    :param snapshot: with the packages of both among its roots
    """
    assessment = assess(
        snapshot, evidence, RecommendationType.PERFORMANCE, old, environment, hardware
    )
    changes = tuple(
        Change(name, new.get(name), old.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )
    changed = {it.name for it in changes}
    ours, theirs = _candidates(snapshot, new), _candidates(snapshot, old)
    purls: set[Purl] = {it.purl for name, it in ours.items() if name in changed}
    told = [it for it in assessment.claims_of(purls) if it.same_hardware]
    settled = tuple(it for it in told if it.verdict in SETTLED)
    known = {it.package for it in settled}
    return Guarded(
        changes=changes,
        claims=settled,
        unsettled=tuple(sorted({it.package for it in told if it.package} - known)),
        introduced=_harms(ours.values(), theirs),
        removed=_harms(theirs.values(), ours),
        unknown={
            name: _why_not(snapshot, name, version)
            for name, version in sorted(new.items())
            if name in changed and name not in ours
        },
    )


def _candidates(snapshot: Snapshot, versions: Mapping[str, str]) -> dict[str, Candidate]:
    found = {}
    for name, version in versions.items():
        for it in snapshot.packages.get(name, ()):
            if it.version == version:
                found[name] = it
                break
    return found


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


def _why_not(snapshot: Snapshot, name: str, version: str) -> str:
    for it in snapshot.excluded.get(name, ()):
        if it.version == version:
            return it.message
    return "nothing is known of this version"
