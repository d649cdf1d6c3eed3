"""Histories: the stable jobs of each stack in one series, without jobs from before a drift."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from adviser.scoring.comparisons import smallest_difference
from adviser.scoring.drift import steps
from adviser.scoring.effects import Variance
from adviser.scoring.estimates import (
    UNKNOWN_HOST_SPREAD,
    HostSpread,
    Method,
    SeriesSpread,
    effects_by_host,
    estimates_of,
    host_spread,
)
from adviser.scoring.samples import MIN_JOBS, JobPlace, Sample, job_log_rate, job_seconds
from adviser.scoring.turn_noise import FEWEST_STACKS, TurnNoise, turn_noises, turn_variances
from adviser.scoring.variances import (
    UNKNOWN_SPREAD,
    RunSpread,
    TurnResiduals,
    run_spread,
    turn_residuals,
    variance_prior,
)
from model.measurements.evidence import Evidence, EvidencePack, Reading, Series

#: Maximum number of runs of one stack that are compared with each other; the latest ones.
MAX_RUNS = 12

#: Reason to leave out jobs from before the last step of their host.
DRIFT = "drift"


class MeasuredJob(NamedTuple):
    """One job of one stack in one series.

    :param log_rate: natural log of the job's median rate
    :param place: where and in which turns it ran; its run is its inspection
    :param seen_at: time of its last reading
    :param observations: identifiers of its observations, sorted
    :param tick: see :class:`adviser.scoring.samples.Sample`
    """

    job_id: str
    log_rate: float
    place: JobPlace
    seen_at: datetime | None
    observations: tuple[str, ...]
    tick: float = 0.0


@dataclass(frozen=True)
class History:
    """The stable jobs of one series by stack, without jobs from before the last drift.

    :param jobs: by stack digest, sorted; jobs in the order of their identifiers
    :param drifted: by host, the time of the last step; jobs from before it are left out
    :param left_out: by stack digest, the reason for each job left out, sorted
    :param packed: the series of its pack; ``None`` for the own record
    """

    series: Series
    jobs: Mapping[str, tuple[MeasuredJob, ...]]
    drifted: Mapping[str | None, datetime]
    left_out: Mapping[str, tuple[str, ...]]
    packed: PackedSeries | None = field(default=None, compare=False, repr=False)

    def sample(self, stack: str) -> Sample:
        """The jobs of a stack as a sample."""
        if (sample := self._samples.get(stack)) is None:
            sample = self._samples[stack] = self._sample(stack, self.jobs.get(stack, ()))
        return sample

    def _sample(self, stack: str, jobs: Sequence[MeasuredJob]) -> Sample:
        return Sample(
            stack,
            tuple(it.log_rate for it in jobs),
            self.series.comparison_key,
            tuple(it.place for it in jobs),
            {host: them[stack] for host, them in self._turns.items() if stack in them},
            max(it.tick for it in jobs) if jobs and all(it.tick for it in jobs) else 0.0,
        )

    @cached_property
    def _turns(self) -> dict[str, dict[str, Variance]]:
        """Variance of a job within turns, by host and stack."""
        return {host: turn_variances(them) for host, them in self.residuals.items()}

    @cached_property
    def residuals(self) -> dict[str, TurnResiduals]:
        """By host, the residuals of jobs that ran in turns, without effects of turns and stacks."""
        return turn_residuals(
            {stack: [(it.place, it.log_rate) for it in jobs] for stack, jobs in self.jobs.items()}
        )

    @cached_property
    def noise(self) -> dict[str, TurnNoise]:
        """By host, the error that batches and neighbours add for jobs that ran in turns."""
        return _noises([self])[0] if self.packed is None else self.packed.noises[id(self)]

    @cached_property
    def _samples(self) -> dict[str, Sample]:
        return {}

    @cached_property
    def job_s(self) -> float | None:
        """Duration of a job, s; ``None`` if unknown."""
        return job_seconds(it.place for jobs in self.jobs.values() for it in jobs)

    def observed(self, stack: str, used: Iterable[int]) -> Iterator[str]:
        """The observations of the jobs of a stack at these indexes."""
        jobs = self.jobs.get(stack, ())
        for i in used:
            yield from jobs[i].observations

    def as_of(self, stack: str, used: Iterable[int]) -> datetime | None:
        """The time of the latest job of a stack among the jobs at these indexes."""
        jobs = self.jobs.get(stack, ())
        return max((at for i in used if (at := jobs[i].seen_at)), default=None)

    def excluded(self, stack: str, used: Collection[int] | None = None) -> Counter[str]:
        """The number of jobs of a stack that take no part in a comparison, by reason.

        :param used: indexes of the jobs that take part; by default all jobs that are not left out
        """
        counts = Counter(self.left_out.get(stack, ()))
        if used is not None:
            places = self.sample(stack).places
            hosts = {places[i].host for i in used}
            for i in set(range(len(places))).difference(used):
                counts["unpaired" if places[i].host in hosts else "other_host"] += 1
        return counts

    @cached_property
    def spread(self) -> SeriesSpread:
        """The noise of the series, estimated from all its stacks."""
        turns = {host: variance_prior(list(it.values())) for host, it in self._turns.items()}
        alone = SeriesSpread(self._run_spread, turns, self.noise)
        if self.packed is not None:
            limits = self.packed.pack
            alone = replace(alone, min_jobs=limits.min_jobs, min_sessions=limits.min_sessions)
        return replace(alone, hosts=self._host_spread(alone))

    def _host_spread(self, spread: SeriesSpread) -> HostSpread:
        """The spread of effects between hosts.

        The spread is the median over the three reference stacks with the most hosts and jobs. With
        a single reference stack, its interaction with a host would appear in every effect.
        """
        hosts = {stack: {it.place.host for it in jobs} for stack, jobs in self.jobs.items()}
        several = [stack for stack, names in hosts.items() if len(names) > 1]
        if len(several) < 2:
            return UNKNOWN_HOST_SPREAD
        several.sort(key=lambda it: (-len(hosts[it]), -len(self.jobs[it]), it))
        spreads = []
        for reference in several[:3]:
            others = [self.sample(it) for it in several if it != reference]
            effects = effects_by_host(self.sample(reference), others, spread)
            spreads.append(host_spread(effects))
        return sorted(spreads, key=lambda it: it.variance)[(len(spreads) - 1) // 2]

    @cached_property
    def _run_spread(self) -> RunSpread:
        rates: list[float] = []
        number: list[int] = []
        stacks: list[int] = []
        last = 0
        for jobs in self.jobs.values():
            runs: dict[tuple[str | None, str | None], int] = {}
            hosts: dict[str | None, int] = {}
            known = len(stacks)
            for job in jobs:
                place = job.place
                run = runs.setdefault((place.host, place.occasion), known + len(runs))
                if run == len(stacks):
                    stacks.append(hosts.setdefault(place.host, last + len(hosts)))
                number.append(run)
                rates.append(job.log_rate)
            last += len(hosts)
        return run_spread(rates, number, stacks) if rates else UNKNOWN_SPREAD

    @cached_property
    def identical(self) -> tuple[float, ...]:
        """A/A effects, natural logs: each stack compared with itself in the same turns.

        Runs that did not share turns are not used: their differences are already part of the error
        of comparisons by run.
        """
        effects: list[float] = []
        for theirs, ours in self.identical_pairs():
            (estimate,) = estimates_of(theirs, [ours])
            if estimate.method is not Method.WELCH:
                effects.append(estimate.effect.d)
        return tuple(effects)

    @cached_property
    def log_margin(self) -> float:
        """``ln(1 + δ)``."""
        return math.log1p(smallest_difference(self.identical))

    def identical_pairs(self) -> list[tuple[Sample, Sample]]:
        """Pairs of runs of one stack in the same turns on one host, older run first."""
        pairs = []
        for stack, jobs in self.jobs.items():
            for runs in _by_host([it for it in jobs if it.place.block is not None]).values():
                late = [(_blocks(run), run) for run in runs[-MAX_RUNS:]]
                pairs += [
                    (self._sample(stack, theirs), self._sample(stack, ours))
                    for (some, theirs), (others, ours) in combinations(late, 2)
                    if len(some & others) >= MIN_JOBS
                ]
        return pairs

    def identical_residuals(self) -> Iterator[TurnResiduals]:
        """The same for stacks that ran twice in the same turns: first runs and second runs."""
        arms: dict[str, dict[str, dict[JobPlace, float]]] = {}
        for theirs, ours in self.identical_pairs():
            first, second = arms.setdefault(ours.label, {"first": {}, "second": {}}).values()
            runs = {it.run for it in (*first, *second)}
            if runs.isdisjoint(it.run for it in (*theirs.places, *ours.places)):
                first |= zip(theirs.places, theirs.log_rates, strict=True)
                second |= zip(ours.places, ours.log_rates, strict=True)
        for them in arms.values():
            yield from turn_residuals({arm: it.items() for arm, it in them.items()}).values()

    def neighbours(self) -> list[tuple[Sample, Sample]]:
        """Pairs of consecutive runs of one stack on one host, with five jobs each or more.

        No run is in two pairs, and the two runs of a pair did not run in turns.
        """
        pairs = []
        for stack, jobs in self.jobs.items():
            for runs in _by_host(jobs).values():
                late = [run for run in runs if len(run) >= MIN_JOBS][-MAX_RUNS:]
                pairs += [
                    (self._sample(stack, theirs), self._sample(stack, ours))
                    for theirs, ours in list(pairwise(late))[::2]
                    if not _blocks(theirs) & _blocks(ours)
                ]
        return pairs


@dataclass(frozen=True)
class PackedSeries:
    """The series of a pack on one hardware class, which share the variance between sessions."""

    pack: EvidencePack
    histories: list[History] = field(default_factory=list)

    @cached_property
    def noises(self) -> dict[int, dict[str, TurnNoise]]:
        """The noise of each history, by its ``id``."""
        return dict(zip(map(id, self.histories), _noises(self.histories), strict=True))


def _noises(histories: Sequence[History]) -> list[dict[str, TurnNoise]]:
    """By host, the noise of each of these series."""
    many = [
        (number, host, it)
        for number, history in enumerate(histories)
        for host, it in history.residuals.items()
        if len(it.stacks) > FEWEST_STACKS
    ]
    noises: list[dict[str, TurnNoise]] = [{} for _ in histories]
    for (number, host, _), noise in zip(many, turn_noises([it for *_, it in many]), strict=True):
        noises[number][host] = noise
    return noises


def jobs_left_out(history: History, used: Iterable[tuple[str, Collection[int]]]) -> dict[str, int]:
    """The number of jobs of several stacks that take no part in a comparison, by reason.

    :param used: stacks with the indexes of the jobs that take part
    """
    counts: Counter[str] = Counter()
    for stack, places in used:
        counts += history.excluded(stack, places)
    return dict(sorted(counts.items()))


def _blocks(run: Iterable[MeasuredJob]) -> set[str]:
    return {it.place.block for it in run if it.place.block is not None}


def _by_host(jobs: Iterable[MeasuredJob]) -> dict[str | None, list[list[MeasuredJob]]]:
    """The runs on each host, oldest first."""
    by_run: dict[str | None, dict[str | None, list[MeasuredJob]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for it in jobs:
        by_run[it.place.host][it.place.run].append(it)

    def began(run: Iterable[MeasuredJob]) -> float:
        return min((it.seen_at.timestamp() for it in run if it.seen_at), default=0.0)

    return {
        host: [runs[run] for run in sorted(runs, key=lambda it: (began(runs[it]), it or ""))]
        for host, runs in by_run.items()
    }


def histories_of(evidence: Evidence, wanted: Iterable[int]) -> dict[int, History]:
    """The histories of these series, by index; linear in the number of readings."""
    kept, packs = set(wanted), {it.digest: it for it in evidence.packs}
    # Series of a pack that may decide have nothing to do with its others.
    places = {
        number: (pack, it.hardware_digest, pack.decides(it))
        for number, it in enumerate(evidence.series)
        if it.origin is not None
        for pack in (packs.get(it.origin) or EvidencePack(it.origin, it.origin),)
    }
    packed = {place: PackedSeries(place[0]) for number, place in places.items() if number in kept}
    read = kept | {number for number, place in places.items() if place in packed}
    by_series: dict[int, list[Reading]] = defaultdict(list)
    for reading in evidence.readings:
        if reading.series in read:
            by_series[reading.series].append(reading)
    histories = {
        number: history_of(
            evidence.series[number], readings, packed[places[number]] if number in places else None
        )
        for number, readings in sorted(by_series.items())
    }
    return {number: it for number, it in histories.items() if number in kept}


def history_of(
    series: Series, readings: Iterable[Reading], packed: PackedSeries | None = None
) -> History:
    """The history of one series, from all its readings in any order.

    :param packed: the series of its pack, to which it is added
    """
    if packed is None and series.origin is not None:
        packed = PackedSeries(EvidencePack(series.origin, series.origin))
    jobs, left_out = jobs_of(readings)
    drifted = _last_steps(jobs)
    kept = {}
    for stack, stack_jobs in jobs.items():
        late = tuple(
            it
            for it in stack_jobs
            if (since := drifted.get(it.place.host)) is None
            or (it.seen_at is not None and it.seen_at >= since)
        )
        left_out[stack] += [DRIFT] * (len(stack_jobs) - len(late))
        if late:
            kept[stack] = late
    reasons = {stack: tuple(sorted(them)) for stack, them in left_out.items() if them}
    history = History(series, kept, drifted, reasons, packed)
    if packed is not None:
        packed.histories.append(history)
    return history


def jobs_of(
    readings: Iterable[Reading],
) -> tuple[dict[str, list[MeasuredJob]], dict[str, list[str]]]:
    """The stable jobs of each stack, by identifier, and the reasons why other jobs are unstable.

    A job that was recorded several times counts once. A job is unstable if any of its readings is
    unstable.
    """
    jobs: dict[str, list[MeasuredJob]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for (stack, _), rows in groupby(sorted(readings, key=_identity), key=_identity):
        first, *others = rows
        reasons = [it.unstable_reason for it in (first, *others) if it.unstable_reason is not None]
        if reasons:
            left_out[stack].append(min(reasons))
        else:
            jobs[stack].append(_job(first, others))
    return jobs, left_out


_identity = attrgetter("stack", "job_id")


def _job(reading: Reading, others: Sequence[Reading]) -> MeasuredJob:
    place = JobPlace(
        reading.host, reading.block, reading.document_id, reading.seen_at, reading.session
    )
    if not others:  # the usual case
        rate = job_log_rate((reading.rate,))
        return MeasuredJob(
            reading.job_id, rate, place, reading.seen_at, (reading.observation_id,),
            reading.tick_share or 0.0,
        )  # fmt: skip
    rows = sorted((reading, *others), key=lambda row: row.observation_id)
    rate = job_log_rate([row.rate for row in rows])
    last = max(filter(None, (row.seen_at for row in rows)), default=None)
    tick = max(row.tick_share or 0.0 for row in rows)
    observations = tuple(row.observation_id for row in rows)
    return MeasuredJob(reading.job_id, rate, place, last, observations, tick)


def reference_runs(
    jobs: Mapping[str, Sequence[MeasuredJob]],
) -> dict[str | None, tuple[str, list[list[MeasuredJob]]]]:
    """For each host, its reference stack and the runs of that stack, oldest first.

    The reference is the stack with the most runs on the host, because every batch runs it.

    :param jobs: stable jobs by stack digest; jobs without a time are ignored
    """
    runs: dict[str | None, dict[str, set[str | None]]] = defaultdict(lambda: defaultdict(set))
    for stack, stack_jobs in jobs.items():
        for job in stack_jobs:
            if job.seen_at is not None:
                runs[job.place.host][stack].add(job.place.run)
    references = {}
    for host, stacks in runs.items():
        reference = max(stacks, key=lambda it: (len(stacks[it]), len(jobs[it]), it))
        timed = [it for it in jobs[reference] if it.seen_at is not None and it.place.host == host]
        references[host] = reference, _by_host(timed)[host]
    return references


def _last_steps(jobs: Mapping[str, Sequence[MeasuredJob]]) -> dict[str | None, datetime]:
    """For each host, the time of the first job of its last level, if its reference shows a step.

    Only the means of this stack's runs are examined, so that a candidate's results never decide
    which jobs are left out.
    """
    last_steps = {}
    for host, (_, runs) in reference_runs(jobs).items():
        levels = steps([math.fsum(it.log_rate for it in run) / len(run) for run in runs])
        if levels:
            last_steps[host] = min(it.seen_at for it in runs[levels[-1]] if it.seen_at is not None)
    return last_steps
