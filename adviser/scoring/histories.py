"""From readings to histories: the jobs of each stack in one series, less what drifted away."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from adviser.scoring.comparisons import smallest_difference
from adviser.scoring.drift import steps
from adviser.scoring.effects import Variance
from adviser.scoring.estimates import Method, SeriesSpread, effects_by_host, estimates_of
from adviser.scoring.host_pooling import (
    UNKNOWN_HOST_SPREAD,
    HostSpread,
    host_spread,
)
from adviser.scoring.samples import (
    MIN_JOBS,
    JobPlace,
    Sample,
    job_log_rate,
)
from adviser.scoring.variances import (
    UNKNOWN_SPREAD,
    RunSpread,
    run_spread,
    turn_variances,
    variance_prior,
)
from graph.evidence import Evidence, Reading, Series

#: Of the runs of one stack, as many are compared with each other for what identical stacks
#: show; the latest ones.
MAX_RUNS = 12

#: Why jobs from before the last step of their host are left out.
DRIFT = "drift"


class MeasuredJob(NamedTuple):
    """One job of one stack in one series.

    :param log_rate: ln of the job's median rate
    :param place: where it ran and in which turns; its run is the inspection that it was part of
    :param seen_at: when the last of its readings was made
    :param observations: identifiers of what it measured, sorted
    """

    job_id: str
    log_rate: float
    place: JobPlace
    seen_at: datetime | None
    observations: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """All that one series has: its stable jobs by stack, none from before the last drift.

    :param jobs: by stack digest, sorted; in the order of their identifiers
    :param drifted: when the last step was, by host; jobs from before it are left out
    :param left_out: by stack digest, why each job that does not count is left out, sorted
    """

    series: Series
    jobs: Mapping[str, tuple[MeasuredJob, ...]]
    drifted: Mapping[str | None, datetime]
    left_out: Mapping[str, tuple[str, ...]]

    def sample(self, stack: str) -> Sample:
        """The jobs of a stack as they are compared."""
        if (found := self._samples.get(stack)) is None:
            found = self._samples[stack] = self._sample(stack, self.jobs.get(stack, ()))
        return found

    def _sample(self, stack: str, jobs: Sequence[MeasuredJob]) -> Sample:
        return Sample(
            stack,
            tuple(it.log_rate for it in jobs),
            self.series.comparison_key,
            tuple(it.place for it in jobs),
            {host: them[stack] for host, them in self._turns.items() if stack in them},
        )

    @cached_property
    def _turns(self) -> dict[str, dict[str, Variance]]:
        """By host and stack, the variance of one job within turns."""
        return turn_variances(
            {stack: [(it.place, it.log_rate) for it in jobs] for stack, jobs in self.jobs.items()}
        )

    @cached_property
    def _samples(self) -> dict[str, Sample]:
        return {}

    def observed(self, stack: str, used: Iterable[int]) -> Iterator[str]:
        """The observations of some jobs of a stack, by their places."""
        jobs = self.jobs.get(stack, ())
        for i in used:
            yield from jobs[i].observations

    def as_of(self, stack: str, used: Iterable[int]) -> datetime | None:
        """When the last of some jobs of a stack was made."""
        jobs = self.jobs.get(stack, ())
        return max((at for i in used if (at := jobs[i].seen_at)), default=None)

    def excluded(self, stack: str, used: Collection[int] | None = None) -> Counter[str]:
        """How many jobs of a stack take no part in a comparison, by reason.

        :param used: places of the jobs that take part; by default all that are not left out
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
        """What all stacks of the series show of its noise."""
        turns = {host: variance_prior(list(it.values())) for host, it in self._turns.items()}
        alone = SeriesSpread(self._run_spread, turns)
        return replace(alone, hosts=self._host_spread(alone))

    def _host_spread(self, spread: SeriesSpread) -> HostSpread:
        """How much effects differ between hosts.

        The median over three references, those with most hosts and jobs: one that carries an
        interaction of its own would show it in every effect.
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
        for them in self.jobs.values():
            runs: dict[tuple[str | None, str | None], int] = {}
            hosts: dict[str | None, int] = {}
            known = len(stacks)
            for it in them:
                place = it.place
                run = runs.setdefault((place.host, place.run), known + len(runs))
                if run == len(stacks):
                    stacks.append(hosts.setdefault(place.host, last + len(hosts)))
                number.append(run)
                rates.append(it.log_rate)
            last += len(hosts)
        return run_spread(rates, number, stacks) if rates else UNKNOWN_SPREAD

    @cached_property
    def identical(self) -> tuple[float, ...]:
        """A/A: what one stack has shown against itself in the same turns; natural logs.

        Of runs that were not in the same turns nothing is taken: how much these differ is part
        of the error of whatever is compared run by run.
        """
        found: list[float] = []
        for theirs, ours in self.identical_pairs():
            (estimate,) = estimates_of(theirs, [ours])
            if estimate.method is not Method.WELCH:
                found.append(estimate.effect.d)
        return tuple(found)

    @cached_property
    def log_margin(self) -> float:
        """``ln(1 + δ)``."""
        return math.log1p(smallest_difference(self.identical))

    def identical_pairs(self) -> list[tuple[Sample, Sample]]:
        """Runs of one stack that were in the same turns on one host, older first."""
        found = []
        for stack, them in self.jobs.items():
            for runs in _by_host([it for it in them if it.place.block is not None]).values():
                late = [(_blocks(run), run) for run in runs[-MAX_RUNS:]]
                found += [
                    (self._sample(stack, theirs), self._sample(stack, ours))
                    for (some, theirs), (others, ours) in combinations(late, 2)
                    if len(some & others) >= MIN_JOBS
                ]
        return found

    def neighbours(self) -> list[tuple[Sample, Sample]]:
        """Two runs of one stack on one host, five jobs each or more, one after the other; no run
        is in two pairs, and no pair shared its turns.
        """
        found = []
        for stack, them in self.jobs.items():
            for runs in _by_host(them).values():
                late = [run for run in runs if len(run) >= MIN_JOBS][-MAX_RUNS:]
                found += [
                    (self._sample(stack, theirs), self._sample(stack, ours))
                    for theirs, ours in list(pairwise(late))[::2]
                    if not _blocks(theirs) & _blocks(ours)
                ]
        return found


def jobs_left_out(history: History, used: Iterable[tuple[str, Collection[int]]]) -> dict[str, int]:
    """How many jobs of some stacks take no part in a comparison, by reason.

    :param used: of each stack, the places of the jobs that take part
    """
    counts: Counter[str] = Counter()
    for stack, places in used:
        counts += history.excluded(stack, places)
    return dict(sorted(counts.items()))


def _blocks(run: Iterable[MeasuredJob]) -> set[str]:
    return {it.place.block for it in run if it.place.block is not None}


def _by_host(jobs: Iterable[MeasuredJob]) -> dict[str | None, list[list[MeasuredJob]]]:
    """The runs on each host, oldest first."""
    found: dict[str | None, dict[str | None, list[MeasuredJob]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for it in jobs:
        found[it.place.host][it.place.run].append(it)
    return {
        host: [runs[run] for run in sorted(runs, key=lambda it: (_began(runs[it]), it or ""))]
        for host, runs in found.items()
    }


def _began(run: Iterable[MeasuredJob]) -> float:
    return min((it.seen_at.timestamp() for it in run if it.seen_at), default=0.0)


def histories_of(evidence: Evidence, wanted: Iterable[int]) -> dict[int, History]:
    """The histories of some series, by index; in time linear in all readings."""
    kept = set(wanted)
    by_series: dict[int, list[Reading]] = defaultdict(list)
    for reading in evidence.readings:
        if reading.series in kept:
            by_series[reading.series].append(reading)
    return {
        number: history_of(evidence.series[number], readings)
        for number, readings in sorted(by_series.items())
    }


def history_of(series: Series, readings: Iterable[Reading]) -> History:
    """The history of one series, of all its readings in any order."""
    jobs, left_out = jobs_of(readings)
    drifted = _last_steps(jobs)
    kept = {}
    for stack, them in jobs.items():
        late = tuple(it for it in them if _after(it, drifted)) if drifted else tuple(them)
        left_out[stack] += [DRIFT] * (len(them) - len(late))
        if late:
            kept[stack] = late
    told = {stack: tuple(sorted(them)) for stack, them in left_out.items() if them}
    return History(series, kept, drifted, told)


def jobs_of(
    readings: Iterable[Reading],
) -> tuple[dict[str, list[MeasuredJob]], dict[str, list[str]]]:
    """The stable jobs of each stack, in the order of their identifiers, and why others are not.

    However often a job was recorded it is one. It is unstable if any of its readings is.
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


