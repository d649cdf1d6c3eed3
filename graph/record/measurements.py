"""Reads measurements and their series, for comparisons and evidence."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from sys import intern
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, any_, func, select, text

from graph.record.hardware import labels_apart
from graph.record.postgresql_helpers import matching, texts
from graph.tables import (
    MEASURED,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
    StackPackage,
)
from model.errors import Reason
from model.measurements.evidence import UNKNOWN_STACK, MeasuredObservation, Reading, Series
from model.measurements.job_stability import instability
from model.measurements.units import Unit
from model.packages.identity import PackageVersion, Purl, distributions_of, package_version_of


def measurements_query() -> Select[Any]:
    """Query for all comparable measurements; callers add conditions and columns.

    Crashes and quarantined observations are left out; unstable jobs are included.
    """
    return (
        select(
            ObservationRow.observation_id,
            ObservationRow.document_id,
            ObservationRow.job_id,
            ObservationRow.comparison_key,
            ObservationRow.parameters,
            ObservationRow.device,
            ObservationRow.unit,
            ObservationRow.rate,
            ObservationRow.elapsed_s,
            ObservationRow.repetitions_s,
            ObservationRow.unstable_reason,
            ObservationRow.host,
            ObservationRow.block,
            func.coalesce(
                ObservationRow.ended_at, ObservationRow.started_at, InspectionRow.created_at
            ).label("seen_at"),
            ObservationRow.tick_share,
            ObservationRow.hardware_digest,
            InspectionRow.stack_digest,
            IndicatorRow.name.label("indicator"),
            IndicatorRow.script_sha256,
            RuntimeEnvironmentRow.python_version,
        )
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
        .join(
            RuntimeEnvironmentRow, RuntimeEnvironmentRow.digest == ObservationRow.environment_digest
        )
        .where(*MEASURED)
    )


def job_minutes(connection: Connection, stacks: Sequence[str]) -> dict[str, float]:
    """Mean duration of a measured job in minutes, by digest of its stack.

    Jobs without a recorded start and end do not count.
    """
    duration = func.extract("epoch", ObservationRow.ended_at - ObservationRow.started_at)
    query = (
        select(InspectionRow.stack_digest, func.avg(duration) / 60)
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .where(
            InspectionRow.stack_digest == any_(texts(stacks)),
            ObservationRow.outcome == "measured",
            duration > 0,
        )
        .group_by(InspectionRow.stack_digest)
    )
    return {str(stack): float(minutes) for stack, minutes in connection.execute(query)}


def refused_observations(connection: Connection, stacks: Sequence[str] | None = None) -> int:
    """Number of observations that are quarantined because their documents were tampered with.

    :param stacks: digests of stacks; ``None`` for all
    """
    query = (
        select(func.count())
        .select_from(ObservationRow)
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .where(ObservationRow.quarantine_reason == Reason.TAMPERED.value)
    )
    if stacks is not None:
        query = query.where(InspectionRow.stack_digest == any_(texts(stacks)))
    return connection.scalar(query) or 0


def series_of(row: Row[Any]) -> Series:
    """The series of a row of :func:`measured`."""
    return Series(
        comparison_key=row.comparison_key,
        indicator=row.indicator,
        script_sha256=row.script_sha256,
        parameters=row.parameters,
        device=row.device,
        unit=Unit(row.unit),
        hardware_digest=row.hardware_digest,
        python_version=minor(row.python_version),
    )


#: What a reading has besides the number of its series, in the order of its fields.
ReadingValues = tuple[
    str, str, str, str, float, str | None, str | None, str | None, datetime | None, float | None
]


def reading_values(row: Row[Any], stack: str) -> ReadingValues:
    """The values of a row of :func:`measured`, marked if its job was unstable.

    Texts that many rows share are kept once.
    """
    return (
        row.observation_id,
        intern(stack),
        intern(row.document_id),
        row.job_id,
        _rate(row),
        row.unstable_reason or instability(row.repetitions_s),
        row.host and intern(row.host),
        row.block and intern(row.block),
        row.seen_at,
        row.tick_share,
    )


def numbered_reading(series: int, values: ReadingValues) -> Reading:
    """The reading with these values, of the series with this number."""
    return Reading(values[0], series, *values[1:])


def reading_of(row: Row[Any], series: int, stack: str) -> Reading:
    """The reading of a row of :func:`measured`, whose series has this number."""
    return numbered_reading(series, reading_values(row, stack))


def minor(version: str | None) -> str | None:
    """The minor version, such as ``3.11`` for ``3.11.7``."""
    return None if version is None else ".".join(version.split(".")[:2])


def _rate(row: Row[Any]) -> float:
    """The median repetition's rate; without repetitions, the reported rate (possibly a mean)."""
    if not row.repetitions_s or row.elapsed_s is None:
        return float(row.rate)
    return float(row.rate * row.elapsed_s / median(row.repetitions_s))


