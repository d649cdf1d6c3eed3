"""Justifications: messages about a request and its versions, each with its evidence."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from adviser.scoring.assessment_types import Claim, Justification, JustificationCode, NoteLevel
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import (
    MATURE_AFTER,
    UNMAINTAINED_AFTER,
    AllowList,
    last_release,
    severity_of,
)
from adviser.scoring.stack_pairs import name_of
from adviser.scoring.verdicts import Verdict
from model.advisories import Severity
from model.measurements.evidence import VulnerabilityDetails
from model.packages.candidates import Candidate, Excluded, newest_first
from model.packages.identity import Purl
from model.packages.project_pages import ProjectState, ProjectStatus
from model.packages.snapshot import Snapshot
from model.text import counted

#: URL of the page of an advisory.
_VULNERABILITY_PAGE = "https://osv.dev/vulnerability/{}"

#: Maximum number of justifications about stacks that differ in several packages.
_MAX_CONFOUNDED = 5

_SEVERE = frozenset({Severity.HIGH, Severity.CRITICAL})


def justifications_of_stacks(
    snapshot: Snapshot,
    claims: Sequence[Claim],
    known: Mapping[str, VulnerabilityDetails],
    allowed: AllowList,
    as_of: datetime,
) -> Callable[[Collection[Purl]], tuple[Justification, ...]]:
    """Make a function that returns the justifications about the versions of a stack, by name."""
    texts = ClaimTexts(claims)
    claims_by_purl: dict[Purl, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.purl is not None and claim.beside_baseline:
            claims_by_purl[claim.purl].append(claim)

    def of_stack(stack: Collection[Purl]) -> tuple[Justification, ...]:
        justifications: list[Justification] = []
        for purl in sorted(stack):
            name = name_of(purl)
            candidates = snapshot.packages.get(name, ())
            for candidate in candidates:
                if candidate.purl == purl:
                    justifications += _of_release(candidate, as_of)
                    justifications += _of_vulnerabilities(candidate, known, allowed)
                    justifications += _of_status(candidate, snapshot.statuses.get(name, {}))
            justifications += _of_package(name, candidates, snapshot.excluded.get(name, ()), as_of)
            justifications += texts.justifications(claims_by_purl.get(purl, ()))
        return tuple(justifications)

    return of_stack


def justifications_of_request(
    missing: Mapping[str, str],
    unsolvable: Iterable[str],
    unavailable: Mapping[str, str],
    claims: Iterable[Claim],
) -> tuple[Justification, ...]:
    """Justifications that hold for every stack of a request.

    :param missing: why no version of a required package is known, by name
    :param unavailable: why a version of the baseline is no candidate, by requirement such as
        ``numpy==1.26.4``
    """
    justifications = []
    for name, reason in missing.items():
        message = f"{name} is required, and {reason}"
        code, level = JustificationCode.MISSING, NoteLevel.ERROR
        justifications.append(Justification(code, level, message, name))
    for name in unsolvable:
        message = f"no version of {name} can be chosen: the requirements of some are unknown"
        code, level = JustificationCode.UNSOLVABLE, NoteLevel.WARNING
        justifications.append(Justification(code, level, message, name))
    for text, reason in unavailable.items():
        code, name = JustificationCode.BASELINE_UNAVAILABLE, text.partition("==")[0]
        message = f"nothing is compared with {text}: {reason}"
        justifications.append(Justification(code, NoteLevel.WARNING, message, name))
    return (*justifications, *_confounded(claims))


def _confounded(claims: Iterable[Claim]) -> Iterator[Justification]:
    """Settled differences between stacks that differ in several packages.

    Claims with fewer differing packages and larger effects come first.
    """
    settled = [it for it in claims if it.confounded and it.verdict is not Verdict.UNDETERMINED]
    settled.sort(key=lambda it: (len(it.differs), -abs(math.log1p(it.effect_pct / 100))))
    texts = ClaimTexts(settled)
    for it in map(texts.justification, settled[:_MAX_CONFOUNDED]):
        yield replace(it, message=f"{it.message}, so this is not scored")
    if rest := settled[_MAX_CONFOUNDED:]:
        numbers = Counter(it.verdict for it in rest)
        verdicts = ", ".join(f"{numbers[it]} {it.value}" for it in Verdict if numbers[it])
        message = (
            f"{len(rest)} more comparisons of stacks that differ in several packages: {verdicts};"
        )
        yield Justification(
            JustificationCode.CONFOUNDED, NoteLevel.INFO, f"{message} none is scored"
        )


def justifications_of_shown(claims: Iterable[Claim]) -> Iterator[Justification]:
    """Settled claims of packs that decide nothing, the largest differences first."""
    settled = [it for it in claims if it.verdict.different and not it.confounded]
    settled.sort(key=lambda it: -abs(math.log1p(it.observed_pct / 100)))
    yield from islice(ClaimTexts(settled).justifications(settled), _MAX_CONFOUNDED)


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
    """About a package without a recent release for any environment."""
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
            message, candidate.name, candidate.purl, _VULNERABILITY_PAGE.format(vulnerability.id),
            (vulnerability.id,),
        )  # fmt: skip
