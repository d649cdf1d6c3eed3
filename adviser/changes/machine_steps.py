"""Changes by night: steps in the speed of one stack on one machine.

The reference stack of a host is the stack with the most runs. A step of its speed is a change of
the machine; :mod:`adviser.scoring.drift` decides whether there is one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from adviser.changes.looks import RULE
from adviser.scoring.drift import long_run_sd, nightly_steps
from adviser.scoring.effects import Effect, effects_of, intervals, per_cent
from adviser.scoring.histories import MeasuredJob, jobs_of, reference_runs
from adviser.scoring.lazy_numpy import np
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.verdicts import Verdict
from model.changes import ChangeEvent, ChangeKind, PerformanceChange
from model.json_documents import digest
from model.measurements.evidence import Evidence, Reading, Series

#: A level of this many runs confirms the step before it.
CONFIRMING_RUNS = 2 * MIN_JOBS


@dataclass(frozen=True, slots=True)
class _Level:
    """Runs of the reference stack between two steps, in the order of time."""

    runs: Sequence[Sequence[MeasuredJob]]

    @property
    def mean(self) -> float:
        return math.fsum(map(_run_mean, self.runs)) / len(self.runs)


def machine_entries(
    evidence: Evidence, latest: Mapping[str, PerformanceChange]
) -> list[PerformanceChange]:
    """Entries about machines.

    More runs may move a step by a few runs. A step within the shortest level of an announced one,
    in the same direction, is the announced one.

    :param latest: the last entry about each announcement, by the identifier of the announcement
    """
    by_series: dict[int, list[Reading]] = defaultdict(list)
    for reading in evidence.readings:
        by_series[reading.series].append(reading)
    entries: list[PerformanceChange] = []
    for number, readings in sorted(by_series.items()):
        series = evidence.series[number]
        label = evidence.hardware.get(series.hardware_digest, series.hardware_digest)
        known = [it for it in latest.values() if _is_about(it, series)]
        entries += _series_entries(series, label, readings, known)
    return entries


def _is_about(change: PerformanceChange, series: Series) -> bool:
    where = change.comparison_key, change.python_version
    return change.kind is ChangeKind.MACHINE and where == (
        series.comparison_key, series.python_version
    )  # fmt: skip


def _series_entries(
    series: Series,
    label: str,
    readings: Iterable[Reading],
    known: Sequence[PerformanceChange],
) -> Iterator[PerformanceChange]:
    jobs, _ = jobs_of(readings)
    for host, (stack, runs) in sorted(reference_runs(jobs).items(), key=lambda it: it[0] or ""):
        starts = [0, *nightly_steps([_run_mean(it) for it in runs]), len(runs)]
        levels = [_Level(runs[a:b]) for a, b in pairwise(starts)]
        noise = long_run_sd([_run_mean(it) for it in runs]) if len(levels) > 1 else 0.0
        open_changes = [
            it
            for it in known
            if (it.host, it.from_stack) == (host, stack) and it.event is not ChangeEvent.WITHDRAWN
        ]
        matched = set()
        for before, after in pairwise(levels):
            now = _step(series, label, host, stack, (before, after), noise)
            last = next((it for it in open_changes if _is_same(it, now, runs)), None)
            if last is None:
                yield now
                continue
            matched.add(last.announcement)
            if last.event is ChangeEvent.ANNOUNCED and len(after.runs) >= CONFIRMING_RUNS:
                yield _follows(now, last, ChangeEvent.CONFIRMED)
        for last in open_changes:
            if last.announcement not in matched and _is_covered(last, runs):
                gone = replace(last, verdict=Verdict.UNDETERMINED.value, effect_pct=0.0)
                yield _follows(gone, last, ChangeEvent.WITHDRAWN)


def _follows(
    now: PerformanceChange, last: PerformanceChange, event: ChangeEvent
) -> PerformanceChange:
    identifier = digest([last.announcement, event.value, now.rule])
    return replace(now, change_id=identifier, event=event, refers_to=last.announcement)


def _is_same(
    last: PerformanceChange, now: PerformanceChange, runs: Sequence[Sequence[MeasuredJob]]
) -> bool:
    began = [_began_at(it) for it in runs]
    if last.seen_at not in began or now.seen_at not in began:
        return False
    apart = abs(began.index(last.seen_at) - began.index(now.seen_at))
    return apart <= MIN_JOBS and last.verdict == now.verdict


def _is_covered(last: PerformanceChange, runs: Sequence[Sequence[MeasuredJob]]) -> bool:
    """Whether the runs on both sides of a step are still known."""
    identifiers = {it[0].place.run for it in runs}
    return {last.from_version, last.to_version} <= identifiers


def _step(
    series: Series,
    label: str,
    host: str | None,
    stack: str,
    levels: tuple[_Level, _Level],
    noise: float,
) -> PerformanceChange:
    """The step between two levels, as an announcement.

    :param noise: long-run standard deviation of the mean of a run, natural log
    """
    before, after = levels
    d = after.mean - before.mean
    error = noise * math.sqrt(1 / len(before.runs) + 1 / len(after.runs))
    effect = Effect(d, error, len(before.runs) + len(after.runs) - 2)
    bounds = intervals(effects_of([effect]))
    low, high, observed = per_cent(np.array([bounds[0][0], bounds[1][0], d])).tolist()
    ends = before.runs[-1][0].place.run or "", after.runs[0][0].place.run or ""
    where = [series.comparison_key, series.python_version, host]
    verdict = Verdict.FASTER if d > 0 else Verdict.SLOWER
    return PerformanceChange(
        change_id=digest([ChangeKind.MACHINE.value, *where, *ends, stack, stack, RULE]),
        kind=ChangeKind.MACHINE,
        event=ChangeEvent.ANNOUNCED,
        refers_to=None,
        package=None,
        host=host,
        from_version=ends[0],
        to_version=ends[1],
        from_stack=stack,
        to_stack=stack,
        indicator=series.indicator,
        parameters=series.parameters,
        device=series.device,
        comparison_key=series.comparison_key,
        python_version=series.python_version,
        hardware_digest=series.hardware_digest,
        hardware_label=label,
        verdict=verdict.value,
        effect_pct=observed,
        observed_pct=observed,
        interval_low_pct=low,
        interval_high_pct=high,
        delta_pct=0.0,
        jobs=len(after.runs),
        baseline_jobs=len(before.runs),
        comparisons=1,
        look=1,
        seen_at=_began_at(after.runs[0]),
        rule=RULE,
    )


def _run_mean(run: Sequence[MeasuredJob]) -> float:
    return math.fsum(it.log_rate for it in run) / len(run)


def _began_at(run: Sequence[MeasuredJob]) -> datetime | None:
    return min((it.seen_at for it in run if it.seen_at is not None), default=None)