#: Number of measurements of a series, and a sum that changes with any of their rows.
SeriesMark = tuple[int, int]
#: A row that was written later has another transaction. What measurements use of an inspection
#: never changes.
_MARKS = """
    SELECT comparison_key, count(*), sum(xmin::text::bigint)::bigint
    FROM observations
    WHERE outcome = 'measured' AND quarantine_reason IS NULL {condition}
    GROUP BY comparison_key
    """
_ALL_MARKS = text(_MARKS.format(condition=""))
_SOME_MARKS = text(_MARKS.format(condition="AND comparison_key = ANY(:keys)"))


def series_marks(
    connection: Connection, keys: Collection[str] | None = None
) -> dict[str, SeriesMark]:
    """A mark of each series (comparison key); it changes with the measurements of the series.

    :param keys: only these series
    """
    if keys is None:
        rows = connection.execute(_ALL_MARKS)
    else:
        rows = connection.execute(_SOME_MARKS, {"keys": list(keys)})
    return {key: (number, transactions) for key, number, transactions in rows}


#: A transaction that adds inspections takes less time. Its documents have the time of its start.
_LONGEST_TRANSACTION = timedelta(hours=1)
_PROGRESS = text(
    """
    SELECT
        pg_snapshot_xmin(pg_current_snapshot())::text AS transaction,
        (SELECT max(ingested_at) FROM documents WHERE kind = 'inspection') AS ingested_at
    """
)
# Rows have 32-bit transaction IDs, whose ages can be compared even after a wraparound.
_NEW_INSPECTIONS = text(
    """
    SELECT document_id FROM documents
    WHERE kind = 'inspection' AND ingested_at >= :ingested_at
        AND age(xmin) <= age(
            CAST(CAST(CAST(:transaction AS bigint) % 4294967296 AS text) AS xid)
        )
    """
)
_QUARANTINED = text(
    """
    SELECT comparison_key, count(*), sum(xmin::text::bigint)::bigint FROM observations
    WHERE quarantine_reason IS NOT NULL GROUP BY comparison_key
    """
)


@dataclass(frozen=True, slots=True)
class SeriesProgress:
    """Up to where the series of the record were read; see :func:`changed_series`.

    :param transaction: the oldest transaction that had not ended
    :param ingested_at: when the newest inspection was stored
    :param quarantined: a mark of the excluded measurements of each series
    """

    transaction: str
    ingested_at: datetime | None
    quarantined: Mapping[str, SeriesMark]


def series_progress(connection: Connection) -> SeriesProgress:
    """The progress of a reader that reads the series after this call."""
    row = connection.execute(_PROGRESS).one()
    quarantined = {key: (number, sum_) for key, number, sum_ in connection.execute(_QUARANTINED)}
    return SeriesProgress(row.transaction, row.ingested_at, quarantined)


def changed_series(
    connection: Connection, since: SeriesProgress, now: SeriesProgress
) -> set[str] | None:
    """The comparison keys of series that may have changed; ``None`` if any may have changed.

    Measurements are added with their inspection; later, only the reason for exclusion changes. The
    time grows with the inspections of the last hour and the excluded measurements.

    :param since: the progress when the series were read
    :param now: of :func:`series_progress`, before the series are read again
    """
    if since.ingested_at is None:
        return None
    values = {
        "ingested_at": since.ingested_at - _LONGEST_TRANSACTION,
        "transaction": since.transaction,
    }
    documents = connection.scalars(_NEW_INSPECTIONS, values).all()
    query = select(ObservationRow.comparison_key).where(
        ObservationRow.document_id == any_(texts(documents))
    )
    before = since.quarantined
    keys = before.keys() | now.quarantined
    return {key for key in keys if before.get(key) != now.quarantined.get(key)}.union(
        connection.scalars(query.distinct()) if documents else ()
    )


def ran(indicator: str | None) -> list[ColumnElement[bool]]:
    """Conditions of observations of the indicator with this name; all for ``None``."""
    if indicator is None:
        return []
    named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == indicator)
    return [ObservationRow.indicator_id.in_(named)]


def measured_observations(
    connection: Connection,
    *,
    indicator: str | None = None,
    hardware: str | None = None,
    keys: Collection[str] | None = None,
) -> Iterator[MeasuredObservation]:
    """All comparable measurements, streamed and sorted by series.

    Crashes and quarantined observations are left out; unstable jobs are marked.

    :param indicator: name of an indicator
    :param hardware: prefix of digests of hardware classes
    :param keys: only these comparison keys
    """
    conditions = matching({IndicatorRow.name: indicator})
    if hardware is not None:
        conditions.append(ObservationRow.hardware_digest.startswith(hardware, autoescape=True))
    if keys is not None:
        conditions.append(ObservationRow.comparison_key == any_(texts(keys)))
    for _, observation in measured_rows(connection, conditions):
        yield observation


