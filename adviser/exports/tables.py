"""The tables of an export: their rows, and columns with types, units and meanings."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import Connection

from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import DifferingPackage, compare_stacks
from adviser.stacks_document import stacks_document
from graph.record.exported_rows import (
    ExportSelection,
    Rows,
    RowSet,
    exported_advice,
    exported_advisories,
    exported_benchmarks,
    exported_hardware,
    exported_inspections,
    exported_observations,
    exported_releases,
    exported_samples,
    exported_stacks,
    exported_vulnerabilities,
)
from graph.record.hardware import HardwareHead
from graph.record.inspections import InspectionHead
from graph.record.measurements import measured_observations
from graph.record.observations import RecordedObservation
from graph.record.release_queries import VersionDetail
from graph.record.vulnerabilities import VulnerabilityHead
from model.advice import AdviceHead
from model.declared_fields import DeclaredField, declared_fields
from model.measurements.benchmark_results import BenchmarkResult, Metric
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


def exported_verdicts(
    connection: Connection, _selection: ExportSelection | None = None
) -> Iterator[RowSet]:
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


def _rows(groups: Iterable[dict[str, Any]], documents: _Documents) -> Iterator[tuple[Any, ...]]:
    for group in groups:
        hardware, baseline = group["hardware"], group["baseline"] or {}
        for stack in group["stacks"]:
            key = group["comparison_key"], group["python_version"], stack["stack_digest"]
            comparison = stack["comparison"] or {}
            yield (
                *(group[name] for name in _GROUP_COLUMNS), hardware["digest"], hardware["label"],
                baseline.get("stack_digest"), baseline.get("reason"),
                *(stack[name] for name in _STACK_COLUMNS),
                [str(DifferingPackage(**it)) for it in stack["differing_packages"]],
                sum(stack["left_out"].values()),
                *(comparison.get(name) for name in _COMPARISON_COLUMNS), sorted(documents[key]),
            )  # fmt: skip


class ColumnType(StrEnum):
    """Type of the values of a column; every column may contain null."""

    TEXT = "text"
    #: Text with few distinct values, stored as a dictionary.
    CATEGORY = "category"
    #: Time in UTC, with microseconds.
    TIME = "time"
    REAL = "real"
    INTEGER = "integer"
    FLAG = "flag"
    TEXTS = "list of texts"
    REALS = "list of reals"
    #: A JSON object or array as text.
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column of an exported table.

    :param unit: of its values, such as ``s``; empty for a number without unit
    """

    type: ColumnType
    name: str
    description: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table of an export.

    :param rows: reads the rows, also of a selection; the connection must stay open meanwhile
    """

    name: str
    description: str
    columns: tuple[ExportColumn, ...]
    rows: Rows


_text = partial(ExportColumn, ColumnType.TEXT)
_category = partial(ExportColumn, ColumnType.CATEGORY)
_time = partial(ExportColumn, ColumnType.TIME)
_real = partial(ExportColumn, ColumnType.REAL)
_integer = partial(ExportColumn, ColumnType.INTEGER)
_texts = partial(ExportColumn, ColumnType.TEXTS)
_json = partial(ExportColumn, ColumnType.JSON)


def columns_of(
    view: type, categories: Collection[str] = (), **renamed: str
) -> tuple[ExportColumn, ...]:
    """The public fields of a dataclass as columns.

    :param categories: columns with few distinct values, besides :data:`_CATEGORIES`
    :param renamed: names of columns by field
    """
    few = _CATEGORIES.union(categories)
    return tuple(
        ExportColumn(
            _column_type(field, (name := renamed.get(field.name, field.name)) in few),
            name,
            field.declared.description,
            re.sub("`(.+)`", r"see column \1", field.declared.unit),
        )
        for field in declared_fields(view)
        if field.declared.public
    )


#: Columns of text with few distinct values.
_CATEGORIES = frozenset(
    {
        "aggregate", "baseline_reason", "benchmark", "blas", "collector", "component",
        "correction", "cuda_version", "definition", "device", "direction", "failure_reason",
        "hardware", "hardware_digest", "index", "indicator", "launcher", "metadata_source",
        "method", "needs", "os_name", "os_version", "outcome", "platform", "problem",
        "python_version", "quarantine_reason", "schema_version", "severity", "state",
        "system", "unit", "unstable_reason", "validity", "verdict",
    }
)  # fmt: skip
_TYPES = {
    datetime: ColumnType.TIME, float: ColumnType.REAL, int: ColumnType.INTEGER,
    bool: ColumnType.FLAG, tuple[str, ...]: ColumnType.TEXTS, Sequence[float]: ColumnType.REALS,
}  # fmt: skip


def _column_type(field: DeclaredField, category: bool) -> ColumnType:
    if isinstance(field.type, type) and issubclass(field.type, str):
        return ColumnType.CATEGORY if category else ColumnType.TEXT
    return _TYPES.get(field.type, ColumnType.JSON)


_DOCUMENT = _text("document_id", "Digest of the document that the row comes from.")
_STACK = _text("stack_digest", "Digest of the stack; null if it is unknown.")
_INDICATOR = _category("indicator", "Name of the performance indicator.")
_SCRIPT = _text("script_sha256", "SHA-256 of the indicator's script.")
_COMPARISON_KEY = _text("comparison_key", "Key that comparable observations share.")
_PARAMETERS = _json("parameters", "Parameters of the indicator.")
_DEVICE = _category("device", "Device that the indicator ran on.")
_PYTHON = _category("python_version", "Version of Python.")
_INDEX = _category("index", "Name of the package index.")
_HARDWARE = (
    _category("hardware_digest", "Digest of the hardware class."),
    _category("hardware", "Name of the hardware class for people."),
)
_RATE_UNIT = _category("unit", "Unit of the rates of this row.")
#: Unit of a column whose unit is in the column ``unit``.
_OF_ROW = "see column unit"

_INSPECTIONS = ExportTable(
    "inspections",
    "One row for each inspection: a stack that was built and measured by a number of jobs.",
    (
        *columns_of(InspectionHead),
        _json("bundled", "Libraries that the wheels bundle, by release; null if unknown."),
    ),
    exported_inspections,
)
_OBSERVATIONS = ExportTable(
    "observations",
    "One row for each result of a job, in a folder for each indicator.",
    columns_of(RecordedObservation, hardware_label="hardware"),
    exported_observations,
)
_SAMPLES = ExportTable(
    "samples",
    "One row for each repetition of an observation, in a folder for each indicator.",
    (
        _text("observation_id", "Identifier of the observation."),
        _DOCUMENT,
        _INDICATOR,
        _category("comparison_key", "Key that comparable observations share."),
        _integer("repetition", "Position within the job, from 0."),
        _real("duration_s", "Duration of the repetition.", "s"),
    ),
    exported_samples,
)
_HARDWARE_CLASSES = ExportTable(
    "hardware",
    "One row for each hardware class: machines whose measurements may be compared.",
    columns_of(HardwareHead, digest="hardware_digest", label="hardware"),
    exported_hardware,
)
_STACKS = ExportTable(
    "stacks",
    "One row for each package of each measured stack.",
    (
        _category("stack_digest", "Digest of the stack."),
        _category("document_id", "Digest of the first document that contained the stack."),
        _integer("package_count", "Number of packages in the stack."),
        _text("purl", "Package URL of the package version."),
        _category("name", "Normalised name of the package."),
        _text("version", "Normalised version."),
        _INDEX,
    ),
    exported_stacks,
)
_RELEASES = ExportTable(
    "releases",
    "One row for each known release of a package, in a folder for each index.",
    (
        *columns_of(VersionDetail, ("name",)),
        _texts("requirements", "Its requirements, in the order of its metadata."),
        _texts("vulnerabilities", "Identifiers of the vulnerabilities that affect it."),
    ),
    exported_releases,
)
_ADVISORIES = ExportTable(
    "advisories",
    "One row for each advisory.",
    (
        _text("advisory_id", "Identifier of the advisory."),
        _DOCUMENT,
        _text("vulnerability_id", "Main identifier of its vulnerability."),
        _texts("aliases", "Other identifiers in the advisory."),
        _text("summary", "Summary in one line."),
        _category("severity", "Severity."),
        _real("score", "CVSS base score, 0 to 10."),
        _text("vector", "CVSS vector of the score."),
        _time("published_at", "When it was published."),
        _time("modified_at", "When it last changed."),
        _time("withdrawn_at", "When it was withdrawn; null if it holds."),
        _texts("affected", "Package URLs of the known releases that its vulnerability affects."),
    ),
    exported_advisories,
)
_VULNERABILITIES = ExportTable(
    "vulnerabilities",
    "One row for each vulnerability, merged from the advisories that are aliases.",
    columns_of(VulnerabilityHead),
    exported_vulnerabilities,
)
_BENCHMARKS = ExportTable(
    "benchmarks",
    "One row for each result of another benchmark system, and of our own inspections in the same"
    " form (system thoth), in a folder for each system.",
    (
        _text("document_id", "Digest of the inspection, or of the files and what they share."),
        _integer("position", "Position within the document."),
        _category("metric", "Name of the metric."),
        *columns_of(BenchmarkResult),
        *columns_of(Metric),
        _texts("file_sha256", "SHA-256 of each file that it was read from."),
    ),
    exported_benchmarks,
)
_ADVICE = ExportTable(
    "advice",
    "One row for each recommended stack of an advice; one row with null if there is none.",
    (
        _text("advice_digest", "Digest of the identifier of the advice."),
        _text("document_id", "Digest of the report."),
        _category("recommendation_type", "Recommendation type of the request."),
        _category("status", "How the search ended."),
        *columns_of(AdviceHead),
        _integer("rank", "Position of the stack; the best has rank 1."),
        _real("score", "Score of the stack, in points."),
        _text("stack_digest", "Digest of the stack; null if it was never measured."),
    ),
    exported_advice,
)
_VERDICTS = ExportTable(
    "verdicts",
    "One row for each measured stack and series, compared with the baseline of the series by the"
    " rules of thoth stacks.",
    (
        _COMPARISON_KEY,
        _INDICATOR,
        _SCRIPT,
        _RATE_UNIT,
        _PARAMETERS,
        _DEVICE,
        _PYTHON,
        _real("delta_pct", "Smallest difference of interest.", "%"),
        *_HARDWARE,
        _text("baseline_digest", "Digest of the baseline's stack."),
        _category("baseline_reason", "Why this stack is the baseline."),
        _STACK,
        _category("component", "Measured library."),
        _category("component_version", "Its version in the stack."),
        _integer("jobs", "Number of jobs, with those left out."),
        _real(
            "median_rate",
            "Median over the jobs that count; of a compared stack, the baseline's median times"
            " 1 + the difference.",
            _OF_ROW,
        ),
        _real("spread_pct", "Robust coefficient of variation of the jobs.", "%"),
        _texts("differing_packages", "Packages that differ from the baseline, with versions."),
        _integer("left_out", "Jobs of the stack and the baseline outside the comparison."),
        *columns_of(Comparison),
        _texts("document_ids", "Digests of the inspections of the stack in this series."),
    ),
    exported_verdicts,
)

#: All tables by name, in the order of an export.
TABLES = {
    table.name: table
    for table in (
        _INSPECTIONS,
        _OBSERVATIONS,
        _SAMPLES,
        _HARDWARE_CLASSES,
        _STACKS,
        _RELEASES,
        _ADVISORIES,
        _VULNERABILITIES,
        _BENCHMARKS,
        _ADVICE,
        _VERDICTS,
    )
}
