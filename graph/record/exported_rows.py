"""Streams the rows of exports from the record, with server-side cursors.

Each name yields the rows of one table, in a fixed order and divided into :class:`RowSet`.
JSON columns are PostgreSQL's text, so that nothing is parsed. Columns that may contain private data
are not selected: messages and logs, names of sources, requests and identifiers of advice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from graph.record.benchmark_results import (
    OWN_SYSTEM,
    BenchmarkFilter,
    ListedResult,
    benchmark_results,
)
from graph.record.hardware import HardwareHead
from graph.record.inspections import InspectionHead, select_inspections
from graph.record.observations import RecordedObservation, select_observations
from graph.record.postgresql_helpers import columns_for
from graph.record.release_queries import VersionDetail, select_versions
from graph.record.vulnerabilities import VulnerabilityHead, select_vulnerabilities
from graph.tables import (
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    StackPackage,
    StackRow,
    VulnerabilityRow,
)
from model.declared_fields import declared_fields
from model.errors import Reason
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


#: Names of indexes may contain a host, see :func:`model.packages.identity.name_of_index`.
_IS_PRIVATE = PackageVersionRow.index_name.regexp_match("-[0-9a-f]{8}$")


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Measurements to export, with the rows that they refer to; an empty field is no limit.

    Measurements are left out if their stack is unknown, if it has packages of an index that is
    known only by its URL, or if their document was tampered with.

    :param indicators: names
    :param packages: names of packages; a stack must have at least one of them
    :param hardware: beginnings of the digests of hardware classes
    :param since: jobs that ended before are left out
    """

    indicators: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    since: datetime | None = None

    def of(self, column: Any) -> Select[Any]:
        """A column of the selected observations."""
        return select(column).where(*self.conditions())

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Conditions of observations."""
        row, job = ObservationRow, InspectionRow
        of_stack = select(StackPackage.stack_digest).join(
            PackageVersionRow, PackageVersionRow.purl == StackPackage.purl
        )
        known = select(job.document_id).where(
            job.stack_digest.is_not(None), job.stack_digest.not_in(of_stack.where(_IS_PRIVATE))
        )
        if self.packages:
            named = PackageVersionRow.name.in_(self.packages)
            known = known.where(job.stack_digest.in_(of_stack.where(named)))
        yield row.document_id.in_(known)
        yield row.quarantine_reason.is_distinct_from(Reason.TAMPERED.value)
        if self.indicators:
            named = IndicatorRow.name.in_(self.indicators)
            yield row.indicator_id.in_(select(IndicatorRow.indicator_id).where(named))
        if self.hardware:
            yield or_(
                *(row.hardware_digest.startswith(it, autoescape=True) for it in self.hardware)
            )
        if self.since is not None:
            yield row.ended_at >= self.since

    def stacks(self) -> Select[Any]:
        """Digests of the stacks."""
        documents = InspectionRow.document_id.in_(self.of(ObservationRow.document_id))
        return select(InspectionRow.stack_digest).where(documents)


#: Reads the rows of a table while the connection is open; those of a selection, if it is given and
#: the table has measurements or what they refer to.
Rows = Callable[[Connection, ExportSelection | None], Iterator[RowSet]]


def _row_set(
    connection: Connection,
    query: Executable,
    values: Mapping[str, Any] | None = None,
    partition: str | None = None,
) -> RowSet:
    result = connection.execute(query, values or {}, execution_options={"yield_per": _FETCHED})
    return RowSet(partition, tuple(result.keys()), result)


def _whole(
    query: Any, selected: Callable[[ExportSelection], ColumnElement[bool]] | None = None
) -> Rows:
    """The rows of a query in one set."""

    def read(connection: Connection, selection: ExportSelection | None = None) -> Iterator[RowSet]:
        if selection is not None and selected is not None:
            yield _row_set(connection, query.where(selected(selection)))
        else:
            yield _row_set(connection, query)

    return read


def _by_indicator(query: Select[*tuple[Any, ...]]) -> Rows:
    """The rows of each indicator; scripts with the same name follow each other.

    Reading one script at a time lets an index give the order, so that nothing is sorted.
    """
    named = text("SELECT name, indicator_id FROM indicators ORDER BY name, indicator_id")

    def read(connection: Connection, selection: ExportSelection | None = None) -> Iterator[RowSet]:
        limited = query if selection is None else query.where(*selection.conditions())
        for name, indicator in connection.execute(named).all():
            yield _row_set(connection, limited, {"indicator": indicator}, name)

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
    .order_by(InspectionRow.document_id),
    lambda it: InspectionRow.document_id.in_(it.of(ObservationRow.document_id)),
)
exported_observations = _by_indicator(
    _public(select_observations(), RecordedObservation, hardware_label="hardware")
    .where(ObservationRow.indicator_id == bindparam("indicator", type_=Text))
    .order_by(ObservationRow.observation_id)
)
_HARDWARE = select(*columns_for(HardwareHead, HardwareRow)).order_by(HardwareRow.digest)
exported_hardware = _whole(
    _public(_HARDWARE, HardwareHead, digest="hardware_digest", label="hardware"),
    lambda it: HardwareRow.digest.in_(it.of(ObservationRow.hardware_digest)),
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
_SAMPLE = (
    func.unnest(ObservationRow.repetitions_s)
    .table_valued("duration_s", with_ordinality="number", name="sample")
    .render_derived()
)
exported_samples = _by_indicator(
    select(
        ObservationRow.observation_id,
        ObservationRow.document_id,
        IndicatorRow.name.label("indicator"),
        ObservationRow.comparison_key,
        (_SAMPLE.c.number - 1).cast(Integer).label("repetition"),
        _SAMPLE.c.duration_s,
    )
    .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
    .join(_SAMPLE, true())
    .where(ObservationRow.indicator_id == bindparam("indicator", type_=Text))
    .order_by(ObservationRow.observation_id, _SAMPLE.c.number)
)
#: Only measured stacks: the packages of others would reveal the projects of clients.
exported_stacks = _whole(
    select(
        StackRow.digest.label("stack_digest"),
        StackRow.document_id,
        StackRow.package_count,
        PackageVersionRow.purl,
        PackageVersionRow.name,
        PackageVersionRow.version,
        PackageVersionRow.index_name.label("index"),
    )
    .outerjoin(StackPackage, StackPackage.stack_digest == StackRow.digest)
    .outerjoin(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
    .where(select(InspectionRow).where(InspectionRow.stack_digest == StackRow.digest).exists())
    .order_by(StackRow.digest, PackageVersionRow.purl),
    lambda it: StackRow.digest.in_(it.stacks()),
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


def exported_releases(
    connection: Connection, selection: ExportSelection | None = None
) -> Iterator[RowSet]:
    """Releases, by index; of a selection, all releases of the packages in its stacks."""
    query, row = _RELEASES, PackageVersionRow
    if selection is not None:
        used = select(row.name).join(StackPackage, StackPackage.purl == row.purl)
        names = connection.scalars(used.where(StackPackage.stack_digest.in_(selection.stacks())))
        query = query.where(row.name.in_(sorted(set(names))), ~_IS_PRIVATE)
    indexes = text("SELECT DISTINCT index_name FROM package_versions ORDER BY index_name")
    for index in connection.scalars(indexes).all():
        yield _row_set(connection, query, {"index": index}, index)


def exported_benchmarks(
    connection: Connection, _selection: ExportSelection | None = None
) -> Iterator[RowSet]:
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
