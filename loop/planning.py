"""Plans a night: which stacks are measured, for the releases for which further jobs are worth most.

:mod:`adviser.monkey.job_value` defines the value of jobs: the chance that the verdict changes,
times the weight of the watch and the size of the difference, for each hour. A release is compared
with the reference stack at planned looks only (:mod:`adviser.changes`), so a release that needs
further jobs gets enough of them for its next look.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from adviser.advise import Advice, Resolver
from adviser.changes import GROWTH, LOOK_ALPHA, MAX_LOOKS
from adviser.monkey.job_value import WORTHWHILE, JobValue, job_values, value_of_jobs
from adviser.scoring.assessment_types import Claim
from adviser.scoring.sample_needs import POWER
from adviser.scoring.samples import MIN_JOBS
from graph.engine import Stores
from graph.record.loop import (
    BatchState,
    LoopRelease,
    LoopState,
    add_batch,
    batches_in,
    releases_in,
    set_release_state,
)
from graph.record.measurements import job_minutes
from graph.record.watches import set_watch_state
from loop.stacks import (
    MeasuredIndicator,
    NoSuchStack,
    WatchKnowledge,
    indicator_named,
    own_indicators,
    specification_of_stack,
    stack_with,
)
from model.packages.identity import package_version, version_of

#: Expected share of jobs that comparisons can use; the others are unstable.
_USABLE = 0.9
#: Minutes of a job of a stack that was never measured.
_USUAL_MINUTES = 1.0


@dataclass(frozen=True, slots=True)
class ReleasePriority:
    """Jobs for a release, and their value.

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
    """All jobs that are worth their time, the most valuable first, and releases without such jobs.

    :param dropped: by subject of a release, why it gets no further jobs
    """

    ranked: tuple[ReleasePriority, ...]
    dropped: Mapping[str, str]


def night_priorities(
    stores: Stores, knowns: Sequence[WatchKnowledge], releases: Sequence[LoopRelease]
) -> NightPriorities:
    """Rank the jobs that a night could run by value, then by the age of the release."""
    settings = stores.settings
    indicators = [indicator_named(it) for it in settings.loop_indicators]
    ranked: list[ReleasePriority] = []
    dropped: dict[str, str] = {}
    for known in knowns:
        # Mean duration of a measured job of the watch's packages, in minutes.
        with stores.engine.connect() as connection:
            durations = job_minutes(connection, list(known.advice.evidence.stacks))
        minutes = fmean(durations.values()) if durations else _USUAL_MINUTES
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
    """The value of further jobs; ``None`` if no job can change the verdict.

    A verdict at the level of one look is stricter than the verdict of ``thoth advise``. If only the
    latter holds, the next look is likely to settle it.
    """
    near = [it for it in claims if it.verdict.settled and it.p_value >= LOOK_ALPHA]
    if near:
        size = max(abs(math.log1p(it.observed_pct / 100)) for it in near)
        near_value = value_of_jobs(POWER * weight * size, 2 * MIN_JOBS * minutes)
        return max(near_value, 0.0 if value is None else value.value)
    return None if value is None else value.value


def _blocks(usual: int, release: LoopRelease, claims: Sequence[Claim]) -> int:
    """Jobs of each stack until the next look: ``usual`` for the first look, and at least."""
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


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StackToMeasure:
    """A stack of a batch.

    :param releases: subjects of the releases that it is measured for
    """

    label: str
    releases: tuple[str, ...]
    specification: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """JSON values, as :class:`graph.record.loop.LoopBatch` has them."""
        return {
            "label": self.label,
            "releases": list(self.releases),
            "specification": dict(self.specification),
        }


def stacks_of_batch(
    stores: Stores,
    known: WatchKnowledge,
    priorities: Sequence[ReleasePriority],
    indicator: MeasuredIndicator,
    resolver: Resolver,
) -> Sequence[StackToMeasure]:
    """The reference stack, the reference with each release, and the advised stack.

    A stack differs from the reference in the release alone wherever requirements permit, because
    only such a comparison is scored. The reference comes twice: the pair measures the noise (A/A).
    If the reference has a release, the stack has another version in its place.

    :raises NoSuchStack: if the reference cannot be measured
    """
    reference = stack_with(stores, known, known.reference, resolver)
    first = specification_of_stack(stores, reference, indicator)
    stacks = [StackToMeasure("reference", (), first), StackToMeasure("reference again", (), first)]
    versions = {tuple(sorted(known.reference.items()))}
    for priority in priorities:
        key = priority.release.key
        pins = {**known.reference, key.name: priority.compared}
        try:
            advice = _nearest(stores, known, key.name, pins, resolver)
            specification = specification_of_stack(stores, advice, indicator)
        except NoSuchStack as error:
            _LOG.info("release_left_out", extra={"release": key.subject, "reason": str(error)})
            continue
        versions.add(tuple(sorted(pins.items())))
        label = f"{key.name}=={priority.compared}"
        stacks.append(StackToMeasure(label, (key.subject,), specification))
    if known.advised and tuple(sorted(known.advised.items())) not in versions:
        advised = stack_with(stores, known, known.advised, resolver)
        specification = specification_of_stack(stores, advised, indicator)
        stacks.append(StackToMeasure("advised", (), specification))
    return stacks


