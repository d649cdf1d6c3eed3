"""What a person should know of versions that were chosen, each with its evidence."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from adviser.scoring.assessments import Claim, Justification, JustificationCode, NoteLevel
from adviser.scoring.estimates import Method
from adviser.scoring.release_metadata import (
    RIPE_AFTER,
    UNMAINTAINED_AFTER,
    last_release,
)
from adviser.scoring.sample_needs import Need
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.stack_pairs import name_of
from adviser.scoring.verdicts import Verdict
from adviser.scoring.vulnerability_policy import AllowList, severity_of
from common.advisories import Severity
from common.job_stability import left_out_text
from common.packages import Purl
from graph.candidates import Candidate
from graph.evidence import KnownHarm
from graph.snapshot import Snapshot

#: Where every identifier of the advisories that are read has its page.
VULNERABILITY_PAGE = "https://osv.dev/vulnerability/{}"

#: Of what is settled of stacks that differ in several packages, as much is told one by one.
MAX_CONFOUNDED = 5

_GRAVE = frozenset({Severity.HIGH, Severity.CRITICAL})
_CODES = {
    Verdict.FASTER: (JustificationCode.FASTER, NoteLevel.INFO),
    Verdict.SLOWER: (JustificationCode.SLOWER, NoteLevel.WARNING),
    Verdict.EQUIVALENT: (JustificationCode.EQUIVALENT, NoteLevel.INFO),
    Verdict.UNDETERMINED: (JustificationCode.UNDETERMINED, NoteLevel.INFO),
}


def justifications_of_stack(
    snapshot: Snapshot,
    claims: Sequence[Claim],
    known: Mapping[str, KnownHarm],
    allowed: AllowList,
    as_of: datetime,
) -> Callable[[Collection[Purl]], tuple[Justification, ...]]:
    """A function that tells of a stack's versions, in the order of their names."""

    told: dict[Purl, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.purl is not None and claim.beside_baseline:
            told[claim.purl].append(claim)

    def notes(stack: Collection[Purl]) -> tuple[Justification, ...]:
        found: list[Justification] = []
        for purl in sorted(stack):
            name = name_of(purl)
            candidates = snapshot.packages.get(name, ())
            for it in candidates:
                if it.purl == purl:
                    found += _of_release(it, as_of)
                    found += _of_harms(it, known, allowed)
            found += _of_package(name, candidates, as_of)
            found += map(claim_note, told.get(purl, ()))
        return tuple(found)

    return notes


def request_notes(
    missing: Iterable[str], unsolvable: Iterable[str], lost: Iterable[str], claims: Iterable[Claim]
) -> tuple[Justification, ...]:
    """What is to be known of a request, whatever is chosen.

    :param lost: packages of the baseline whose version is no candidate, with the version
    """
    return (
        *(_missing(name) for name in missing),
        *(_unsolvable(name) for name in unsolvable),
        *(_lost(text) for text in lost),
        *_confounded(claims),
    )


def _confounded(claims: Iterable[Claim]) -> Iterator[Justification]:
    """What is settled of stacks that differ in several packages: those that tell most, and how
    many more there are. The fewer packages differ and the larger the difference, the more it tells.
    """
    settled = [it for it in claims if it.confounded and it.verdict is not Verdict.UNDETERMINED]
    settled.sort(key=lambda it: (len(it.differs), -abs(math.log1p(it.effect_pct / 100))))
    for it in settled[:MAX_CONFOUNDED]:
        yield claim_note(it)
    if rest := settled[MAX_CONFOUNDED:]:
        counted = Counter(it.verdict for it in rest)
        told = ", ".join(f"{counted[it]} {it.value}" for it in Verdict if counted[it])
        words = f"{len(rest)} more comparisons of stacks that differ in several packages: {told};"
        yield Justification(JustificationCode.CONFOUNDED, NoteLevel.INFO, f"{words} none is scored")


def _missing(name: str) -> Justification:
    words = f"{name} is asked for, and no version of it is known"
    return Justification(JustificationCode.MISSING, NoteLevel.ERROR, words, name)


def _unsolvable(name: str) -> Justification:
    words = f"no version of {name} tells what it requires without being built"
    return Justification(JustificationCode.UNSOLVABLE, NoteLevel.WARNING, words, name)


def _lost(text: str) -> Justification:
    words = f"{text} cannot be installed here, so that nothing is compared with it"
    return Justification(
        JustificationCode.BASELINE_UNAVAILABLE, NoteLevel.WARNING, words, text.partition("==")[0]
    )


def _of_release(it: Candidate, as_of: datetime) -> Iterator[Justification]:
    what = f"{it.name} {it.version}"
    if it.yanked:
        reason = f": {it.yanked_reason}" if it.yanked_reason else ""
        words = f"{what} was yanked by its publisher{reason}"
        yield Justification(JustificationCode.YANKED, NoteLevel.WARNING, words, it.name, it.purl)
    if it.prerelease:
        words = f"{what} is a pre-release"
        yield Justification(JustificationCode.PRERELEASE, NoteLevel.INFO, words, it.name, it.purl)
    if it.uploaded_at is not None and as_of - it.uploaded_at < RIPE_AFTER:
        # By the calendar: of the moment that counts only the day is known.
        days = max(0, (as_of.date() - it.uploaded_at.astimezone(UTC).date()).days)
        words = f"{what} was released {days} {'day' if days == 1 else 'days'} ago"
        yield Justification(JustificationCode.IMMATURE, NoteLevel.INFO, words, it.name, it.purl)


def _of_package(
    name: str, candidates: Sequence[Candidate], as_of: datetime
) -> Iterator[Justification]:
    last = last_release(candidates)
    if last is not None and as_of - last > UNMAINTAINED_AFTER:
        words = f"nothing of {name} that fits was released since {last:%Y-%m-%d}"
        yield Justification(JustificationCode.UNMAINTAINED, NoteLevel.WARNING, words, name)


def _of_harms(
    candidate: Candidate, known: Mapping[str, KnownHarm], allowed: AllowList
) -> Iterator[Justification]:
    for it in candidate.vulnerabilities:
        severity = severity_of(it)
        harm = known.get(it.id)
        summary = f": {harm.summary}" if harm and harm.summary else ""
        accepted = allowed.accepts(it)
        words = (
            f"{candidate.name} {candidate.version} is affected by {it.id}"
            f" ({severity or 'unrated'}){', which is allowed' if accepted else ''}{summary}"
        )
        grave = severity in _GRAVE and not accepted
        yield Justification(
            JustificationCode.VULNERABILITY_ALLOWED if accepted else JustificationCode.VULNERABLE,
            NoteLevel.ERROR if grave else NoteLevel.INFO if accepted else NoteLevel.WARNING,
            words, candidate.name, candidate.purl, VULNERABILITY_PAGE.format(it.id), (it.id,),
        )  # fmt: skip


def claim_note(it: Claim) -> Justification:
    """A claim in words, with all that makes it believable.

    A gain is told as it is expected to last (shrunk), then as it was observed, with its interval.
    """
    code, level = _CODES[it.verdict]
    if it.confounded:
        code, level = JustificationCode.CONFOUNDED, NoteLevel.INFO
    subject = it.package or "the measured stack"
    versions = ""
    if it.purl and it.baseline_purl:
        versions = f" {_bare(it.purl)} next to {_bare(it.baseline_purl)}"
    said = f"{subject}{versions}: {_said(it)} in {_measure(it)} on {it.hardware_label}"
    jobs = f"{it.jobs} and {it.baseline_jobs} jobs"
    if not it.pairs and (it.runs, it.baseline_runs) != (it.jobs, it.baseline_jobs):
        jobs += f" of {it.runs} and {it.baseline_runs} runs"
    return Justification(
        code, level, f"{said} ({_interval(it)}, {jobs}){_but(it)}",
        it.package, it.purl, None, it.evidence,
    )  # fmt: skip


def _said(it: Claim) -> str:
    if it.verdict is Verdict.UNDETERMINED:
        return f"undetermined{need_text(it)}"
    if it.verdict is Verdict.EQUIVALENT:
        return f"no difference beyond {it.delta_pct:.1f} %"
    # Whatever shrinking left of it, a settled difference has the sign that was observed.
    return f"{abs(it.effect_pct):.1f} % {it.verdict.value}"


def need_text(it: Claim) -> str:
    """What an undetermined comparison lacks, as words to append; empty where it lacks nothing."""
    more = max(it.jobs_missing, it.baseline_jobs_missing)
    told = {
        None: "",
        Need.JOBS: f", about {_jobs(it.jobs_missing + it.baseline_jobs_missing)} would tell",
        Need.TURNS: (
            ", as nothing tells what a run by itself does: run both in turns (`thoth inspect` with"
            f" both specifications), {MIN_JOBS} jobs each or more"
        ),
        Need.RUNS: f", about {more} more {'run' if more == 1 else 'runs'} of each would tell, or"
        " jobs that run in turns",
        Need.HERE: f" from elsewhere, {MIN_JOBS} jobs of each on this hardware would tell more",
        Need.HOSTS: f", {_further_hosts(it, more)} would tell",
        Need.MARGIN: ", more than 1,000 jobs of each would be needed",
    }
    return told[it.needs]


def _jobs(count: int) -> str:
    return f"{count} more {'job' if count == 1 else 'jobs'}"


def _further_hosts(it: Claim, more: int) -> str:
    if it.method is not Method.POOLED:
        return f"{MIN_JOBS} jobs of each on one and the same host"
    hosts = more // MIN_JOBS
    return f"{MIN_JOBS} jobs of each on about {hosts} further {'host' if hosts == 1 else 'hosts'}"


def _interval(it: Claim) -> str:
    if not math.isfinite(it.interval_high_pct):
        return "no interval, as the error is not known"
    if it.verdict in (Verdict.FASTER, Verdict.SLOWER):
        observed = f"{it.observed_pct:+.1f} % observed, "
    else:
        observed = ""
    return f"{observed}95 % interval {it.interval_low_pct:+.1f} … {it.interval_high_pct:+.1f} %"


def _measure(it: Claim) -> str:
    """The indicator with what tells its measurements apart; the claim has every parameter."""
    told = ", ".join(f"{key} {it.parameters[key]}" for key in _TOLD if key in it.parameters)
    return f"{it.indicator} ({told})" if told else it.indicator


def _but(it: Claim) -> str:
    """What keeps a claim from being about this very request."""
    told = []
    if it.left_out:
        told.append(f"left out: {left_out_text(it.left_out)}")
    if not it.same_hardware:
        told.append("another hardware class than asked about")
    if not it.same_python:
        told.append(f"Python {it.python_version or 'unknown'}")
    if it.confounded:
        told.append(f"not scored, as {len(it.differs)} packages differ: {', '.join(it.differs)}")
    return f"; {'; '.join(told)}" if told else ""


#: Parameters that people know an indicator's measurements by.
_TOLD = ("device", "dtype", "size", "batch", "threads")


def _bare(purl: Purl) -> str:
    return purl.partition("@")[2].partition("?")[0]
