"""Summaries of latencies: mean, percentiles and maximum, each with all samples behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from ingest.benchmarks.results import LOWER, Run, measure
from model.measurements.benchmark_results import Aggregate, BenchmarkResult
from pis.indicators.tails import percentile


def latency_summaries(
    run: Run, name: str, unit: str, definition: str, samples: Sequence[float]
) -> Iterator[BenchmarkResult]:
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
        each = measure(f"{name}_{suffix}", unit, LOWER, definition, aggregate)
        yield run.stated(each, value, samples=tuple(samples))
