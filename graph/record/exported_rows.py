"""Streams the rows of exports from the record, with server-side cursors.

Each name yields the rows of one table, in a fixed order and divided into :class:`RowSet`.
JSON columns are PostgreSQL's text, so that nothing is parsed. Columns that may contain private data
are not selected: messages and logs, names of sources, requests and identifiers of advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Select,
    Text,
    bindparam,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from graph.record.benchmark_list import BenchmarkFilter, benchmark_results
from graph.record.benchmark_results import ListedResult
from graph.record.hardware import HardwareHead
from graph.record.inspections import InspectionHead, select_inspections
from graph.record.observations import RecordedObservation, select_observations
from graph.record.own_results import OWN_SYSTEM
from graph.record.postgresql_helpers import columns_for
from graph.record.release_queries import VersionDetail, select_versions
from graph.record.vulnerability_queries import VulnerabilityHead, select_vulnerabilities
from graph.tables import (
    HardwareRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    VulnerabilityRow,
)
from model.declared_fields import declared_fields
from model.measurements.benchmark_results import BenchmarkResult, Metric

#: Rows that a cursor fetches at once.
_FETCHED = 2_000


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows that share a folder of an export.

    :param partition: the value that they share; ``None`` if the table has no partitions
    :param columns: names of the values of a row
    :param rows: read once, while the connection is open
    """

    partition: str | None
    columns: tuple[str, ...]
    rows: Iterable[Sequence[Any]]


#: Reads the rows of a table while the connection is open.
Rows = Callable[[Connection], Iterator[RowSet]]


def _row_set(
    connection: Connection,
    query: Executable,
    values: Mapping[str, Any] | None = None,
    partition: str | None = None,
) -> RowSet:
    result = connection.execute(query, values or {}, execution_options={"yield_per": _FETCHED})
    return RowSet(partition, tuple(result.keys()), result)


def _whole(query: Executable) -> Rows:
    """The rows of a query in one set."""

    def read(connection: Connection) -> Iterator[RowSet]:
        yield _row_set(connection, query)

    return read


def _by_indicator(query: Executable) -> Rows:
    """The rows of each indicator; scripts with the same name follow each other.

    Reading one script at a time lets an index give the order, so that nothing is sorted.
    """
    named = text("SELECT name, indicator_id FROM indicators ORDER BY name, indicator_id")

    def read(connection: Connection) -> Iterator[RowSet]:
        for name, indicator in connection.execute(named).all():
            yield _row_set(connection, query, {"indicator": indicator}, name)

    return read


def _public(
    query: Select[*tuple[Any, ...]], view: type, **renamed: str
) -> Select[*tuple[Any, ...]]:
    """The public fields of a dataclass, JSON as text.

    :param query: selects the fields by name
    :param renamed: names of columns by field
    """
    selected: dict[str, ColumnElement[Any]] = dict(query.selected_columns)
    columns = (
        (it.cast(Text) if isinstance(it.type, JSONB) else it).label(renamed.get(name, name))
        for name, it in (
            (it.name, selected[it.name]) for it in declared_fields(view) if it.declared.public
        )
    )
    return query.with_only_columns(*columns)


