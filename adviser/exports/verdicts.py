"""The verdicts of ``thoth stacks`` as rows of an export."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import DifferingPackage, compare_stacks
from adviser.stacks_document import stacks_document
from graph.record.exported_rows import RowSet
from graph.record.measurements import measured_observations
from model.declared_fields import declared_fields
from model.measurements.evidence import MeasuredObservation

_GROUP_COLUMNS = (
    "comparison_key", "indicator", "script_sha256", "unit", "parameters", "device",
    "python_version", "delta_pct",
)  # fmt: skip
_STACK_COLUMNS = (
    "stack_digest", "component", "component_version", "jobs", "median_rate", "spread_pct",
)  # fmt: skip
_COMPARISON_COLUMNS = tuple(it.name for it in declared_fields(Comparison))
_COLUMNS = (
    *_GROUP_COLUMNS, "hardware_digest", "hardware", "baseline_digest", "baseline_reason",
    *_STACK_COLUMNS, "differing_packages", "left_out", *_COMPARISON_COLUMNS, "document_ids",
)  # fmt: skip

#: Documents of a stack in a series: by comparison key, version of Python and stack.
_Documents = dict[tuple[str, str | None, str], set[str]]


def exported_verdicts(connection: Connection) -> Iterator[RowSet]:
    """Every measured stack with its comparison, as ``thoth stacks --all`` shows it.

    All comparisons are one family, so all measurements are in memory at once.
    """
    documents: _Documents = defaultdict(set)
    groups = compare_stacks(_noted(measured_observations(connection), documents))
    yield RowSet(None, _COLUMNS, _rows(stacks_document(groups)["groups"], documents))


def _noted(
    observations: Iterable[MeasuredObservation], documents: _Documents
) -> Iterator[MeasuredObservation]:
    """The same observations, while their documents are added to ``documents``."""
    for observation in observations:
        series, reading = observation.series, observation.reading
        key = series.comparison_key, series.python_version, reading.stack
        documents[key].add(reading.document_id)
        yield observation


def _differing(stack: Mapping[str, Any]) -> list[str]:
    return [str(DifferingPackage(**it)) for it in stack["differing_packages"]]


def _rows(groups: Iterable[dict[str, Any]], documents: _Documents) -> Iterator[tuple[Any, ...]]:
    for group in groups:
        hardware, baseline = group["hardware"], group["baseline"] or {}
        for stack in group["stacks"]:
            key = group["comparison_key"], group["python_version"], stack["stack_digest"]
            comparison = stack["comparison"] or {}
            yield (
                *(group[name] for name in _GROUP_COLUMNS), hardware["digest"], hardware["label"],
                baseline.get("stack_digest"), baseline.get("reason"),
                *(stack[name] for name in _STACK_COLUMNS), _differing(stack),
                sum(stack["left_out"].values()),
                *(comparison.get(name) for name in _COMPARISON_COLUMNS), sorted(documents[key]),
            )  # fmt: skip
