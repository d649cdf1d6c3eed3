"""From readings to histories: the jobs of each stack in one series, less what drifted away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, combinations

from adviser.scoring.drift import steps
from adviser.scoring.estimates import Sample, estimates_of
from adviser.scoring.jobs import JobEffect, Place, job_log_rate
from adviser.scoring.planning import MIN_JOBS
from graph.evidence import Evidence, Reading, Series

#: Of the runs of one stack, as many are compared with each other for what identical stacks
#: show; the latest ones.
MAX_RUNS = 12

#: So many runs tell by themselves what identical stacks show, without those from before a drift.
MIN_RUNS = 5

#: Why jobs from before the last step of their host are left out.
DRIFT = "drift"


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
    :param left_out: by stack digest, why each job that does not count is left out, sorted
    :param stable: by stack digest, with the jobs from before the last drift
    """

    series: Series
    jobs: Mapping[str, tuple[Job, ...]]
    drifted: Mapping[str | None, datetime]
    left_out: Mapping[str, tuple[str, ...]]
    stable: Mapping[str, Sequence[Job]]

    def sample(self, stack: str) -> Sample:
        """The jobs of a stack as they are compared."""
        return _sample(stack, self.jobs.get(stack, ()), self.series.comparison_key)

    def evidence(self, *stacks: str) -> tuple[str, ...]:
        """The observations of some stacks, sorted."""
        return tuple(sorted(chain.from_iterable(self._observed.get(it, ()) for it in stacks)))

    def as_of(self, *stacks: str) -> datetime | None:
        """When any of some stacks was last measured."""
        return max(filter(None, map(self._seen.get, stacks)), default=None)

    @cached_property
    def _seen(self) -> dict[str, datetime | None]:
        """When each stack was last measured."""
        return {
            stack: max(filter(None, (it.seen_at for it in them)), default=None)
            for stack, them in self.jobs.items()
        }

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
        for samples in self.runs().values():
            for theirs, ours in combinations(samples, 2):
                (estimate,) = estimates_of(theirs, [ours])
                if min(estimate.jobs, estimate.baseline_jobs) >= MIN_JOBS:
                    found.append(estimate.effect.d)
        return tuple(found)

    def runs(self) -> dict[str, list[Sample]]:
        """The latest inspections of each stack with five stable jobs or more, oldest first.

        Those from before the last drift are among them until there are enough after it: where
        runs simply differ, each looks like a step from the one before, and cutting there would
        hide the very thing that identical stacks show.
        """
        key = self.series.comparison_key
        found = {}
        for stack, them in self.stable.items():
            late = _runs(self.jobs.get(stack, ()))
            runs = late if len(late) >= MIN_RUNS else _runs(them)
            found[stack] = [_sample(stack, run, key) for run in runs[-MAX_RUNS:]]
        return found


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
    return History(series, kept, drifted, told, jobs)


def jobs_of(readings: Iterable[Reading]) -> tuple[dict[str, list[Job]], dict[str, list[str]]]:
    """The stable jobs of each stack, in the order of their identifiers, and why others are not.

    However often a job was recorded it is one. It is unstable if any of its readings is.
    """
    by_job: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for it in readings:
        by_job[it.stack, it.job_id].append(it)
    jobs: dict[str, list[Job]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for stack, job in sorted(by_job):
        rows = by_job[stack, job]
        reasons = [row.unstable_reason for row in rows if row.unstable_reason is not None]
        if reasons:
            left_out[stack].append(min(reasons))
        else:
            jobs[stack].append(_job(rows))
    return jobs, left_out


def _job(rows: Sequence[Reading]) -> Job:
    first, place = rows[0], Place(rows[0].host, rows[0].block)
    effect = JobEffect(first.job_id, job_log_rate([row.rate for row in rows]), place)
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
