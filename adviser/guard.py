"""Guard an upgrade: compare the speed, vulnerabilities and yanked versions of two locks.

This is the part of ``thoth guard`` that does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Annotated

from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import AllowList
from adviser.scoring.performance import Performance, upgrade_claims
from adviser.scoring.stack_pairs import ForcedChanges, MeasuredStackIndex
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from adviser.vex import NO_STATEMENTS, VexStatement, VexStatements
from model.declared_fields import PACKAGE, Field
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, Excluded, ExclusionReason, KnownVulnerability
from model.packages.environments import Environment
from model.packages.identity import (
    MEASURED_PACKAGES,
    Purl,
    VersionChange,
    changes_between,
    same_version,
)
from model.packages.native_libraries import Steps, bundled_steps, context_lines
from model.packages.snapshot import Snapshot

#: Vulnerabilities by name and version.
Vulnerabilities = Mapping[tuple[str, str], Iterable[KnownVulnerability]]


class GuardOutcome(StrEnum):
    """The verdict on an upgrade. The values are printed; never rename them."""

    NO_HARM = "no_harm"
    HARM = "harm"
    UNKNOWN = "unknown"


class MissingKind(StrEnum):
    """Kinds of missing knowledge about an upgrade. The values are printed; never rename them."""

    #: A new version is unknown, its metadata was not read, or it cannot be installed here.
    METADATA = "metadata"
    #: The store has no advisories, so vulnerabilities are unknown.
    ADVISORIES = "advisories"
    #: A comparison measured on this hardware is undetermined.
    VERDICT = "verdict"
    #: Two versions of a package that indicators measure were not compared on this hardware.
    MEASUREMENT = "measurement"


@dataclass(frozen=True, slots=True)
class MissingKnowledge:
    """Missing knowledge that is needed to judge an upgrade."""

    kind: Annotated[MissingKind, Field("What is missing.")]
    package: Annotated[str | None, Field("The package concerned; null for all.", "numpy")]
    message: Annotated[str, Field("What is missing, for people.")]
    remedy: Annotated[str | None, Field("Command that supplies it.", "thoth inspect")] = None


@dataclass(frozen=True, slots=True)
class VersionVulnerability:
    """A vulnerability of a version in one lock, but of no known version in the other lock."""

    name: Annotated[str, Field("Normalised name of the package.", "flask")]
    version: Annotated[str, Field("Its version in this lock.", "2.2.2")]
    id: Annotated[str, Field("Identifier of the vulnerability.", "CVE-2023-30861")]
    severity: Annotated[str | None, Field("Severity.", "high")]
    vex: VexStatement | None = None


@dataclass(frozen=True, slots=True)
class YankedVersion:
    """A version of the new lock that its publisher yanked."""

    name: Annotated[str, PACKAGE]
    version: Annotated[str, Field("Version.", "2.4.0")]
    reason: Annotated[str | None, Field("Why the publisher yanked it.")]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A replacement for a harmful version of the new lock."""

    package: Annotated[str, PACKAGE]
    version: Annotated[str, Field("Harmful version in the new lock.", "2.4.6")]
    instead: Annotated[
        str | None,
        Field("Nearest version without the harm; null if no version is known or needed.", "2.4.5"),
    ]
    others: Annotated[
        Mapping[str, str],
        Field("Versions of other packages that change with it; empty for dropped packages."),
    ] = field(default_factory=dict)
    unread: Annotated[
        tuple[str, ...],
        Field("Packages whose requirements are unknown; if none are, the lock is proven valid."),
    ] = ()
    problem: Annotated[str | None, Field("Why there is no replacement.")] = None