def _nearest(
    stores: Stores, known: WatchKnowledge, name: str, pins: Mapping[str, str], resolver: Resolver
) -> Advice:
    """The stack with all these versions, or else the best stack with the version of ``name``."""
    try:
        return stack_with(stores, known, pins, resolver)
    except NoSuchStack:
        return stack_with(stores, known, {name: pins[name]}, resolver)


#: Stacks of a batch beside those of its releases: the reference, its repetition, the advised one.
_FURTHER_STACKS = 3


def plan_batches(
    stores: Stores, night: int, knowns: Sequence[WatchKnowledge], resolver: Resolver
) -> dict[str, int]:
    """Plan the batches of a night within its budget of jobs, the most valuable jobs first.

    A release without a job that is worth its time is given up with the reason. So is a release
    without a stack to measure in ``LOOP_NIGHTS`` nights.

    :returns: counts for people
    """
    settings = stores.settings
    with stores.engine.connect() as connection:
        waiting = releases_in(connection, [LoopState.RESOLVABLE, LoopState.MEASURED])
        earlier = batches_in(connection, [BatchState.PLANNED])
    busy = {it.watch_id for it in earlier}
    in_batches = {it for batch in earlier for stack in batch.stacks for it in stack["releases"]}
    free = [it for it in knowns if it.watch.watch_id not in busy]
    waiting = [it for it in waiting if it.key.subject not in in_batches]
    ranking = night_priorities(stores, free, waiting)
    left = settings.loop_jobs - sum(it.jobs - it.measured_jobs for it in earlier)
    counts = {"batches": 0, "jobs": 0}
    planned: set[str] = set()
    without: dict[str, str] = {}
    for batch in _within(ranking.ranked, left):
        first = batch[0]
        try:
            stacks = stacks_of_batch(stores, first.known, batch, first.indicator, resolver)
        except NoSuchStack as error:
            stacks = ()
            without |= {it.release.key.subject: str(error) for it in batch}
        planned.update(subject for it in stacks for subject in it.releases)
        for it in batch:
            without.setdefault(it.release.key.subject, "no stack that can be measured contains it")
        if any(it.releases for it in stacks):  # else only the advised stack is left
            counts["batches"] += 1
            counts["jobs"] += first.blocks * len(stacks)
            _store(stores, night, batch, stacks)
    without = {name: it for name, it in without.items() if name not in planned}
    _leave_out(stores, night, waiting, ranking.dropped, without)
    return counts


def _within(ranked: Sequence[ReleasePriority], budget: int) -> list[tuple[ReleasePriority, ...]]:
    """Choose jobs within a budget, by watch and indicator; the most valuable decide the number."""
    batches: dict[tuple[str, str], list[ReleasePriority]] = {}
    for priority in ranked:
        key = priority.known.watch.watch_id, priority.indicator.text
        batch = batches.get(key, [])
        jobs = batch[0].blocks if batch else (1 + _FURTHER_STACKS) * priority.blocks
        if jobs <= budget:
            budget -= jobs
            batches[key] = [*batch, priority]
    return [tuple(it) for it in batches.values()]


def _leave_out(
    stores: Stores,
    night: int,
    releases: Sequence[LoopRelease],
    dropped: Mapping[str, str],
    without: Mapping[str, str],
) -> None:
    """Give up releases that get no further jobs, or that have no stack for ``LOOP_NIGHTS`` nights.

    :param dropped: releases that get no further jobs: subject and reason
    :param without: releases without a possible stack: subject and reason
    """
    for release in releases:
        key, nights = release.key, release.nights_with(night)
        if key.subject in dropped:
            state, reason = LoopState.GIVEN_UP, dropped[key.subject]
        elif key.subject in without:
            state, reason = release.state, without[key.subject]
            if nights >= stores.settings.loop_nights:
                state = LoopState.GIVEN_UP
        else:
            continue
        with stores.engine.begin() as connection:
            set_release_state(connection, key, state, reason, nights=nights, last_night=night)


def _store(
    stores: Stores, night: int, batch: Sequence[ReleasePriority], stacks: Sequence[StackToMeasure]
) -> None:
    """Store a batch and the states of its releases in one transaction."""
    planned = {subject for it in stacks for subject in it.releases}
    watch, blocks = batch[0].known.watch, batch[0].blocks
    with stores.engine.begin() as connection:
        documents = [it.as_json() for it in stacks]
        add_batch(connection, night, watch.watch_id, batch[0].indicator.text, documents, blocks)
        for release in (it.release for it in batch):
            if release.key.subject in planned:
                set_release_state(
                    connection, release.key, LoopState.PLANNED,
                    measured_jobs=release.measured_jobs,
                    planned_jobs=release.measured_jobs + blocks,
                )  # fmt: skip
        set_watch_state(
            connection, watch.watch_id, LoopState.PLANNED,
            planned_jobs=blocks * len(stacks), measured_jobs=0,
        )  # fmt: skip
