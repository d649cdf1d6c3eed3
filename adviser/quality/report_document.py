"""A quality report as JSON values, for ``thoth report`` and the API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from adviser.quality.batch_order import OrderReport
from adviser.quality.findings import axis_findings, batch_findings, series_findings
from adviser.quality.parameter_curves import CurvePoint
from adviser.quality.repetitions import BatchReport, RepetitionSpread
from adviser.quality.reports import (
    AxisReport,
    QualityReport,
    ReportedJob,
    SeriesQuality,
    StackQuality,
)
from adviser.quality.summaries import ValueSummary
from adviser.quality.variance_components import RepetitionAdvice, VarianceComponents
from adviser.scoring.effects import SpreadRatio
from adviser.scoring.verdicts import family_document
from adviser.stacks_document import comparison_count, group_document
from model.json_documents import as_json_time, finite_or_none

#: Increases when a key changes its meaning or disappears, not when a key is added.
DOCUMENT_VERSION = 2


def report_document(report: QualityReport) -> dict[str, Any]:
    """The report as JSON values: the keys of ``GET /api/v2/reports/{comparison_key}``."""
    return {
        "version": DOCUMENT_VERSION,
        "family": family_document(comparison_count(report.groups)),
        "series": [_series(it) for it in report.series],
        "axes": [_axis(it) for it in report.axes],
    }


def batches_document(report: BatchReport) -> dict[str, Any]:
    """Batches with different numbers of repetitions as JSON values."""
    return {
        "unit": report.unit,
        "best_repetitions": report.best.repetitions,
        "sufficient_repetitions": report.sufficient,
        "within_sd_pct": 100 * math.sqrt(report.within),
        "between_sd_pct": 100 * math.sqrt(report.between),
        "advice": _advice(report.advice),
        "batches": [
            {
                "label": judgement.batch.label,
                "repetitions": judgement.batch.repetitions,
                "jobs": judgement.batch.jobs,
                "median": judgement.batch.median,
                "mean": judgement.batch.mean,
                "sd": judgement.batch.sd,
                "cv": judgement.batch.cv,
                "ratio": finite_or_none(judgement.ratio),
                "ratio_low": judgement.low,
                "ratio_high": finite_or_none(judgement.high),
                "fitted_sd": judgement.fitted_sd,
                "departs": judgement.departs,
            }
            for judgement in report.judgements
        ],
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
        "order": _order(quality.order),
        "missing": [asdict(it) for it in quality.missing],
        "findings": list(series_findings(quality)),
    }


def _stack(quality: StackQuality) -> dict[str, Any]:
    return {
        "rate": _summary(quality.rate),
        "elapsed": _summary(quality.elapsed),
        "variance": _components(quality.components),
        "advice": _advice(quality.advice),
        "spreads": [_spread(it) for it in quality.spreads],
        "sufficient_repetitions": quality.sufficient,
        "spread_ratio": _ratio(quality.spread_ratio),
        "jobs": [_job(it) for it in quality.jobs],
    }


def _summary(summary: ValueSummary | None) -> dict[str, Any] | None:
    return None if summary is None else asdict(summary)


def _components(components: VarianceComponents | None) -> dict[str, Any] | None:
    if components is None:
        return None
    share = components.within_share
    return {
        "within_sd_pct": 100 * math.sqrt(components.within),
        "between_sd_pct": 100 * math.sqrt(components.between),
        "jobs": components.jobs,
        "repetitions": components.repetitions,
        "within_share_pct": None if share is None else 100 * share,
    }


def _advice(advice: RepetitionAdvice | None) -> dict[str, Any] | None:
    if advice is None:
        return None
    return {
        "repetitions": advice.repetitions,
        "job_cost_s": advice.job_cost_s,
        "repetition_cost_s": advice.repetition_cost_s,
        "exact": advice.exact,
        "jobs": advice.jobs,
    }


def _spread(spread: RepetitionSpread) -> dict[str, Any]:
    return {
        "repetitions": spread.repetitions,
        "jobs": spread.jobs,
        "sd_pct": 100 * spread.sd,
        "low_pct": 100 * spread.low,
        "high_pct": 100 * spread.high,
    }


def _ratio(ratio: SpreadRatio | None) -> dict[str, Any] | None:
    if ratio is None or not math.isfinite(ratio.ratio):
        return None
    return asdict(ratio)


def _job(job: ReportedJob) -> dict[str, Any]:
    return {**asdict(job), "at": None if job.at is None else as_json_time(job.at)}


def _order(order: OrderReport | None) -> dict[str, Any] | None:
    if order is None:
        return None
    return {
        "jobs": order.jobs,
        "hours": order.hours,
        "autocorrelation": order.autocorrelation,
        "correlation_limit": order.correlation_limit,
        "drift_pct": _pct(order.drift),
        "drift_low_pct": _pct(order.drift_low),
        "drift_high_pct": _pct(order.drift_high),
        "step_times": [as_json_time(it) for it in order.step_times],
    }


def _axis(axis: AxisReport) -> dict[str, Any]:
    group = axis.group
    parameters = {k: v for k, v in group.parameters.items() if k != axis.name}
    return {
        "name": axis.name,
        "indicator": group.indicator,
        "unit": group.unit.value,
        "parameters": parameters,
        "device": group.device,
        "python_version": group.python_version,
        "hardware": {"digest": group.hardware_digest, "label": group.hardware_label},
        "keys": [{"value": value, "comparison_key": key} for value, key in axis.keys.items()],
        "baseline": axis.baseline,
        "curves": [
            {
                "label": curve.label,
                "stack_digest": curve.stack_digest,
                "points": list(_rates(curve.points)),
                "differences": list(_differences(curve.differences)),
                "crossings": [asdict(it) for it in curve.crossings],
            }
            for curve in axis.curves
        ],
        "batches": [{"label": label, **batches_document(it)} for label, it in axis.batches.items()],
        "findings": list(axis_findings(axis)),
    }


def _rates(points: Iterable[CurvePoint]) -> Iterator[dict[str, Any]]:
    for point in points:
        yield {
            "value": point.x,
            "rate": math.exp(point.value),
            "low": math.exp(point.low) if math.isfinite(point.low) else None,
            "high": math.exp(point.high) if math.isfinite(point.high) else None,
            "jobs": point.jobs,
        }


def _differences(points: Iterable[CurvePoint]) -> Iterator[dict[str, Any]]:
    for point in points:
        yield {
            "value": point.x,
            "difference_pct": _pct(point.value),
            "low_pct": _pct(point.low) if math.isfinite(point.low) else None,
            "high_pct": _pct(point.high) if math.isfinite(point.high) else None,
            "jobs": point.jobs,
        }


def _pct(log: float) -> float:
    return 100 * math.expm1(log)
