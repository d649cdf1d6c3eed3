"""Results of this product in the formats of other systems, which lack fields for most facts.

Both formats have a place for additional information of a metric. What is written there is read
back, so that only system, source and files differ then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.benchmarks.results import Run, measure
from model.errors import InvalidDocument
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Direction, Validity
from model.reasons import Reason

#: How records of this product are marked.
WRITER = "thoth"


def written_facts(result: BenchmarkResult) -> dict[str, Any]:
    """What a format has no fields for, apart from samples."""
    metric = result.metric
    facts = {
        "unit": metric.unit, "direction": metric.direction.value, "definition": metric.definition,
        "aggregate": result.aggregate.value, "validity": result.validity.value,
    }  # fmt: skip
    return facts if result.reason is None else {**facts, "reason": result.reason}


def result_of_facts(
    run: Run,
    name: object,
    value: float,
    facts: Mapping[str, Any],
    samples: Sequence[float],
    field: str,
) -> BenchmarkResult:
    """The result with the facts of :func:`written_facts`.

    :param field: where the facts are, for the error
    :raises InvalidDocument: if a fact is none that this product writes
    """
    try:
        direction = Direction(str(facts.get("direction")))
        aggregate = Aggregate(str(facts.get("aggregate")))
        validity = Validity(str(facts.get("validity")))
    except ValueError as error:
        raise InvalidDocument(Reason.OUT_OF_RANGE, str(error)[:200], field=field) from None
    definition, reason = str(facts.get("definition")), facts.get("reason")
    each = measure(str(name), str(facts.get("unit", "")), direction, definition, aggregate)
    return run.stated(
        each, value, samples=samples, validity=validity,
        reason=reason if isinstance(reason, str) else None,
    )  # fmt: skip
