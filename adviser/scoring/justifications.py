"""Write justifications: messages about a request and its versions, each with its evidence."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from adviser.scoring.assessment_types import (
    Claim,
    Justification,
    JustificationCode,
    NoteLevel,
)
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import MATURE_AFTER, UNMAINTAINED_AFTER, last_release
from adviser.scoring.stack_pairs import name_of
from adviser.scoring.verdicts import Verdict
from adviser.scoring.vulnerability_policy import AllowList, severity_of
from model.advisories import Severity
from model.measurements.evidence import VulnerabilityDetails
from model.packages.candidates import Candidate, Excluded, newest_first
from model.packages.identity import Purl
from model.packages.project_pages import ProjectState, ProjectStatus
from model.packages.snapshot import Snapshot
from model.text import counted

#: URL of the page of an advisory.
VULNERABILITY_PAGE = "https://osv.dev/vulnerability/{}"

#: Maximum number of single messages about stacks that differ in several packages.
MAX_CONFOUNDED = 5

_SEVERE = frozenset({Severity.HIGH, Severity.CRITICAL})


def justifications_of_stack(
    snapshot: Snapshot,
    claims: Sequence[Claim],
    known: Mapping[str, VulnerabilityDetails],
    allowed: AllowList,
    as_of: datetime,
) -> Callable[[Collection[Purl]], tuple[Justification, ...]]:
    """Make a function that returns the findings about the versions of a stack, sorted by name."""

    texts = ClaimTexts(claims)
    claims_by_purl: dict[Purl, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.purl is not None and claim.beside_baseline:
            claims_by_purl[claim.purl].append(claim)

    def notes(stack: Collection[Purl]) -> tuple[Justification, ...]:
        findings: list[Justification] = []
        for purl in sorted(stack):
            name = name_of(purl)
            candidates = snapshot.packages.get(name, ())
            for candidate in candidates:
                if candidate.purl == purl:
                    findings += _of_release(candidate, as_of)
                    findings += _of_vulnerabilities(candidate, known, allowed)
                    findings += _of_status(candidate, snapshot.statuses.get(name, {}))
            findings += _of_package(name, candidates, snapshot.excluded.get(name, ()), as_of)
            findings += texts.notes(claims_by_purl.get(purl, ()))
        return tuple(findings)

    return notes


def request_notes(
    missing: Mapping[str, str],
    unsolvable: Iterable[str],
    unavailable: Mapping[str, str],
    claims: Iterable[Claim],
) -> tuple[Justification, ...]:
    """Findings about a request that hold for every stack.

    :param missing: why nothing is known of a required package, by name
    :param unavailable: why a version of the baseline is no candidate, by requirement such as
        ``numpy==1.26.4``
    """
    notes = []
    for name, reason in missing.items():
        message = f"{name} is required, and {reason}"
        notes.append(Justification(JustificationCode.MISSING, NoteLevel.ERROR, message, name))
    for name in unsolvable:
        message = f"no version of {name} can be chosen: the requirements of some are unknown"
        notes.append(Justification(JustificationCode.UNSOLVABLE, NoteLevel.WARNING, message, name))
    for text, reason in unavailable.items():
        code, name = JustificationCode.BASELINE_UNAVAILABLE, text.partition("==")[0]
        message = f"nothing is compared with {text}: {reason}"
        notes.append(Justification(code, NoteLevel.WARNING, message, name))
    return (*notes, *_confounded(claims))


def _confounded(claims: Iterable[Claim]) -> Iterator[Justification]:
    """Notes about settled differences between stacks that differ in several packages.

    Claims with fewer differing packages and larger effects come first.
    """
    settled = [it for it in claims if it.confounded and it.verdict is not Verdict.UNDETERMINED]
    settled.sort(key=lambda it: (len(it.differs), -abs(math.log1p(it.effect_pct / 100))))
    texts = ClaimTexts(settled)
    for note in map(texts.note, settled[:MAX_CONFOUNDED]):
        yield replace(note, message=f"{note.message}, so this is not scored")
    if rest := settled[MAX_CONFOUNDED:]:
        counted = Counter(it.verdict for it in rest)
        verdicts = ", ".join(f"{counted[it]} {it.value}" for it in Verdict if counted[it])
        message = (
            f"{len(rest)} more comparisons of stacks that differ in several packages: {verdicts};"
        )
        yield Justification(
            JustificationCode.CONFOUNDED, NoteLevel.INFO, f"{message} none is scored"
        )


def notes_about_shown(claims: Iterable[Claim]) -> Iterator[Justification]:
    """Notes about what packs have settled that decide nothing; the largest differences first."""
    settled = [it for it in claims if it.verdict.different and not it.confounded]
    settled.sort(key=lambda it: -abs(math.log1p(it.observed_pct / 100)))
    yield from islice(ClaimTexts(settled).notes(settled), MAX_CONFOUNDED)


def _of_release(candidate: Candidate, as_of: datetime) -> Iterator[Justification]:
    what = f"{candidate.name} {candidate.version}"
    if candidate.yanked:
        reason = f": {candidate.yanked_reason}" if candidate.yanked_reason else ""
        message = f"{what} was yanked by its publisher{reason}"
        yield Justification(
            JustificationCode.YANKED, NoteLevel.WARNING, message, candidate.name, candidate.purl
        )
    if candidate.prerelease:
        message = f"{what} is a pre-release"
        yield Justification(
            JustificationCode.PRERELEASE, NoteLevel.INFO, message, candidate.name, candidate.purl
        )
    if candidate.uploaded_at is not None and as_of - candidate.uploaded_at < MATURE_AFTER:
        # In calendar days, because only the date of ``as_of`` is known.
        days = max(0, (as_of.date() - candidate.uploaded_at.astimezone(UTC).date()).days)
        message = f"{what} was released {counted(days, 'day')} ago"
        yield Justification(
            JustificationCode.IMMATURE, NoteLevel.INFO, message, candidate.name, candidate.purl
        )


def _of_status(
    candidate: Candidate, statuses: Mapping[str, ProjectStatus]
) -> Iterator[Justification]:
    status = statuses.get(candidate.index)
    if status is None:
        return
    archived = status.state is ProjectState.ARCHIVED
    reason = f": {status.reason}" if status.reason else ""
    yield Justification(
        JustificationCode.ARCHIVED if archived else JustificationCode.DEPRECATED,
        NoteLevel.WARNING,
        f"{candidate.index} says that {candidate.name} is {status.state.value}{reason}",
        candidate.name,
        candidate.purl,
    )


def _of_package(
    name: str, candidates: Sequence[Candidate], excluded: Sequence[Excluded], as_of: datetime
) -> Iterator[Justification]:
    """A note about a package without a release for long, whatever environment it is for."""
    last = last_release(candidates)
    versions: list[Candidate | Excluded] = [*candidates, *excluded]
    newest = newest_first(versions)[:1]
    if last is not None and as_of - last > UNMAINTAINED_AFTER and newest[0] in candidates:
        message = f"{name} has had no release since {last:%Y-%m-%d}"
        yield Justification(JustificationCode.UNMAINTAINED, NoteLevel.WARNING, message, name)


def _of_vulnerabilities(
    candidate: Candidate, known: Mapping[str, VulnerabilityDetails], allowed: AllowList
) -> Iterator[Justification]:
    for vulnerability in candidate.vulnerabilities:
        severity = severity_of(vulnerability)
        details = known.get(vulnerability.id)
        summary = f": {details.summary}" if details and details.summary else ""
        accepted = allowed.accepts(vulnerability)
        message = (
            f"{candidate.name} {candidate.version} is affected by {vulnerability.id}"
            f" ({severity or 'unrated'}){', which is allowed' if accepted else ''}{summary}"
        )
        severe = severity in _SEVERE and not accepted
        yield Justification(
            JustificationCode.VULNERABILITY_ALLOWED if accepted else JustificationCode.VULNERABLE,
            NoteLevel.ERROR if severe else NoteLevel.INFO if accepted else NoteLevel.WARNING,
            message, candidate.name, candidate.purl, VULNERABILITY_PAGE.format(vulnerability.id),
            (vulnerability.id,),
        )  # fmt: skip
