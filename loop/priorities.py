"""Where the jobs of a night go: to the releases for which further jobs are worth most.

The value of jobs is that of :mod:`adviser.monkey.job_value`: the chance that the verdict changes,
times the weight of the watch and the size of the difference, for each hour. A release is compared
with the reference stack at planned looks only (:mod:`adviser.changes`), so a release that
needs further jobs gets enough of them for its next look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from adviser.changes import GROWTH, LOOK_ALPHA, MAX_LOOKS
from adviser.monkey.job_value import WORTHWHILE, JobValue, job_values, value_of_jobs
from adviser.scoring.assessment_types import Claim
from adviser.scoring.sample_needs import POWER
from adviser.scoring.samples import MIN_JOBS
from graph.engine import Stores
from graph.record.loop import LoopRelease
from graph.record.measurements import job_minutes
from loop.stacks import MeasuredIndicator, WatchKnowledge, indicator_named, own_indicators
from model.packages.identity import package_version, version_of

#: Expected share of jobs that comparisons can use; the others are unstable.
_USABLE = 0.9
#: Minutes of a job of a stack that was never measured.
_USUAL_MINUTES = 1.0


@dataclass(frozen=True, slots=True)
class ReleasePriority:
    """Jobs for a release, and what they are worth.

    :param compared: version of the package that is measured beside the reference stack: the
        release, or another version if the reference stack has the release
    :param value: see :class:`adviser.monkey.job_value.JobValue`
    :param blocks: jobs of each stack, enough for the next look
    """

    release: LoopRelease
    known: WatchKnowledge
    indicator: MeasuredIndicator
    compared: str
    value: float
    blocks: int


@dataclass(frozen=True, slots=True)
class NightPriorities:
    """All jobs that are worth their time, the most valuable first, and releases without any.

    :param dropped: by subject of a release, why it gets no further jobs
    """

    ranked: tuple[ReleasePriority, ...]
    dropped: Mapping[str, str]


def night_priorities(
    stores: Stores, knowns: Sequence[WatchKnowledge], releases: Sequence[LoopRelease]
) -> NightPriorities:
    """Rank the jobs that a night could run; of equal value, those for the oldest release first."""
    settings = stores.settings
    indicators = [indicator_named(it) for it in settings.loop_indicators]
    ranked: list[ReleasePriority] = []
    dropped: dict[str, str] = {}
    for known in knowns:
        minutes = _minutes(stores, known)
        wanted = [it for it in releases if it.key.name in known.advice.snapshot.revisions]
        for indicator in [*own_indicators(settings, known.watch), *indicators]:
            here = watch_priorities(known, wanted, indicator, minutes, settings.loop_blocks)
            ranked += here.ranked
            dropped |= here.dropped
    kept = {it.release.key.subject for it in ranked}
    ranked.sort(key=lambda it: (-it.value, it.release.seen_at, it.release.key.subject))
    return NightPriorities(
        tuple(ranked), {name: it for name, it in dropped.items() if name not in kept}
    )


def watch_priorities(
    known: WatchKnowledge,
    releases: Sequence[LoopRelease],
    indicator: MeasuredIndicator,
    minutes: float,
    blocks: int,
) -> NightPriorities:
    """The priorities of releases for one watch and one indicator.

    :param minutes: expected duration of a job
    :param blocks: jobs of each stack until the first look
    """
    claims = [it for it in known.claims if _is_about(it, indicator)]
    compared = {
        release: package_version(release.key.name, version, release.key.index)
        for release in releases
        if (version := compared_version(known, release, claims)) is not None
    }
    measured = {it.purl for it in claims}
    values = job_values(
        claims,
        sorted({it.purl for it in compared.values()} - measured),
        dict.fromkeys(known.advice.snapshot.revisions, known.watch.weight),
        {},
        usual_minutes=minutes,
    )
    best = {it.purl: it for it in reversed(values)}  # the most valuable comes first in values
    ranked, dropped = [], {}
    for release in releases:
        subject, other = release.key.subject, compared.get(release)
        if other is None:
            dropped[subject] = "the reference stack has it already"
            continue
        alike = [it for it in claims if it.purl == other.purl]
        worth = _worth(best.get(other.purl), alike, known.watch.weight, minutes)
        if worth is None:
            dropped[subject] = "another version is faster, whatever further jobs show"
        elif worth < WORTHWHILE:
            value = best.get(other.purl)
            reason = "they take too long" if value is None else value.reason
            dropped[subject] = f"not worth further jobs: {reason}"
        else:
            jobs = _blocks(blocks, release, alike)
            ranked.append(ReleasePriority(release, known, indicator, other.version, worth, jobs))
    return NightPriorities(tuple(ranked), dropped)


def compared_version(
    known: WatchKnowledge, release: LoopRelease, claims: Sequence[Claim]
) -> str | None:
    """The version that is measured beside the reference stack for a release.

    This is the release itself. If the reference stack has it, because the advice follows new
    releases before they are settled, it is the version that most jobs compared with it, else the
    newest older version; ``None`` if there is no other version.
    """
    key = release.key
    if known.reference.get(key.name) != key.version:
        return key.version
    others = [it for it in claims if it.baseline_purl == key.purl and it.purl is not None]
    if others:
        most = max(others, key=lambda it: (it.jobs, it.purl or ""))
        return (most.purl or "").partition("?")[0].rpartition("@")[2]
    ours = version_of(key.version)
    older = [
        (number, it.version)
        for it in known.advice.universe.packages.get(key.name, ())
        if (number := version_of(it.version)) is not None and (ours is None or number < ours)
    ]
    return max(older)[1] if older else None


def _worth(
    value: JobValue | None, claims: Sequence[Claim], weight: float, minutes: float
) -> float | None:
    """The value of further jobs; ``None`` if none can change the verdict.

    A verdict at the level of one look is stricter than that of ``thoth advise``. In between, the
    next look is likely to settle it.
    """
    near = [it for it in claims if it.verdict.settled and it.p_value >= LOOK_ALPHA]
    if near:
        size = max(abs(math.log1p(it.observed_pct / 100)) for it in near)
        near_value = value_of_jobs(POWER * weight * size, 2 * MIN_JOBS * minutes)
        return max(near_value, 0.0 if value is None else value.value)
    return None if value is None else value.value


def _blocks(usual: int, release: LoopRelease, claims: Sequence[Claim]) -> int:
    """Jobs of each stack until the next look; ``usual`` for the first one, and at least."""
    if release.looks == 0 or release.looks >= MAX_LOOKS:
        return usual
    jobs = max((min(it.jobs, it.baseline_jobs) for it in claims), default=0)
    further = math.ceil((GROWTH * release.look_jobs - jobs) / _USABLE)
    return max(usual, further)


def _is_about(claim: Claim, indicator: MeasuredIndicator) -> bool:
    """Whether a claim compares one version with the reference, as the loop measures it."""
    return (
        claim.purl is not None
        and claim.here
        and claim.beside_baseline
        and claim.indicator == indicator.title
        and all(
            str(claim.parameters[name]) == value
            for name, value in indicator.measured_parameters.items()
            if name in claim.parameters
        )
    )


def _minutes(stores: Stores, known: WatchKnowledge) -> float:
    """Mean duration of a measured job of the watch's packages, in minutes."""
    with stores.engine.connect() as connection:
        durations = job_minutes(connection, list(known.advice.evidence.stacks))
    return fmean(durations.values()) if durations else _USUAL_MINUTES