exported_inspections = _whole(
    _public(select_inspections(), InspectionHead)
    .add_columns(InspectionRow.bundled.cast(Text).label("bundled"))
    .order_by(InspectionRow.document_id)
)
exported_observations = _by_indicator(
    _public(select_observations(), RecordedObservation, hardware_label="hardware")
    .where(ObservationRow.indicator_id == bindparam("indicator", type_=Text))
    .order_by(ObservationRow.observation_id)
)
_HARDWARE = select(*columns_for(HardwareHead, HardwareRow)).order_by(HardwareRow.digest)
exported_hardware = _whole(
    _public(_HARDWARE, HardwareHead, digest="hardware_digest", label="hardware")
)
_RELEASES = (
    _public(select_versions(), VersionDetail)
    .add_columns(
        literal_column(
            "ARRAY(SELECT raw FROM requirements"
            " WHERE requirements.purl = package_versions.purl ORDER BY position)"
        ).label("requirements"),
        literal_column(
            "ARRAY(SELECT vulnerability_id FROM affected_versions"
            " WHERE affected_versions.purl = package_versions.purl ORDER BY vulnerability_id)"
        ).label("vulnerabilities"),
    )
    .where(PackageVersionRow.index_name == bindparam("index", type_=Text))
    .order_by(PackageVersionRow.purl)
)
exported_vulnerabilities = _whole(
    _public(select_vulnerabilities(), VulnerabilityHead).order_by(VulnerabilityRow.vulnerability_id)
)
exported_samples = _by_indicator(
    text(
        """
SELECT job.observation_id, job.document_id, indicator.name AS indicator, job.comparison_key,
       (sample.number - 1)::int AS repetition, sample.duration_s
FROM observations AS job
JOIN indicators AS indicator USING (indicator_id)
CROSS JOIN LATERAL unnest(job.repetitions_s) WITH ORDINALITY AS sample (duration_s, number)
WHERE job.indicator_id = :indicator
ORDER BY job.observation_id, sample.number
        """
    )
)
#: Only measured stacks: the packages of others would reveal the projects of clients.
exported_stacks = _whole(
    text(
        """
SELECT stack.digest AS stack_digest, stack.document_id, stack.package_count, release.purl,
       release.name, release.version, release.index_name AS index
FROM stacks AS stack
LEFT JOIN stack_packages AS package ON package.stack_digest = stack.digest
LEFT JOIN package_versions AS release USING (purl)
WHERE EXISTS (SELECT FROM inspections WHERE inspections.stack_digest = stack.digest)
ORDER BY stack.digest, release.purl
        """
    )
)
exported_advisories = _whole(
    text(
        """
SELECT advisory_id, document_id, vulnerability_id, aliases, summary, severity, score, vector,
       published_at, modified_at, withdrawn_at,
       ARRAY(SELECT purl FROM affected_versions
             WHERE affected_versions.vulnerability_id = advisory.vulnerability_id
             ORDER BY purl) AS affected
FROM advisories AS advisory
ORDER BY advisory_id
        """
    )
)
exported_advisory_packages = _whole(
    text(
        """
SELECT advisory_id, document_id, position, name, ranges::text AS ranges, versions
FROM advisory_packages JOIN advisories USING (advisory_id)
ORDER BY advisory_id, position
        """
    )
)
exported_advisory_archives = _whole(
    text(
        """
SELECT sha256, advisories, as_of AS read_at
FROM advisory_sources
WHERE advisories > 0
ORDER BY as_of, sha256
        """
    )
)
#: Without identifiers of advice and digests of unmeasured stacks: whoever knows them can read the
#: report, or the packages of the project.
exported_advice = _whole(
    text(
        """
SELECT 'sha256:' || encode(sha256(convert_to(advice.advice_id, 'UTF8')), 'hex') AS advice_digest,
       advice.report_document_id AS document_id, recommendation_type, status, python_version,
       platform, snapshot_revision, result_digest, created_at, advised.rank, advised.score,
       CASE WHEN EXISTS (
           SELECT FROM inspections WHERE inspections.stack_digest = advised.stack_digest
       ) THEN advised.stack_digest END AS stack_digest
FROM advice LEFT JOIN advised_stacks AS advised USING (advice_id)
ORDER BY created_at, advice_id, rank
        """
    )
)
_OF_RESULT, _OF_METRIC = (
    tuple(it.name for it in declared_fields(view) if it.declared.public)
    for view in (BenchmarkResult, Metric)
)
_BENCHMARK_COLUMNS = ("document_id", "position", "metric", *_OF_RESULT, *_OF_METRIC, "file_sha256")


def exported_releases(connection: Connection) -> Iterator[RowSet]:
    """Releases, by index."""
    query = text("SELECT DISTINCT index_name FROM package_versions ORDER BY index_name")
    for index in connection.scalars(query).all():
        yield _row_set(connection, _RELEASES, {"index": index}, index)


def exported_benchmarks(connection: Connection) -> Iterator[RowSet]:
    """Results of other benchmark systems and of our own inspections, by system."""
    query = text("SELECT DISTINCT system FROM benchmark_entries ORDER BY system")
    for system in (*connection.scalars(query).all(), OWN_SYSTEM):
        listed = benchmark_results(connection, BenchmarkFilter(system=system))
        yield RowSet(system, _BENCHMARK_COLUMNS, map(_benchmark_row, listed))


def _benchmark_row(listed: ListedResult) -> tuple[Any, ...]:
    result = listed.result
    return (
        listed.entry_id,
        listed.position,
        result.metric.name,
        *(getattr(result, name) for name in _OF_RESULT),
        *(getattr(result.metric, name) for name in _OF_METRIC),
        [it.sha256 for it in result.files],
    )
