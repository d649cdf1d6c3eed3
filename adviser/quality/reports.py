"""The quality report of some series (:func:`quality_report`), and as JSON values with sentences."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Annotated, Any

from adviser.quality.job_statistics import (
    PLANNED_DIFFERENCE,
    BatchReport,
    OrderReport,
    RepetitionAdvice,
    RepetitionBatch,
    RepetitionSpread,
    TimedValue,
    ValueSummary,
    VarianceComponents,
    batch_report,
    order_report,
    outliers,
    repetition_advice,
    spread_by_repetitions,
    sufficient_repetitions,
    summary_of,
    variance_components,
)
from adviser.scoring.effects import MIN_JOBS_TO_TELL, SpreadRatio, Variance, variance_ratio
from adviser.scoring.histories import DRIFT
from adviser.scoring.sample_needs import settling_text
from adviser.scoring.verdicts import Verdict, family_document
from adviser.stack_comparison import (
    MeasuredSeries,
    StackGroup,
    StackResult,
    all_series,
    compare_stacks,
)
from adviser.stacks_document import comparison_count, group_document
from model.declared_fields import DIGEST, Field, document_of
from model.json_documents import as_json_time
from model.measurements.evidence import UNKNOWN_STACK, JobSamples, MissingMeasurement, Series
from model.measurements.job_stability import left_out_text
from model.measurements.units import DISPLAY_UNITS
from model.text import counted, first_few

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
    :param groups: all compared groups, including groups that only appear in ``batches``
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
    :param families: of :func:`adviser.quality.job_statistics.repetition_families`
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
    sds = [summary_of([math.log(it) for it in them]).sd or 0.0 for them in (rates, base_rates)]
    ours, theirs = (
        Variance(sd**2, len(them) - 1) for sd, them in zip(sds, (rates, base_rates), strict=True)
    )
    return variance_ratio(ours, theirs)


def _order(stacks: Iterable[Sequence[JobSamples]], counted: set[str]) -> OrderReport | None:
    """The jobs of all stacks on the host with most jobs, each relative to its stack."""
    by_host: dict[str, list[TimedValue]] = defaultdict(list)
    for jobs in stacks:
        on_host: dict[str | None, list[tuple[datetime, float]]] = defaultdict(list)
        for reading in (it.observation.reading for it in jobs):
            if reading.seen_at is not None and reading.observation_id in counted:
                on_host[reading.host].append((reading.seen_at, math.log(reading.rate)))
        for host, values in on_host.items():
            if len(values) > 1:
                mean = math.fsum(sorted(value for _, value in values)) / len(values)
                by_host[host or ""] += [TimedValue(at, value - mean) for at, value in values]
    if not by_host:
        return None
    largest = max(sorted(by_host), key=lambda host: len(by_host[host]))
    return order_report(by_host[largest])


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


#: Increases when a key changes its meaning or disappears, not when a key is added.
DOCUMENT_VERSION = 3
#: Maximum number of differing packages that a sentence names.
_MOST_DIFFERING = 5


def report_document(report: QualityReport) -> dict[str, Any]:
    """The report as JSON values: the keys of ``GET /api/v2/reports/{comparison_key}``."""
    return {
        "version": DOCUMENT_VERSION,
        "family": family_document(comparison_count(report.groups)),
        "series": [_series_document(it) for it in report.series],
        "batches": [batches_document(it) for it in report.batches],
    }


def batches_document(report: BatchReport) -> dict[str, Any]:
    """Batches with different numbers of repetitions as JSON values."""
    return {
        "label": report.label,
        "unit": report.unit,
        "best_repetitions": report.best.repetitions,
        "sufficient_repetitions": report.sufficient,
        "within_sd_pct": 100 * math.sqrt(report.within),
        "between_sd_pct": 100 * math.sqrt(report.between),
        "advice": document_of(report.advice),
        "batches": document_of(report.judgements),
        "findings": list(batch_findings(report)),
    }


def _series_document(quality: SeriesQuality) -> dict[str, Any]:
    document = group_document(quality.group)
    known = len(document["stacks"])
    stacks = [*document["stacks"], *document["unknown_stacks"]]
    for stack, its_quality in zip(stacks, quality.stacks, strict=True):
        stack["quality"] = _stack_document(its_quality)
    return {
        **document,
        "stacks": stacks[:known],
        "unknown_stacks": stacks[known:],
        "order": quality.order
        and {
            **document_of(quality.order),
            "step_times": [as_json_time(it) for it in quality.order.step_times],
        },
        "missing": [asdict(it) for it in quality.missing],
        "findings": list(series_findings(quality)),
    }


def _stack_document(quality: StackQuality) -> dict[str, Any]:
    ratio, variance = quality.spread_ratio, quality.components
    share = None if variance is None else variance.within_share
    return {
        "rate": document_of(quality.rate),
        "elapsed": document_of(quality.elapsed),
        "variance": variance
        and {
            "within_sd_pct": 100 * math.sqrt(variance.within),
            "between_sd_pct": 100 * math.sqrt(variance.between),
            "jobs": variance.jobs,
            "repetitions": variance.repetitions,
            "within_share_pct": None if share is None else 100 * share,
        },
        "advice": document_of(quality.advice),
        "spreads": document_of(quality.spreads),
        "sufficient_repetitions": quality.sufficient,
        "spread_ratio": ratio and (asdict(ratio) if math.isfinite(ratio.ratio) else None),
        "jobs": [{**asdict(it), "at": it.at and as_json_time(it.at)} for it in quality.jobs],
    }


def series_findings(quality: SeriesQuality) -> Iterator[str]:
    """Sentences about one series: verdicts first, then noise, order and repetitions."""
    yield from _verdicts(quality)
    for stack in quality.stacks:
        yield from stack.result.warnings
    if quality.order is not None:
        yield from _order_findings(quality.order)
    yield from _repetitions(quality.stacks)
    yield from _left_out(quality)


def _verdicts(quality: SeriesQuality) -> Iterator[str]:
    group = quality.group
    compared = [it for it in group.stacks if it.comparison]
    if group.baseline is None or not compared:
        yield "Only one known stack was measured here, so nothing is compared."
        return
    base = group.baseline.label
    settled = [it for it in compared if it.comparison and it.comparison.verdict.settled]
    for stack in settled:
        comparison = stack.comparison
        assert comparison is not None  # noqa: S101 - filtered above
        low, high = comparison.interval_low_pct, comparison.interval_high_pct
        interval = f"(95 % interval {low:+.1f} to {high:+.1f} %)"
        if comparison.verdict is Verdict.EQUIVALENT:
            margin = f"{100 * group.delta:.2g} %"
            yield f"{stack.label} and {base} are equally fast within {margin} {interval}."
        else:
            by = f"{abs(comparison.difference_pct):.1f} % {comparison.verdict}"
            yield f"{stack.label} is {by} than {base} {interval}."
    for stack in compared:
        if differing := [str(it) for it in stack.unnamed_differences]:
            names = first_few(differing, _MOST_DIFFERING)
            yield f"{stack.label} differs from {base} in {names}."
    if open_ones := len(compared) - len(settled):
        rest = "" if not settled else "other "
        count = counted(open_ones, f"{rest}comparison is", f"{rest}comparisons are")
        needs = [it.settled_by for it in group.next_jobs]
        needs += [
            settling_text(it.comparison, command=None)
            for it in compared
            if it.comparison and not it.comparison.verdict.settled
        ]
        yield f"{count} undetermined: {needs[0]}."


def _order_findings(order: OrderReport) -> Iterator[str]:
    if order.drifts:
        yield (
            f"The machine changed its speed by {order.drift_pct:+.1f} % over {_hours(order.hours)}"
            f" (95 % interval {order.drift_low_pct:+.1f} % to {order.drift_high_pct:+.1f} %). Jobs"
            " that ran in turns are compared in pairs, so this drift cancels out."
        )
    else:
        interval = f"{order.drift_low_pct:+.1f} % to {order.drift_high_pct:+.1f} %"
        yield f"No drift is settled over {_hours(order.hours)} (95 % interval {interval})."
    if order.correlated:
        alike = "alike" if order.autocorrelation > 0 else "opposite"
        yield (
            f"Neighbouring jobs are {alike} (autocorrelation {order.autocorrelation:+.2f}; chance"
            f" alone gives up to {order.correlation_limit:.2f}), so they are not independent."
        )
    if order.step_times:
        times = ", ".join(f"{it:%Y-%m-%d %H:%M}" for it in order.step_times)
        yield f"The level changed at {times} UTC."


def _hours(hours: float) -> str:
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"


def _repetitions(stacks: tuple[StackQuality, ...]) -> Iterator[str]:
    known = [(it, it.components) for it in stacks if it.components is not None]
    if not known:
        return
    within = math.fsum(sorted(it.within for _, it in known)) / len(known)
    between = math.fsum(sorted(it.between for _, it in known)) / len(known)
    yield (
        f"On average over the stacks, repetitions vary by {_sd(within)} within a job, and jobs by"
        f" {_sd(between)}."
    )
    advice = [it.advice for it, _ in known if it.advice is not None]
    sufficient = [it.sufficient for it, _ in known if it.sufficient is not None]
    if sufficient:
        yield (
            f"{max(sufficient)} repetitions a job suffice for every stack: further ones would"
            " change the spread between jobs by at most 5 %."
        )
    if advice:
        typical = sorted(advice, key=lambda it: it.repetitions or 0)[(len(advice) - 1) // 2]
        yield f"Kalibera and Jones: {advice_text(typical)}"


def advice_text(advice: RepetitionAdvice) -> str:
    """The recommendation with its reasoning."""
    least = "" if advice.exact else "at least "
    costs = (
        f"a job takes {_seconds(advice.job_cost_s)} before its repetitions and {least}"
        f"{_seconds(advice.repetition_cost_s)} for each, and the variances within and between jobs"
        f" are ({_sd(advice.within)})² and ({_sd(advice.between)})²"
    )
    if advice.repetitions is None:
        return f"{costs}: jobs do not differ beyond their repetitions, so more repetitions help."
    jobs = ""
    if advice.jobs is not None:
        jobs = (
            f" {advice.jobs} jobs of each stack then show a difference of"
            f" {100 * PLANNED_DIFFERENCE:.0f} % with a chance of 80 %."
        )
    return (
        f"{'' if advice.exact else 'at most '}{advice.repetitions} repetitions a job, because"
        f" {costs}. Spend the rest of the time on more jobs.{jobs}"
    )


def _left_out(quality: SeriesQuality) -> Iterator[str]:
    reasons = Counter(
        job.left_out for stack in quality.stacks for job in stack.jobs if job.left_out
    )
    if reasons:
        yield f"Jobs that do not count: {left_out_text(dict(sorted(reasons.items())))}."
    outlying = sum(job.outlier for stack in quality.stacks for job in stack.jobs)
    if outlying:
        count = counted(outlying, "job lies", "jobs lie")
        yield f"{count} far from the others of the same stack; outliers count."
    for missing in quality.missing:
        reason = f" ({missing.reason})" if missing.reason else ""
        jobs = counted(missing.jobs, "job")
        yield f"{jobs} without a usable measurement: {missing.outcome}{reason}."


def batch_findings(report: BatchReport) -> Iterator[str]:
    """Sentences about batches that differ in their number of repetitions."""
    best = report.best
    yield (
        f"The standard deviation is smallest at {best.repetitions} repetitions:"
        f" {best.sd:.2f} {report.unit}; the median rate is {best.median:.2f} {report.unit}."
    )
    if report.sufficient < best.repetitions:
        yield (
            f"{report.sufficient} repetitions suffice: the data cannot tell their standard"
            " deviation from the smallest one (95 % interval of the ratio)."
        )
    for judgement in report.judgements:
        if judgement.departs:
            yield (
                f"At {judgement.repetitions} repetitions, the standard deviation is"
                f" {judgement.sd:.2f}"
                f" {report.unit}, although repetitions explain {judgement.fitted_sd:.2f}: the"
                " machine changed between these jobs."
            )
    if report.advice is not None:
        yield f"Kalibera and Jones: {advice_text(report.advice)}"


def _sd(variance: float) -> str:
    return f"{100 * math.sqrt(variance):.2g} %"


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"