@dataclass(frozen=True, slots=True)
class GuardResult:
    """The result of guarding an upgrade from one lock to another.

    :param claims: settled comparisons of single changed packages on this hardware
    :param stacks: settled comparisons of the two locks as a whole, if several packages differ and
        both locks were measured on this hardware
    :param comparisons: how many comparisons share the error rate of the claims
    :param introduced: vulnerabilities of the new lock only
    :param removed: vulnerabilities of the old lock only
    :param yanked: changed packages whose new version was yanked
    :param missing: knowledge that is missing to judge the upgrade
    :param unmeasured: other changed packages whose two versions were not compared here; no
        indicator measures these, so they do not count as missing
    :param refused: observations of these packages that do not count, because their documents were
        changed
    :param undetermined: comparisons on this hardware that could change the verdict once settled
    :param proposals: replacements of harmful versions, by name
    :param untried: number of harmful packages for which no proposal was tried
    :param bundled: by name of a changed package, differences in bundled libraries: context that
        decides nothing
    :param shown: comparisons of packs that decide nothing
    :param closed: vulnerabilities of the new lock only that documents close: they do no harm
    :param speed_only: whether vulnerabilities and newly yanked versions were not checked, so that
        an outcome without harm is about speed only
    :param python: option of commands that measure; see :attr:`Environment.option`
    """

    changes: tuple[VersionChange, ...]
    claims: tuple[Claim, ...]
    stacks: tuple[Claim, ...]
    comparisons: int
    introduced: tuple[VersionVulnerability, ...]
    removed: tuple[VersionVulnerability, ...]
    yanked: tuple[YankedVersion, ...]
    missing: tuple[MissingKnowledge, ...]
    unmeasured: tuple[str, ...]
    refused: int = 0
    undetermined: tuple[Claim, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    untried: int = 0
    speed_only: bool = False
    bundled: Steps = field(default_factory=dict)
    shown: tuple[Claim, ...] = ()
    closed: tuple[VersionVulnerability, ...] = ()
    python: str = ""

    def without_unseen(self) -> GuardResult:
        """The result if only speed was checked: nothing else is missing."""
        unseen = (MissingKind.METADATA, MissingKind.ADVISORIES)
        missing = tuple(it for it in self.missing if it.kind not in unseen)
        return replace(self, missing=missing, speed_only=True)

    @property
    def context(self) -> list[str]:
        """Lines about the wheels of packages with a settled difference."""
        settled = (it for it in (*self.stacks, *self.claims) if it.verdict.different)
        return context_lines(self.bundled, {name for it in settled for name in it.differs})

    @property
    def slower(self) -> tuple[Claim, ...]:
        """Settled slowdowns of the whole lock, and of single packages.

        A package does no harm in a series in which the whole lock was measured and is not slower,
        by own jobs or by those of the same pack.
        """
        fine = {_place(it) for it in self.stacks if it.verdict is not Verdict.SLOWER}
        parts = (it for it in self.claims if not _covers(fine, it))
        return tuple(it for it in (*self.stacks, *parts) if it.verdict is Verdict.SLOWER)

    @property
    def outcome(self) -> GuardOutcome:
        """The verdict: harm if any harm is settled, even if other knowledge is missing."""
        if self.slower or self.introduced or self.yanked:
            return GuardOutcome.HARM
        return GuardOutcome.UNKNOWN if self.missing else GuardOutcome.NO_HARM


def guard(
    old: Mapping[str, str],
    new: Mapping[str, str],
    snapshot: Snapshot,
    evidence: Evidence,
    environment: Environment,
    hardware: str | None,
    vulnerabilities: Vulnerabilities | None = None,
) -> GuardResult:
    """Compare two locks, each given as versions by package name.

    Speed is judged from measurements alone, even if the metadata of a version was not read. Only
    versions of the two locks take part in the statistical tests.

    :param snapshot: a snapshot with the packages of both locks among its roots
    :param evidence: evidence that includes excluded versions
    :param vulnerabilities: vulnerabilities of changed versions that are not candidates
    """
    changes = changes_between(old, new)
    before, after = (
        _Side(
            versions,
            {
                name: release
                for name, version in versions.items()
                if (release := known_version(snapshot, name, version)) is not None
            },
            vulnerabilities or {},
        )
        for versions in (old, new)
    )
    circumstances = Target(hardware or None, environment.python_version)
    both = [it.name for it in changes if it.new and it.old]
    performance = _performance(evidence, circumstances, before, after, changes)
    measured = performance.claims
    claims = [it for it in measured if it.package is not None]
    stacks = [it for it in measured if it.package is None]
    settled = {_place(it) for it in stacks if it.verdict.settled}
    answered = {it.question for it in measured if it.verdict.settled}
    unsettled = [
        it
        for it in (*stacks, *claims)
        if it.question not in answered and (it.package is None or not _covers(settled, it))
    ]
    compared = {name for it in claims for name in it.differs} | (set(both) if stacks else set())
    uncompared = (
        it
        for it in changes
        if it.name in both and it.name in MEASURED_PACKAGES and it.name not in compared
    )
    return GuardResult(
        changes=changes,
        claims=tuple(it for it in claims if it.verdict.settled),
        stacks=tuple(it for it in stacks if it.verdict.settled),
        comparisons=performance.comparisons,
        introduced=tuple(_only_in(after, before, changes)),
        removed=tuple(_only_in(before, after, changes)),
        yanked=tuple(
            YankedVersion(it.name, known.version, known.yanked_reason)
            for it in changes
            if isinstance(known := after.known.get(it.name), Candidate) and known.yanked
        ),
        missing=(
            *_missing_metadata(after, changes),
            *_missing_verdicts(
                evidence, changes, unsettled, lock_texts(measured, environment.option)
            ),
            *_missing_measurements(
                evidence, circumstances, (before, after), uncompared, environment.option
            ),
        ),
        unmeasured=tuple(it for it in both if it not in compared and it not in MEASURED_PACKAGES),
        refused=evidence.refused,
        undetermined=tuple(unsettled),
        bundled=bundled_steps(evidence.bundled, ((it.name, it.new, it.old) for it in changes)),
        shown=performance.shown,
        python=environment.option,
    )


def _place(claim: Claim) -> tuple[str, str | None]:
    """The series of a claim, and its pack."""
    return claim.comparison_key, None if claim.origin is None else claim.origin.pack


def _covers(stacks: Collection[tuple[str, str | None]], claim: Claim) -> bool:
    """Whether claims about whole locks answer a claim about a package of the same series."""
    return (claim.comparison_key, None) in stacks or _place(claim) in stacks


def lock_texts(claims: Iterable[Claim], python: str, *, once: bool = False) -> ClaimTexts:
    """The texts of the claims about two locks; see :class:`ClaimTexts`."""
    return ClaimTexts(claims, ("the new lock", "the old lock"), once=once, python=python)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two locks.

    :param versions: version by name
    :param known: by name, the versions that the snapshot has
    """

    versions: Mapping[str, str]
    known: Mapping[str, Candidate | Excluded]
    vulnerabilities: Vulnerabilities

    @property
    def purls(self) -> dict[str, Purl]:
        return {name: it.purl for name, it in self.known.items()}

    def vulnerabilities_of(self, name: str) -> Iterable[KnownVulnerability]:
        known = self.known.get(name)
        if isinstance(known, Candidate):
            return known.vulnerabilities
        return self.vulnerabilities.get((name, self.versions.get(name, "")), ())


def versions_without_candidate(
    old: Mapping[str, str], new: Mapping[str, str], snapshot: Snapshot
) -> list[tuple[str, str]]:
    """Names and versions of changed packages that are not candidates of the snapshot.

    The snapshot does not contain the vulnerabilities of such versions.
    """
    return [
        (change.name, versions[change.name])
        for change in changes_between(old, new)
        for versions in (old, new)
        if change.name in versions
        and not isinstance(known_version(snapshot, change.name, versions[change.name]), Candidate)
    ]


def known_version(snapshot: Snapshot, name: str, version: str) -> Candidate | Excluded | None:
    """Find a version in the snapshot, first among candidates, then among excluded versions."""
    listed: list[Candidate | Excluded] = [
        *snapshot.packages.get(name, ()),
        *snapshot.excluded.get(name, ()),
    ]
    return next((it for it in listed if same_version(it.version, version)), None)


def _performance(
    evidence: Evidence,
    circumstances: Target,
    before: _Side,
    after: _Side,
    changes: Sequence[VersionChange],
) -> Performance:
    """Claims about the changed versions, and about both locks as a whole."""
    old, new = before.purls, after.purls
    versions = {
        it.name: {old[it.name], new[it.name]} for it in changes if it.name in old.keys() & new
    }
    known = all(len(it.known) == len(it.versions) for it in (before, after))
    whole = (old.values(), new.values()) if len(changes) > 1 and known else None
    forced = partial(_forced, before=before, after=after, changes=changes)
    return upgrade_claims(evidence, old, versions, circumstances, forced, whole)


def _forced(
    stacks: MeasuredStackIndex, before: _Side, after: _Side, changes: Sequence[VersionChange]
) -> ForcedChanges:
    """The other changes that each change forces; in a cycle, often required packages come last."""
    known = [it for side in (before, after) for it in side.known.values()]
    candidates = {it.purl: it for it in known if isinstance(it, Candidate) and it.read}
    names = {it.name for it in changes}
    required = Counter(
        it.name
        for name, candidate in after.known.items()
        if name in names and isinstance(candidate, Candidate)
        for it in candidate.requires
    )
    return ForcedChanges(stacks, candidates, sorted(names, key=lambda it: (required[it], it)))


def _only_in(
    side: _Side, other: _Side, changes: Iterable[VersionChange]
) -> Iterator[VersionVulnerability]:
    for name in (it.name for it in changes):
        known = {it.id for it in other.vulnerabilities_of(name)}
        for vulnerability in sorted(side.vulnerabilities_of(name), key=lambda it: it.id):
            if vulnerability.id not in known:
                yield VersionVulnerability(
                    name, side.versions[name], vulnerability.id, vulnerability.severity
                )


#: Reasons that reading the metadata may remove.
_UNREAD = (ExclusionReason.UNREAD, ExclusionReason.UNAVAILABLE)


def _missing_metadata(after: _Side, changes: Iterable[VersionChange]) -> Iterator[MissingKnowledge]:
    for name, version in ((it.name, it.new) for it in changes):
        known = after.known.get(name)
        if version is None or isinstance(known, Candidate):
            continue
        unread = known is None or known.reason in _UNREAD
        reason = known.message if known is not None else "its metadata was not read"
        remedy = f"thoth packages add '{name}=={version}'" if unread else None
        yield MissingKnowledge(MissingKind.METADATA, name, f"{name} {version}: {reason}", remedy)


def with_reasons(upgrade: GuardResult, unmet: Mapping[str, str]) -> GuardResult:
    """The result with reasons instead of remedies for metadata that no index can provide.

    :param unmet: the reasons by package
    """

    def explained(gap: MissingKnowledge) -> MissingKnowledge:
        reason = unmet.get(gap.package or "") if gap.kind is MissingKind.METADATA else None
        if reason is None:
            return gap
        return replace(gap, message=f"{gap.package}: {reason}", remedy=None)

    return replace(upgrade, missing=tuple(map(explained, upgrade.missing)))


def without_accepted(
    upgrade: GuardResult, accepted: AllowList, vex: VexStatements = NO_STATEMENTS
) -> GuardResult:
    """The result without the vulnerabilities that a request accepts, or that documents close."""
    left = [
        replace(it, vex=vex.closing(it.name, it.version, it.id))
        for it in upgrade.introduced
        if not accepted.accepts(KnownVulnerability(it.id))
    ]
    introduced = tuple(it for it in left if it.vex is None)
    return replace(upgrade, introduced=introduced, closed=tuple(it for it in left if it.vex))


def _missing_verdicts(
    evidence: Evidence,
    changes: Iterable[VersionChange],
    unsettled: Iterable[Claim],
    texts: ClaimTexts,
) -> Iterator[MissingKnowledge]:
    if any(it.new for it in changes) and not evidence.knows_advisories:
        yield MissingKnowledge(
            MissingKind.ADVISORIES,
            None,
            "the store has no advisories, so vulnerabilities are unknown; set ADVISORIES to OSV's "
            "archive and read it",
            "thoth advisories sync --osv",
        )
    for claim in unsettled:
        message = texts.justification(claim).message
        yield MissingKnowledge(MissingKind.VERDICT, claim.package, message, "thoth inspect")


def _missing_measurements(
    evidence: Evidence,
    target: Target,
    sides: Sequence[_Side],
    changes: Iterable[VersionChange],
    python: str,
) -> Iterator[MissingKnowledge]:
    for change in changes:
        # The series in which own jobs measured both versions on this hardware.
        series = (
            {it.series for it in evidence.readings if version in evidence.stacks.get(it.stack, ())}
            for version in (side.purls.get(change.name) for side in sides)
        )
        together = (evidence.series[it] for it in set.intersection(*series))
        why = "were not compared on this hardware"
        if target.hardware is None:
            why = "are not compared, because no hardware was named"
        elif any(it.origin is None and target.same_hardware(it) for it in together):
            why += " by jobs that count: `thoth stacks --verbose` says why"
        yield MissingKnowledge(
            MissingKind.MEASUREMENT,
            change.name,
            f"{change.name}: {change.old} and {change.new} {why}",
            f"thoth compare {change.name}=={change.old} {change.name}=={change.new}{python}"
            " --ingest -- COMMAND",
        )
