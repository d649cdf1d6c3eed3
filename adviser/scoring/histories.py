"""From readings to histories: the jobs of each stack in one series, less what drifted away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import combinations

from adviser.scoring.drift import steps
from adviser.scoring.estimates import Sample, estimates_of
from adviser.scoring.jobs import JobEffect, Place, job_log_rate
from adviser.scoring.planning import MIN_JOBS
from graph.evidence import Evidence, Reading, Series

#: Of the runs of one stack, as many are compared with each other for what identical stacks
#: show; the latest ones.
MAX_RUNS = 12


@dataclass(frozen=True, slots=True)
class Job:
    """One job of one stack in one series.

    :param document_id: of the inspection that it was part of
    :param observations: identifiers of what it measured, sorted
    """

    effect: JobEffect
    document_id: str
    seen_at: datetime | None
    observations: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """All that one series has: its stable jobs by stack, none from before the last drift.

    :param jobs: by stack digest, sorted; in the order of their identifiers
    :param drifted: when the last step was, by host; jobs from before it are left out
    """

    series: Series
    jobs: Mapping[str, tuple[Job, ...]]
    drifted: Mapping[str | None, datetime]

    def sample(self, stack: str) -> Sample:
        """The jobs of a stack as they are compared."""
        return _sample(stack, self.jobs.get(stack, ()), self.series.comparison_key)

    def evidence(self, *stacks: str) -> tuple[str, ...]:
        """The observations of some stacks, sorted."""
        return tuple(sorted(one for stack in stacks for one in self._observed.get(stack, ())))

    def as_of(self, *stacks: str) -> datetime | None:
        """When any of some stacks was last measured."""
        seen = (it.seen_at for stack in stacks for it in self.jobs.get(stack, ()))
        return max(filter(None, seen), default=None)

    @cached_property
    def _observed(self) -> dict[str, list[str]]:
        """The observations of each stack, sorted."""
        return {
            stack: sorted(one for it in them for one in it.observations)
            for stack, them in self.jobs.items()
        }

    @cached_property
    def identical(self) -> tuple[float, ...]:
        """A/A: what one stack has shown against itself, run against run; natural logs.

        Runs are inspections of one stack with five stable jobs each or more, compared as any
        two stacks are.
        """
        found: list[float] = []
        for stack, jobs in self.jobs.items():
            samples = [
                _sample(stack, run, self.series.comparison_key) for run in _runs(jobs)[-MAX_RUNS:]
            ]
            for theirs, ours in combinations(samples, 2):
                (estimate,) = estimates_of(theirs, [ours])
                if min(estimate.jobs, estimate.baseline_jobs) >= MIN_JOBS:
                    found.append(estimate.effect.d)
        return tuple(found)


def _sample(stack: str, jobs: Sequence[Job], key: str) -> Sample:
    rates = tuple(it.effect.log_rate for it in jobs)
    return Sample(stack, rates, key, tuple(it.effect.place for it in jobs))


def _runs(jobs: Iterable[Job]) -> list[list[Job]]:
    """Jobs by inspection, oldest first, where there are enough of them."""
    by_document = defaultdict(list)
    for it in jobs:
        by_document[it.document_id].append(it)
    enough = [(_began(run), name, run) for name, run in by_document.items() if len(run) >= MIN_JOBS]
    return [run for _, _, run in sorted(enough, key=lambda it: it[:2])]


def _began(run: Iterable[Job]) -> float:
    return min((it.seen_at.timestamp() for it in run if it.seen_at), default=0.0)


def histories_of(evidence: Evidence, wanted: Iterable[int]) -> dict[int, History]:
    """The histories of some series, by index; in time linear in all readings."""
    kept = set(wanted)
    by_series: dict[int, list[Reading]] = defaultdict(list)
    for reading in evidence.readings:
        if reading.series in kept:
            by_series[reading.series].append(reading)
    return {
        number: _history(evidence.series[number], readings)
        for number, readings in sorted(by_series.items())
    }


def _history(series: Series, readings: Sequence[Reading]) -> History:
    by_job: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for it in readings:
        by_job[it.stack, it.job_id].append(it)
    jobs: dict[str, list[Job]] = defaultdict(list)
    for (stack, _), rows in sorted(by_job.items()):
        # A job is unstable if any of its observations is.
        if all(row.unstable_reason is None for row in rows):
            jobs[stack].append(_job(rows))
    drifted = _last_steps(jobs)
    kept = {stack: tuple(it for it in them if _after(it, drifted)) for stack, them in jobs.items()}
    return History(series, {stack: them for stack, them in kept.items() if them}, drifted)


def _job(rows: Sequence[Reading]) -> Job:
    first, place = rows[0], Place(rows[0].host, rows[0].block)
    effect = JobEffect(first.job_id, job_log_rate([row.rate for row in rows]), place=place)
    if len(rows) == 1:  # as nearly all
        return Job(effect, first.document_id, first.seen_at, (first.observation_id,))
    last = max(filter(None, (row.seen_at for row in rows)), default=None)
    return Job(effect, first.document_id, last, tuple(sorted(row.observation_id for row in rows)))


def _last_steps(jobs: Mapping[str, Sequence[Job]]) -> dict[str | None, datetime]:
    """Since when each host is as it is, where its reference stack tells.

    That is the stack with most runs there, two or more: what every batch runs. Its own
    jobs have to stay on one level; nothing else is looked at, so that no candidate's
    results decide what is left out.
    """
    on_host: dict[str | None, dict[str, list[Job]]] = defaultdict(lambda: defaultdict(list))
    for stack, them in jobs.items():
        for it in them:
            if it.seen_at is not None:
                on_host[it.effect.place.host][stack].append(it)
    found = {}
    for host, stacks in on_host.items():
        reference = max(
            stacks.values(),
            key=lambda them: (len({it.document_id for it in them}), len(them), them[0].document_id),
        )
        if (since := _last_step(reference)) is not None:
            found[host] = since
    return found


def _last_step(reference: Sequence[Job]) -> datetime | None:
    if len({it.document_id for it in reference}) < 2:
        return None
    timed = sorted((it.seen_at, it.effect.job_id, it.effect.log_rate) for it in reference)
    found = steps([rate for _, _, rate in timed])
    return timed[found[-1]][0] if found else None


def _after(job: Job, drifted: Mapping[str | None, datetime]) -> bool:
    since = drifted.get(job.effect.place.host)
    return since is None or (job.seen_at is not None and job.seen_at >= since)
