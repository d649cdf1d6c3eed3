"""Summaries of latencies: mean, percentiles and maximum, each with all samples behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from common.benchmark_results import Aggregate, Direction, Metric

#: A summary: its metric, its value, and the rule that makes the value of the samples.
LatencySummary = tuple[Metric, float, Aggregate]


def percentile(ordered: Sequence[float], per_cent: int) -> float:
    """The sample at index ``floor(p n)`` of ``n`` ordered samples, at most the last one.

    :param ordered: samples in ascending order; at least one

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0], 99)
    (3.0, 2.0)
    """
    return ordered[min(len(ordered) * per_cent // 100, len(ordered) - 1)]


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
