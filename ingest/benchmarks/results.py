"""What readers make results of: measures in tables, and the fields that the results of a run share.

A reader finds a text or a number, and names its :class:`Measure`. A value that is missing, no
number or impossible becomes a failed result with a reason, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from statistics import fmean
from typing import Any, TypeVar

from ingest.benchmarks.values import finite_number, positive_number
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
    Validity,
)
from pis.indicators.tails import percentile

HIGHER, LOWER = Direction.HIGHER, Direction.LOWER
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric, and how its values follow from samples.

    :param zero_counts: for quantities that can be zero, such as an accuracy
    """

    metric: Metric
    aggregate: Aggregate
    zero_counts: bool = False


def measure(
    name: str,
    unit: str,
    direction: Direction,
    definition: str,
    aggregate: Aggregate = Aggregate.SINGLE,
    *,
    zero_counts: bool = False,
) -> Measure:
    """A line in the table of a reader; see :class:`Metric` and :class:`Measure`."""
    return Measure(Metric(name, unit, direction, definition), aggregate, zero_counts)


@dataclass(frozen=True, slots=True)
class Run:
    """The fields that the results of a run share; see :class:`BenchmarkResult`."""

    system: str
    source: str
    files: Sequence[MeasuredFile]
    benchmark: str = "unknown"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    accelerators: int | None = None
    software: Mapping[str, str | None] = field(default_factory=dict)
    measured_at: datetime | None = None
    validity: Validity = Validity.UNKNOWN
    reason: str | None = None

    def result(
        self,
        measure: Measure,
        value: object,
        failure: str = "the value is missing, zero or no number",
        **changes: Any,
    ) -> BenchmarkResult:
        """A result with ``value`` if that is a number above zero, and else a failed one.

        :param failure: reason of a failed result
        :param changes: fields that differ from those of the run, for a measured value
        """
        number = finite_number(value) if measure.zero_counts else positive_number(value)
        if number is None or number < 0:
            changes |= {"validity": Validity.FAILED, "reason": failure, "samples": ()}
            number = None
        return self.stated(measure, number, **changes)

    def stated(self, measure: Measure, value: float | None, **changes: Any) -> BenchmarkResult:
        """A result with exactly this value."""
        shared = {name: getattr(self, name) for name in _SHARED} | changes
        return BenchmarkResult(
            metric=measure.metric, value=value, **{"aggregate": measure.aggregate, **shared}
        )


_SHARED = tuple(it.name for it in fields(Run))


def run_of(system: str, source: str, *files: MeasuredFile) -> Run:
    """A run with its files in order."""
    return Run(system, source, sorted(files, key=lambda it: it.place))


def with_parameters(run: Run, **parameters: Parameter) -> Run:
    """``run`` with more parameters."""
    return replace(run, parameters={**run.parameters, **parameters})


def numbered_parts(run: Run, parts: Sequence[_Part]) -> Iterator[tuple[Run, _Part]]:
    """Each part of a file with its run; sources of several parts have a number."""
    for number, part in enumerate(parts):
        source = run.source if len(parts) == 1 else f"{run.source}#{number}"
        yield replace(run, source=source), part


def results_of_parts(
    run: Run, parts: Sequence[_Part], results: Callable[[Run, _Part], Iterator[BenchmarkResult]]
) -> Iterator[BenchmarkResult]:
    """Results of each part of a file; a part that is refused does not lose the others.

    :param results: reads a part
    :raises InvalidDocument: after all results, the first refusal
    """
    refusal: InvalidDocument | None = None
    for part_run, part in numbered_parts(run, parts):
        try:
            yield from results(part_run, part)
        except InvalidDocument as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal


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