def measured_rows(
    connection: Connection, conditions: Iterable[ColumnElement[bool]], *columns: ColumnElement[Any]
) -> Iterator[tuple[Row[Any], MeasuredObservation]]:
    """Rows of :func:`measured` that meet conditions, with further columns, sorted by series."""
    conditions = list(conditions)
    packages = _packages_of(connection, conditions)
    components: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
    query = (
        measurements_query()
        .add_columns(IndicatorRow.component, HardwareRow.label.label("hardware_label"), *columns)
        .join(HardwareRow, HardwareRow.digest == ObservationRow.hardware_digest)
        .where(*conditions)
        .order_by(
            ObservationRow.comparison_key,
            RuntimeEnvironmentRow.python_version,
            ObservationRow.observation_id,
        )
    )
    apart = labels_apart(connection)
    numbers: dict[tuple[str, str | None], int] = {}
    # Kept once, because its parameters take more memory than a reading.
    known: dict[tuple[str, str | None, str], Series] = {}
    for row in connection.execution_options(yield_per=1000).execute(query):
        identity = row.comparison_key, row.python_version, row.unit
        if (series := known.get(identity)) is None:
            series = known[identity] = series_of(row)
        number = numbers.setdefault((series.comparison_key, series.python_version), len(numbers))
        installed = packages.get(row.stack_digest, ())
        if (measured_of := (row.stack_digest, row.component)) not in components:
            versions = {it.name: it.version for it in installed}
            components[measured_of] = installed_component(row.component, versions)
        component, version = components[measured_of]
        yield (
            row,
            MeasuredObservation(
                series=series,
                reading=reading_of(row, number, row.stack_digest or UNKNOWN_STACK),
                hardware_label=intern(apart.get(row.hardware_digest, row.hardware_label)),
                component=component,
                component_version=version,
                packages=installed,
            ),
        )


def _packages_of(
    connection: Connection, conditions: Sequence[ColumnElement[bool]]
) -> dict[str, tuple[PackageVersion, ...]]:
    """The packages of the stacks with observations that meet conditions, by stack digest."""
    stacks = select(InspectionRow.stack_digest)
    if conditions:
        stacks = (
            stacks.join(ObservationRow, ObservationRow.document_id == InspectionRow.document_id)
            .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
            .where(*conditions)
        )
    rows = connection.execute(
        select(StackPackage.stack_digest, func.array_agg(StackPackage.purl))
        .where(StackPackage.stack_digest.in_(stacks))
        .group_by(StackPackage.stack_digest)
    )
    return {
        stack: tuple(package_version_of(Purl(it)) for it in sorted(purls)) for stack, purls in rows
    }


def installed_component(
    library: str | None, installed: dict[str, str]
) -> tuple[str | None, str | None]:
    """The installed package that provides a library, with its version."""
    for package in distributions_of(library):
        if package in installed:
            return package, installed[package]
    return library, None


def components_of(
    connection: Connection, digests: Iterable[str]
) -> dict[str, tuple[str | None, str | None]]:
    """The package that a stack was inspected for, with its version, by digest; three queries.

    The first inspection of a stack decides. Stacks without inspections are left out.
    """
    wanted = any_(texts(digests))
    first = (
        select(InspectionRow.stack_digest, func.min(InspectionRow.document_id).label("document_id"))
        .where(InspectionRow.stack_digest == wanted)
        .group_by(InspectionRow.stack_digest)
        .subquery()
    )
    libraries = connection.execute(
        select(first.c.stack_digest, func.min(IndicatorRow.component))
        .join(ObservationRow, ObservationRow.document_id == first.c.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
        .group_by(first.c.stack_digest)
    ).all()
    releases = measured_releases(connection, StackPackage.stack_digest == wanted)
    return {
        digest: installed_component(library, releases.get(digest, {}))
        for digest, library in libraries
    }


def measured_releases(
    connection: Connection, condition: ColumnElement[bool]
) -> dict[str, dict[str, str]]:
    """For each stack digest, the versions of measured libraries by package name.

    :param condition: selects the stacks
    """
    components = connection.scalars(select(IndicatorRow.component).distinct())
    names = {package for it in components for package in distributions_of(it)}
    rows = connection.execute(
        select(StackPackage.stack_digest, PackageVersionRow.name, PackageVersionRow.version)
        .join(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
        .where(PackageVersionRow.name == any_(texts(names)), condition)
    )
    releases: dict[str, dict[str, str]] = defaultdict(dict)
    for stack, name, version in rows:
        releases[stack][name] = version
    return releases
