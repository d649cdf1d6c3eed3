"""The quality report of some series: :func:`quality_report`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Annotated, Any

from adviser.quality.job_statistics import (
    OrderReport,
    RepetitionAdvice,
    TimedValue,
    ValueSummary,
    VarianceComponents,
    order_report,
    outliers,
    repetition_advice,
    summary_of,
    variance_components,
)
from adviser.quality.repetitions import (
    BatchReport,
    RepetitionBatch,
    RepetitionSpread,
    batch_report,
    spread_by_repetitions,
    sufficient_repetitions,
)
from adviser.scoring.effects import MIN_JOBS_TO_TELL, SpreadRatio, Variance, variance_ratio
from adviser.scoring.histories import DRIFT
from adviser.stack_comparison import (
    MeasuredSeries,
    StackGroup,
    StackResult,
    all_series,
    compare_stacks,
)
from model.declared_fields import DIGEST, Field
from model.measurements.evidence import UNKNOWN_STACK, JobSamples, MissingMeasurement, Series
from model.measurements.units import DISPLAY_UNITS

#: Comparison key and version of Python.
_SeriesKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """One job as a dot of a plot."""

    observation_id: Annotated[str, Field("Identifier of the observation.", DIGEST)]
    rate: Annotated[float, Field("Rate in the unit of the series.", 9.4e10)]
    elapsed_s: Annotated[float | None, Field("Duration of one call.", 0.003, unit="s")]
    at: datetime | None
    left_out: Annotated[str | None, Field("Why comparisons leave the job out; null if it counts.")]
    outlier: Annotated[
        bool, Field("Whether it lies far from the other jobs of its stack; outliers count.")
    ]


@dataclass(frozen=True, slots=True)
class StackQuality:
    """The jobs of one stack in one series.

    :param result: as ``thoth stacks`` shows it
    :param rate: summary of the rates of the jobs that count; ``None`` without such jobs
    :param elapsed: summary of the durations of one call, s
    :param spreads: spread between jobs by the number of repetitions that count
    :param sufficient: smallest number of repetitions that suffices
    :param spread_ratio: spread of the jobs compared with the baseline's; ``None`` below 20 jobs
    """

    result: StackResult
    jobs: tuple[ReportedJob, ...]
    rate: ValueSummary | None
    elapsed: ValueSummary | None
    components: VarianceComponents | None
    advice: RepetitionAdvice | None
    spreads: tuple[RepetitionSpread, ...]
    sufficient: int | None
    spread_ratio: SpreadRatio | None


@dataclass(frozen=True, slots=True)
class SeriesQuality:
    """One series.

    :param stacks: fastest first, unknown stacks last
    :param missing: jobs that crashed or are quarantined
    """

    group: StackGroup
    stacks: tuple[StackQuality, ...]
    order: OrderReport | None
    missing: tuple[MissingMeasurement, ...]


@dataclass(frozen=True, slots=True)
class QualityReport:
    """All series of a report; their comparisons are one family.

    :param batches: of stacks that were measured with several numbers of repetitions
    :param groups: all groups that were compared, also those that only appear in ``batches``
    """

    series: tuple[SeriesQuality, ...]
    batches: tuple[BatchReport, ...]
    groups: tuple[StackGroup, ...]


def quality_report(
    samples: Iterable[JobSamples],
    keys: Iterable[str],
    *,
    families: Sequence[Mapping[int, str]] = (),
    missing: Sequence[MissingMeasurement] = (),
    baseline: str | None = None,
) -> QualityReport:
    """Report on the series with these keys.

    :param samples: jobs of these series and of those in ``families``, in any order
    :param families: of :func:`adviser.quality.repetitions.repetition_families`
    :param missing: jobs that crashed or are quarantined
    :param baseline: as for :func:`compare_stacks`
    :raises UnknownBaseline: if no series has such a stack
    """
    ordered = sorted(samples, key=lambda it: it.observation.reading.observation_id)
    observations = [it.observation for it in ordered]
    groups = compare_stacks(observations, baseline)
    measured = {_series_key(it.series): it for it in all_series(observations)}
    by_series: dict[_SeriesKey, list[JobSamples]] = defaultdict(list)
    for sample in ordered:
        by_series[_series_key(sample.series)].append(sample)
    wanted = set(keys)
    qualities = {
        (key := (group.comparison_key, group.python_version)): _series(
            group, measured[key], by_series[key], missing
        )
        for group in groups
    }
    batches = [
        report
        for family in families
        for python in sorted({it.python_version or "" for it in groups})
        for report in _batch_reports(family, python, qualities, by_series)
    ]
    shown = [it for it in qualities.values() if it.group.comparison_key in wanted]
    shown.sort(key=_place)
    return QualityReport(tuple(shown), tuple(batches), tuple(groups))


def _place(quality: SeriesQuality) -> tuple[Any, ...]:
    """Sort key: numeric parameters by value, so that a size of 128 comes before 1,024."""
    group = quality.group
    values = [
        (name, (0, value, "") if isinstance(value, int | float) else (1, 0, str(value)))
        for name, value in sorted(group.parameters.items())
    ]
    python = group.python_version or ""
    return group.indicator, group.hardware_label, values, group.comparison_key, python


def _series_key(series: Series) -> _SeriesKey:
    return series.comparison_key, series.python_version


def _series(
    group: StackGroup,
    measured: MeasuredSeries,
    samples: Sequence[JobSamples],
    missing: Sequence[MissingMeasurement],
) -> SeriesQuality:
    counted = {
        observation
        for stack in (*measured.known, *measured.unknown)
        for job in stack.jobs
        for observation in job.observations
    }
    by_stack: dict[tuple[str | None, str | None, str | None], list[JobSamples]] = defaultdict(list)
    for sample in samples:
        by_stack[_identity(sample)].append(sample)
    base = group.baseline.stack_digest if group.baseline else None
    base_rates = [
        it.observation.reading.rate
        for it in by_stack.get((base, None, None), ())
        if it.observation.reading.observation_id in counted
    ]
    stacks = tuple(
        _stack(
            result,
            by_stack[
                (result.stack_digest, None, None)
                if result.stack_digest
                else (None, result.component, result.component_version)
            ],
            counted,
            base_rates,
        )
        for result in (*group.stacks, *group.unknown_stacks)
    )
    lost = tuple(it for it in missing if it.comparison_key == group.comparison_key)
    return SeriesQuality(group, stacks, _order(by_stack.values(), counted), lost)


def _identity(sample: JobSamples) -> tuple[str | None, str | None, str | None]:
    observation = sample.observation
    if observation.reading.stack != UNKNOWN_STACK:
        return observation.reading.stack, None, None
    return None, observation.component, observation.component_version


def _stack(
    result: StackResult,
    samples: Sequence[JobSamples],
    counted: set[str],
    base_rates: Sequence[float],
) -> StackQuality:
    stable = [it for it in samples if it.observation.reading.observation_id in counted]
    rates = [it.observation.reading.rate for it in stable]
    far = {stable[i].observation.reading.observation_id for i in outliers(rates)}
    elapsed = [it.elapsed_s for it in stable if it.elapsed_s]
    repetitions = [it.repetition_rates() for it in stable]
    components = variance_components(repetitions)
    spreads = spread_by_repetitions(repetitions)
    return StackQuality(
        result=result,
        jobs=tuple(_job(it, counted, far) for it in sorted(samples, key=_time)),
        rate=summary_of(rates) if rates else None,
        elapsed=summary_of(elapsed) if elapsed else None,
        components=components,
        advice=None if components is None else _advice(components, stable),
        spreads=tuple(spreads),
        sufficient=sufficient_repetitions(spreads),
        spread_ratio=_ratio(rates, base_rates) if result.comparison else None,
    )


def _job(sample: JobSamples, counted: set[str], outlying: set[str]) -> ReportedJob:
    reading = sample.observation.reading
    reason = None
    if reading.observation_id not in counted:
        reason = reading.unstable_reason or DRIFT
    return ReportedJob(
        reading.observation_id, reading.rate, sample.elapsed_s, reading.seen_at, reason,
        reading.observation_id in outlying,
    )  # fmt: skip


def _time(sample: JobSamples) -> tuple[bool, float, str]:
    reading = sample.observation.reading
    at = reading.seen_at
    return at is None, 0.0 if at is None else at.timestamp(), reading.observation_id


def _advice(
    components: VarianceComponents, samples: Sequence[JobSamples]
) -> RepetitionAdvice | None:
    """The recommendation, if the durations of the jobs are known.

    A repetition may consist of several calls, whose number the record lacks. Its cost is therefore
    at least the duration of one call, and the recommended number of repetitions an upper limit.
    """
    durations = [
        (it.duration_s, math.fsum(it.repetitions_s), median(it.repetitions_s))
        for it in samples
        if it.duration_s and it.repetitions_s
    ]
    if not durations:
        return None
    start = median(max(whole - timed, 0.0) for whole, timed, _ in durations)
    each = median(call for _, _, call in durations)
    return repetition_advice(components.within, components.between, start, each, exact=False)


def _ratio(rates: Sequence[float], base_rates: Sequence[float]) -> SpreadRatio | None:
    if min(len(rates), len(base_rates)) < MIN_JOBS_TO_TELL:
        return None
    ours, theirs = (_log_variance(it) for it in (rates, base_rates))
    return variance_ratio(ours, theirs)


def _log_variance(rates: Sequence[float]) -> Variance:
    sd = summary_of([math.log(it) for it in rates]).sd
    return Variance(math.nan if sd is None else sd**2, len(rates) - 1)


def _order(stacks: Iterable[Sequence[JobSamples]], counted: set[str]) -> OrderReport | None:
    """The jobs of all stacks on the host with most jobs, each relative to its stack."""
    by_host: dict[str, list[TimedValue]] = defaultdict(list)
    for jobs in stacks:
        for host, values in _relative(jobs, counted):
            by_host[host or ""] += values
    if not by_host:
        return None
    largest = max(sorted(by_host), key=lambda host: len(by_host[host]))
    return order_report(by_host[largest])


def _relative(
    jobs: Sequence[JobSamples], counted: set[str]
) -> Iterator[tuple[str | None, list[TimedValue]]]:
    on_host: dict[str | None, list[tuple[datetime, float]]] = defaultdict(list)
    for reading in (it.observation.reading for it in jobs):
        if reading.seen_at is not None and reading.observation_id in counted:
            on_host[reading.host].append((reading.seen_at, math.log(reading.rate)))
    for host, values in on_host.items():
        if len(values) > 1:
            mean = math.fsum(sorted(value for _, value in values)) / len(values)
            yield host, [TimedValue(at, value - mean) for at, value in values]


def _batch_reports(
    family: Mapping[int, str],
    python: str,
    qualities: Mapping[_SeriesKey, SeriesQuality],
    by_series: Mapping[_SeriesKey, Sequence[JobSamples]],
) -> Iterator[BatchReport]:
    """A report for each stack that was measured with two or more numbers of repetitions."""
    batches: dict[str, list[RepetitionBatch]] = defaultdict(list)
    unit = None
    for repetitions, comparison_key in family.items():
        key = (comparison_key, python or None)
        if key not in qualities:
            continue
        group = qualities[key].group
        unit = DISPLAY_UNITS[group.unit]
        for stack in qualities[key].stacks:
            summary, digest = stack.rate, stack.result.stack_digest
            if digest is None or summary is None or not summary.sd:
                continue
            durations = [
                it.duration_s
                for it in by_series[key]
                if it.duration_s and it.observation.reading.stack == digest
            ]
            batches[f"{group.indicator}, {stack.result.label}"].append(
                RepetitionBatch(
                    f"{repetitions} repetitions", repetitions, summary.n,
                    summary.median / unit.factor, summary.mean / unit.factor,
                    summary.sd / unit.factor,
                    math.fsum(durations) / len(durations) if durations else None,
                )
            )  # fmt: skip
    for label, its_batches in sorted(batches.items()):
        if unit is not None and len(its_batches) > 1:
            yield batch_report(its_batches, unit.name, label)
