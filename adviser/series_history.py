"""The history of one series: its jobs by inspection in the order of time, levels and steps.

Does no I/O. The rules for jobs that do not count, and for steps, are those of comparisons.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean, median, quantiles
from typing import Annotated

from adviser.scoring.drift import steps
from adviser.scoring.histories import DRIFT, MeasuredJob, history_of, jobs_of, reference_runs
from adviser.stack_comparison import stack_label
from model.declared_fields import DIGEST, HOST, Field
from model.measurements.evidence import UNKNOWN_STACK, MeasuredObservation, Reading, Series

_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One observation of a job."""

    observation_id: Annotated[str, Field("Identifier of the observation.", DIGEST)]
    rate: Annotated[float, Field("Rate in the unit of the series.", 9.4e10)]
    seen_at: Annotated[datetime | None, Field("When the job ended.")]
    left_out: Annotated[
        str | None, Field("Why comparisons leave the job out; null if they do not.")
    ]


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """The jobs of one inspection in the series."""

    document_id: Annotated[str, Field("Identifier of the inspection.", DIGEST)]
    stack_digest: Annotated[
        str | None, Field("Digest of the stack; null if it is unknown.", DIGEST)
    ]
    label: Annotated[str, Field("The stack for people.", "numpy 2.4.6 (1f2e3d4c)")]
    host: Annotated[str | None, HOST]
    jobs: tuple[HistoryJob, ...]
    median_rate: Annotated[float | None, Field("Median rate of the jobs that count.", 9.4e10)]
    low_rate: Annotated[
        float | None, Field("Lower quartile of these jobs; null below four.", 9.3e10)
    ]
    high_rate: Annotated[
        float | None, Field("Upper quartile of these jobs; null below four.", 9.5e10)
    ]

    @property
    def began_at(self) -> datetime:
        """Time of its first job; long ago if no job has a time."""
        return min((it.seen_at for it in self.jobs if it.seen_at), default=_LONG_AGO)


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A time since which a machine runs at another speed."""

    host: Annotated[str | None, HOST]
    document_id: Annotated[str | None, Field("First inspection of the new level.", DIGEST)]
    since: Annotated[datetime, Field("Time of the first job of the new level.")]
    change_pct: Annotated[
        float, Field("Difference of the levels of the machine's reference stack.", -8.1, unit="%")
    ]


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """Everything measured in a series, oldest first."""

    series: Series
    hardware_label: str
    runs: tuple[HistoryRun, ...]
    steps: tuple[HistoryStep, ...]


def series_history(observations: Sequence[MeasuredObservation]) -> SeriesHistory:
    """The history of a series, from all its observations in any order.

    :param observations: at least one; all of the same series
    """
    known = [it.reading for it in observations if it.reading.stack != UNKNOWN_STACK]
    drifted = history_of(observations[0].series, known).drifted
    by_run: dict[tuple[str, str], list[MeasuredObservation]] = defaultdict(list)
    for it in observations:
        by_run[it.reading.document_id, it.reading.stack].append(it)
    runs = [_run(them, drifted) for them in by_run.values()]
    jobs, _ = jobs_of(known)
    return SeriesHistory(
        observations[0].series,
        min(it.hardware_label for it in observations),
        tuple(sorted(runs, key=lambda it: (it.began_at, it.document_id, it.label))),
        tuple(sorted(_steps(jobs), key=lambda it: (it.since, it.host or ""))),
    )


def _run(
    observations: Sequence[MeasuredObservation], drifted: Mapping[str | None, datetime]
) -> HistoryRun:
    first = observations[0]
    readings = sorted((it.reading for it in observations), key=_order)
    jobs = tuple(
        HistoryJob(it.observation_id, it.rate, it.seen_at, _reason(it, drifted)) for it in readings
    )
    rates = [it.rate for it in jobs if it.left_out is None]
    low, _, high = quantiles(rates, method="inclusive") if len(rates) > 3 else (None, None, None)
    stack = None if first.reading.stack == UNKNOWN_STACK else first.reading.stack
    return HistoryRun(
        first.reading.document_id,
        stack,
        stack_label(first.component, first.component_version, stack),
        first.reading.host,
        jobs,
        median(rates) if rates else None,
        low,
        high,
    )


def _order(reading: Reading) -> tuple[datetime, str]:
    return reading.seen_at or _LONG_AGO, reading.observation_id


def _reason(reading: Reading, drifted: Mapping[str | None, datetime]) -> str | None:
    """Why comparisons leave a job out."""
    since = drifted.get(reading.host)
    old = since is not None and (reading.seen_at is None or reading.seen_at < since)
    return reading.unstable_reason or (DRIFT if old else None)


def _steps(jobs: Mapping[str, Sequence[MeasuredJob]]) -> Iterator[HistoryStep]:
    """All steps of each machine, in its reference stack."""
    for host, (_, runs) in reference_runs(jobs).items():
        means = [fmean(it.log_rate for it in run) for run in runs]
        cuts = steps(means)
        for start, cut, end in zip([0, *cuts], cuts, [*cuts[1:], len(means)], strict=False):
            change = fmean(means[cut:end]) - fmean(means[start:cut])
            first = min(runs[cut], key=lambda it: it.seen_at or _LONG_AGO)
            yield HistoryStep(
                host, first.place.run, first.seen_at or _LONG_AGO, 100 * math.expm1(change)
            )
