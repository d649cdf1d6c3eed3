"""A quality report as JSON values with what it shows in sentences, for commands and the API."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from adviser.quality.job_statistics import (
    PLANNED_DIFFERENCE,
    OrderReport,
    RepetitionAdvice,
    VarianceComponents,
)
from adviser.quality.repetitions import BatchReport
from adviser.quality.reports import QualityReport, SeriesQuality, StackQuality
from adviser.scoring.sample_needs import settling_text
from adviser.scoring.verdicts import Verdict, family_document
from adviser.stacks_document import comparison_count, group_document
from model.declared_fields import document_of
from model.json_documents import as_json_time
from model.measurements.job_stability import left_out_text
from model.text import counted, first_few

#: Increases when a key changes its meaning or disappears, not when a key is added.
DOCUMENT_VERSION = 3
#: Differing packages that a sentence names.
_MOST_DIFFERING = 5


def report_document(report: QualityReport) -> dict[str, Any]:
    """The report as JSON values: the keys of ``GET /api/v2/reports/{comparison_key}``."""
    return {
        "version": DOCUMENT_VERSION,
        "family": family_document(comparison_count(report.groups)),
        "series": [_series(it) for it in report.series],
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


def _series(quality: SeriesQuality) -> dict[str, Any]:
    document = group_document(quality.group)
    known = len(document["stacks"])
    stacks = [*document["stacks"], *document["unknown_stacks"]]
    for stack, its_quality in zip(stacks, quality.stacks, strict=True):
        stack["quality"] = _stack(its_quality)
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


def _stack(quality: StackQuality) -> dict[str, Any]:
    ratio = quality.spread_ratio
    return {
        "rate": document_of(quality.rate),
        "elapsed": document_of(quality.elapsed),
        "variance": quality.components and _components(quality.components),
        "advice": document_of(quality.advice),
        "spreads": document_of(quality.spreads),
        "sufficient_repetitions": quality.sufficient,
        "spread_ratio": ratio and (asdict(ratio) if math.isfinite(ratio.ratio) else None),
        "jobs": [{**asdict(it), "at": it.at and as_json_time(it.at)} for it in quality.jobs],
    }


def _components(components: VarianceComponents) -> dict[str, Any]:
    share = components.within_share
    return {
        "within_sd_pct": 100 * math.sqrt(components.within),
        "between_sd_pct": 100 * math.sqrt(components.between),
        "jobs": components.jobs,
        "repetitions": components.repetitions,
        "within_share_pct": None if share is None else 100 * share,
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
            f"{max(sufficient)} repetitions a job suffice for every stack: more change the spread"
            " between jobs by at most 5 %."
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