def _job(it: Reading, others: Sequence[Reading]) -> MeasuredJob:
    place = JobPlace(it.host, it.block, it.document_id)
    if not others:  # as nearly always
        rate = job_log_rate((it.rate,))
        return MeasuredJob(it.job_id, rate, place, it.seen_at, (it.observation_id,))
    rows = sorted((it, *others), key=lambda row: row.observation_id)
    rate = job_log_rate([row.rate for row in rows])
    last = max(filter(None, (row.seen_at for row in rows)), default=None)
    return MeasuredJob(it.job_id, rate, place, last, tuple(row.observation_id for row in rows))


def _last_steps(jobs: Mapping[str, Sequence[MeasuredJob]]) -> dict[str | None, datetime]:
    """Since when each host is as it is, where its reference stack tells.

    That is the stack with most runs there: what every batch runs. The means of its own runs
    have to stay on one level; nothing else is looked at, so that no candidate's results decide
    what is left out.
    """
    runs: dict[str | None, dict[str, set[str | None]]] = defaultdict(lambda: defaultdict(set))
    for stack, them in jobs.items():
        for it in them:
            if it.seen_at is not None:
                runs[it.place.host][stack].add(it.place.run)
    found = {}
    for host, stacks in runs.items():
        reference = max(stacks, key=lambda it: (len(stacks[it]), len(jobs[it]), it))
        timed = [it for it in jobs[reference] if it.seen_at is not None and it.place.host == host]
        if (since := _last_step(_by_host(timed)[host])) is not None:
            found[host] = since
    return found


def _last_step(reference: Sequence[Sequence[MeasuredJob]]) -> datetime | None:
    """When the first job of the last level was made; runs are in the order of time."""
    found = steps([math.fsum(it.log_rate for it in run) / len(run) for run in reference])
    if not found:
        return None
    return min(it.seen_at for it in reference[found[-1]] if it.seen_at is not None)


def _after(job: MeasuredJob, drifted: Mapping[str | None, datetime]) -> bool:
    since = drifted.get(job.place.host)
    return since is None or (job.seen_at is not None and job.seen_at >= since)
