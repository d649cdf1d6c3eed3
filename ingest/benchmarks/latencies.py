"""Summaries of latencies: mean, percentiles and maximum, each with all samples behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from model.measurements.benchmark_results import Aggregate, Direction, Metric
from pis.indicators.tails import percentile

#: A summary: its metric, its value, and the rule that makes the value of the samples.
LatencySummary = tuple[Metric, float, Aggregate]


def latency_summaries(
    name: str, unit: str, definition: str, samples: Sequence[float]
) -> Iterator[LatencySummary]:
    """Mean, p50, p90, p99 and maximum of ``samples``, of which there is at least one."""
    ordered = sorted(samples)
    for aggregate, value in (
        (Aggregate.MEAN, fmean(samples)),
        (Aggregate.P50, percentile(ordered, 50)),
        (Aggregate.P90, percentile(ordered, 90)),
        (Aggregate.P99, percentile(ordered, 99)),
        (Aggregate.MAXIMUM, ordered[-1]),
    ):
        suffix = "max" if aggregate is Aggregate.MAXIMUM else aggregate.value
        metric = Metric(f"{name}_{suffix}", unit, Direction.LOWER, definition)
        yield metric, value, aggregate
