"""Lists observations, their series and repetitions, and measurements by hardware class."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Annotated, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    any_,
    cast,
    func,
    or_,
    select,
    text,
)

from graph.record.hardware import labels_apart
from graph.record.measurements import (
    installed_component,
    measured_releases,
    measured_rows,
    minor,
    ran,
)
from graph.record.postgresql_helpers import columns_for, matching, texts
from graph.record.stacks import stacks_with
from graph.tables import (
    MEASURED,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
    StackPackage,
)
from model.declared_fields import (
    COMPARISON_KEY,
    COMPONENT,
    DIGEST,
    HARDWARE_DIGEST,
    HARDWARE_LABEL,
    INDICATOR,
    PYTHON_VERSION,
    SCRIPT,
    STACK_DIGEST,
    Field,
    public,
)
from model.measurements.evidence import JobSamples, MissingMeasurement, SeriesSettings
from model.measurements.inspection import ObservationValues, Outcome
from model.packages.identity import version_key


@dataclass(frozen=True, slots=True)
class IndicatorCoverage:
    """The measurements of one package by an indicator on a hardware class."""

    indicator: Annotated[str, INDICATOR]
    package: Annotated[str | None, Field("Package that it measures.", "numpy")]
    versions: Annotated[
        tuple[str, ...],
        Field("Measured versions of the package, newest first.", ["2.4.6", "2.3.5"]),
    ]
    stacks: Annotated[int, Field("Number of measured stacks.", 6)]
    measurements: Annotated[int, Field("Number of measurements.", 60)]
    measured_at: Annotated[datetime | None, Field("When the last of these jobs was made.")]


def coverage_of(connection: Connection, hardware: str) -> list[IndicatorCoverage]:
    """The measurements on a hardware class, by indicator and package; two queries.

    :param hardware: digest of the class
    """
    row, job = ObservationRow, InspectionRow
    at = func.max(func.coalesce(row.ended_at, row.started_at, job.created_at))
    counted = (
        select(row.indicator_id, job.stack_digest, func.count().label("number"), at.label("at"))
        .join(job, job.document_id == row.document_id)
        .where(row.hardware_digest == hardware, *MEASURED)
        .group_by(row.indicator_id, job.stack_digest)
        .subquery()
    )
    rows = connection.execute(
        select(IndicatorRow.name, IndicatorRow.component, counted)
        .join(counted, counted.c.indicator_id == IndicatorRow.indicator_id)
    ).all()  # fmt: skip
    stacks = {it.stack_digest for it in rows if it.stack_digest is not None}
    releases = measured_releases(connection, StackPackage.stack_digest == any_(texts(stacks)))
    alike = defaultdict(list)
    for measured_row in rows:
        installed = releases.get(measured_row.stack_digest, {})
        package, version = installed_component(measured_row.component, installed)
        alike[measured_row.name, package or ""].append((version, measured_row))
    return [
        IndicatorCoverage(
            indicator,
            package or None,
            tuple(sorted({it for it, _ in of_both if it}, key=version_key, reverse=True)),
            len({it.stack_digest for _, it in of_both}),
            sum(it.number for _, it in of_both),
            max((it.at for _, it in of_both if it.at is not None), default=None),
        )
        for (indicator, package), of_both in sorted(alike.items())
    ]


@dataclass(frozen=True, slots=True)
class MeasuredTotals:
    """How much was measured on all hardware together."""

    packages: Annotated[int, Field("Number of packages that indicators measured.", 3)]
    versions: Annotated[int, Field("Number of their measured versions.", 12)]
    stacks: Annotated[int, Field("Number of known stacks that were measured.", 12)]
    hardware: Annotated[int, Field("Number of hardware classes.", 1)]
    measurements: Annotated[int, Field("Number of measurements; a job may make several.", 200)]


def measured_totals(connection: Connection) -> MeasuredTotals:
    """How much was measured; two queries, whose time grows with the number of measurements."""
    row, job = ObservationRow, InspectionRow
    counted = (
        select(
            row.indicator_id, row.hardware_digest, job.stack_digest, func.count().label("number")
        )
        .join(job, job.document_id == row.document_id)
        .where(*MEASURED)
        .group_by(row.indicator_id, row.hardware_digest, job.stack_digest)
        .subquery()
    )
    rows = connection.execute(
        select(IndicatorRow.component, counted)
        .join(counted, counted.c.indicator_id == IndicatorRow.indicator_id)
    ).all()  # fmt: skip
    stacks = {it.stack_digest for it in rows if it.stack_digest is not None}
    releases = measured_releases(connection, StackPackage.stack_digest == any_(texts(stacks)))
    installed = {
        installed_component(it.component, releases.get(it.stack_digest, {})) for it in rows
    }
    return MeasuredTotals(
        packages=len({package for package, _ in installed if package is not None}),
        versions=sum(None not in release for release in installed),
        stacks=len(stacks),
        hardware=len({it.hardware_digest for it in rows}),
        measurements=sum(it.number for it in rows),
    )


_NEWEST_SERIES = text(
    """
    WITH newest AS (
        SELECT document_id, ingested_at FROM documents JOIN inspections USING (document_id)
        WHERE kind = 'inspection' ORDER BY ingested_at DESC, document_id DESC LIMIT 200
    ), series AS (
        SELECT comparison_key, max(ingested_at) AS ingested_at
        FROM observations JOIN newest USING (document_id)
        WHERE outcome = 'measured' AND quarantine_reason IS NULL
        GROUP BY comparison_key ORDER BY 2 DESC, 1 LIMIT :series
    )
    SELECT comparison_key, (
        SELECT count(*) FROM (
            SELECT FROM observations AS job
            WHERE job.comparison_key = series.comparison_key
            AND outcome = 'measured' AND quarantine_reason IS NULL LIMIT :observations + 1
        ) AS counted
    ) AS observations
    FROM series ORDER BY ingested_at DESC, comparison_key
    """
)


def newest_series(connection: Connection, series: int, observations: int) -> tuple[str, ...]:
    """Comparison keys of the series that were measured last, newest first.

    The time depends on the limits more than on the size of the record.

    :param series: maximum number of keys
    :param observations: maximum number of measurements of these series together; a series that
        would exceed it is left out
    """
    keys, left = [], observations
    limits = {"series": series, "observations": observations}
    for key, number in connection.execute(_NEWEST_SERIES, limits):
        if number <= left:
            keys.append(key)
            left -= number
    return tuple(keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedObservation(ObservationValues):
    """One result of one job, with names of the objects that it refers to."""

    document_id: Annotated[str, public("Digest of the inspection's document.", DIGEST)]
    indicator: Annotated[str, INDICATOR]
    component: Annotated[str | None, COMPONENT]
    script_sha256: Annotated[str | None, SCRIPT]
    stack_digest: Annotated[str | None, public("Digest of the stack; null if it is unknown.")]
    hardware_digest: Annotated[str, HARDWARE_DIGEST]
    hardware_label: Annotated[str, HARDWARE_LABEL]
    os_name: Annotated[str | None, public("Operating system.", "rhel")]
    os_version: Annotated[str | None, public("Version of the operating system.", "9")]
    python_version: Annotated[str | None, PYTHON_VERSION]
    cuda_version: Annotated[str | None, public("Version of CUDA.")]


#: Columns of joined tables by field; all other fields are columns of observations.
_JOINED: Mapping[str, Any] = {
    "indicator": IndicatorRow.name,
    "component": IndicatorRow.component,
    "script_sha256": IndicatorRow.script_sha256,
    "stack_digest": InspectionRow.stack_digest,
    "hardware_label": HardwareRow.label,
    "os_name": RuntimeEnvironmentRow.os_name,
    "os_version": RuntimeEnvironmentRow.os_version,
    "python_version": RuntimeEnvironmentRow.python_version,
    "cuda_version": RuntimeEnvironmentRow.cuda_version,
}


@dataclass(frozen=True, slots=True)
class ObservationFilter:
    """Filter for observations; a field that is ``None`` matches all observations."""

    indicator: Annotated[str | None, INDICATOR] = None
    hardware: Annotated[str | None, HARDWARE_DIGEST] = None
    stack: Annotated[str | None, STACK_DIGEST] = None
    package: Annotated[str | None, Field("Name of a package in the stack.", "numpy")] = None
    version: Annotated[str | None, Field("Version of that package, normalised.", "2.4.6")] = None
    outcome: Annotated[str | None, Field("Outcome of the job.", values=Outcome)] = None
    inspection: Annotated[str | None, Field("Digest of the inspection's document.", DIGEST)] = None
    comparison_key: Annotated[str | None, COMPARISON_KEY] = None


def browse_observations(
    connection: Connection, wanted: ObservationFilter, *, after: str | None = None, limit: int
) -> list[RecordedObservation]:
    """Observations in the order of their identifiers."""
    row, job = ObservationRow, InspectionRow
    values = {
        row.hardware_digest: wanted.hardware,
        job.stack_digest: wanted.stack,
        row.outcome: wanted.outcome,
        row.document_id: wanted.inspection,
        row.comparison_key: wanted.comparison_key,
    }
    query = select_observations().where(*matching(values), *ran(wanted.indicator))
    if wanted.package is not None:
        query = query.where(job.stack_digest.in_(stacks_with(wanted.package, wanted.version)))
    if after is not None:
        query = query.where(row.observation_id > after)
    rows = connection.execute(query.order_by(row.observation_id).limit(limit))
    return [RecordedObservation(**it) for it in rows.mappings()]


def observation_named(connection: Connection, observation_id: str) -> RecordedObservation | None:
    """An observation by its identifier, or ``None``."""
    query = select_observations().where(ObservationRow.observation_id == observation_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else RecordedObservation(**row)


def common_keys(
    connection: Connection,
    stacks: Sequence[str],
    *,
    indicator: str | None = None,
    hardware: str | None = None,
    after: str | None = None,
    limit: int | None,
) -> list[str]:
    """The comparison keys that have measurements of all these stacks, in order.

    :param stacks: digests, at least one
    """
    row, job = ObservationRow, InspectionRow
    query, *others = (
        select(row.comparison_key)
        .join(job, job.document_id == row.document_id)
        .where(job.stack_digest == stack, *MEASURED)
        for stack in stacks
    )
    query = query.where(
        *(row.comparison_key.in_(it) for it in others),
        *matching({row.hardware_digest: hardware}),
        *ran(indicator),
    )
    if after is not None:
        query = query.where(row.comparison_key > after)
    return list(connection.scalars(query.distinct().order_by(row.comparison_key).limit(limit)))


def select_observations() -> Select[*tuple[Any, ...]]:
    """The fields of :class:`RecordedObservation`."""
    columns = columns_for(RecordedObservation, ObservationRow, **_JOINED)
    return (
        select(*columns)
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
        .join(HardwareRow, HardwareRow.digest == ObservationRow.hardware_digest)
        .join(
            RuntimeEnvironmentRow, RuntimeEnvironmentRow.digest == ObservationRow.environment_digest
        )
    )


def job_samples(
    connection: Connection, keys: Sequence[str], *, inspections: Sequence[str] | None = None
) -> list[JobSamples]:
    """All comparable jobs of some series, with their repetitions.

    :param keys: comparison keys
    :param inspections: identifiers of documents; only their jobs
    """
    conditions = [ObservationRow.comparison_key == any_(texts(keys))]
    if inspections is not None:
        conditions.append(ObservationRow.document_id == any_(texts(inspections)))
    duration = func.extract("epoch", ObservationRow.ended_at - ObservationRow.started_at)
    rows = measured_rows(connection, conditions, duration.label("duration_s"))
    return [
        JobSamples(
            observation,
            tuple(row.repetitions_s),
            median(row.repetitions_s) if row.repetitions_s else row.elapsed_s,
            None if row.duration_s is None else float(row.duration_s),
        )
        for row, observation in rows
    ]


def missing_measurements(
    connection: Connection, keys: Sequence[str], *, inspections: Sequence[str] | None = None
) -> list[MissingMeasurement]:
    """Jobs of some series that crashed or are quarantined, counted by stack and reason."""
    row = ObservationRow
    reason = func.coalesce(row.quarantine_reason, row.failure_reason)
    counted = (row.comparison_key, InspectionRow.stack_digest, row.outcome, reason)
    query = (
        select(*counted, func.count())
        .join(InspectionRow, InspectionRow.document_id == row.document_id)
        .where(
            row.comparison_key == any_(texts(keys)),
            or_(row.outcome != "measured", row.quarantine_reason.is_not(None)),
        )
        .group_by(*counted)
        .order_by(*counted)
    )
    if inspections is not None:
        query = query.where(row.document_id == any_(texts(inspections)))
    return [MissingMeasurement(*it) for it in connection.execute(query)]


def browse_series(
    connection: Connection,
    *,
    keys: Sequence[str] | None = None,
    indicator: str | None = None,
    hardware: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[SeriesSettings]:
    """Measured series in the order of their comparison keys.

    The time grows with the measurements of these series, not with the size of the record.

    :param keys: only these comparison keys
    :param hardware: digest of a hardware class
    """
    own = ObservationRow
    conditions = [*MEASURED, *matching({own.hardware_digest: hardware}), *ran(indicator)]
    if keys is not None:
        conditions.append(own.comparison_key == any_(texts(keys)))
    if after is not None:
        conditions.append(own.comparison_key > after)
    if limit is not None:
        first = connection.scalars(_first_keys(conditions).limit(limit)).all()
        conditions = [*MEASURED, own.comparison_key == any_(texts(first))]
    # Rows of a key agree in all that it is computed from, so that one of them stands for all:
    # grouping by parameters and identities, or sorting all rows, would take much longer.
    parts = (
        select(
            own.comparison_key, own.unit, own.environment_digest, InspectionRow.stack_digest,
            func.min(own.observation_id).label("observation_id"),
            func.count().label("jobs"),
        )
        .join(InspectionRow, InspectionRow.document_id == own.document_id)
        .where(*conditions)
        .group_by(
            own.comparison_key, own.unit, own.environment_digest, InspectionRow.stack_digest
        )
    )  # fmt: skip
    part = parts.subquery().c
    counted = (
        select(
            part.comparison_key,
            func.min(part.observation_id).label("observation_id"),
            func.array_agg(func.distinct(RuntimeEnvironmentRow.python_version)).label("pythons"),
            cast(func.sum(part.jobs), Integer).label("jobs"),
            func.count(func.distinct(part.stack_digest)).label("stacks"),
        )
        .join(RuntimeEnvironmentRow, RuntimeEnvironmentRow.digest == part.environment_digest)
        .group_by(part.comparison_key, part.unit)
        .order_by(part.comparison_key)
        .limit(limit)
    )
    groups = counted.subquery()
    query = (
        select(
            own.comparison_key, IndicatorRow.name, IndicatorRow.component,
            IndicatorRow.script_sha256, own.parameters, own.device, own.unit,
            own.hardware_digest, HardwareRow.label, HardwareRow.identity,
            groups.c.pythons, groups.c.jobs, groups.c.stacks,
        )
        .join(groups, groups.c.observation_id == own.observation_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == own.indicator_id)
        .join(HardwareRow, HardwareRow.digest == own.hardware_digest)
        .order_by(own.comparison_key)
    )  # fmt: skip
    rows = connection.execute(query)
    apart = labels_apart(connection)
    return [
        SeriesSettings(*(*row[:8], apart.get(row[7], row[8]), row[9], _minors(row[10]), *row[11:]))
        for row in rows
    ]


def _first_keys(conditions: Sequence[ColumnElement[bool]]) -> Select[str]:
    """The comparison keys of rows that meet conditions, in order; each takes one index lookup."""
    key = ObservationRow.comparison_key
    keys = select(func.min(key).label("key")).where(*conditions).cte("keys", recursive=True)
    following = select(func.min(key)).where(*conditions, key > keys.c.key).scalar_subquery()
    keys = keys.union_all(select(following).where(keys.c.key.is_not(None)))
    return select(keys.c.key).where(keys.c.key.is_not(None))


def keys_starting(connection: Connection, prefix: str) -> list[str]:
    """The comparison keys of measurements that start with a prefix, sorted."""
    key = ObservationRow.comparison_key
    query = select(key).where(key.startswith(prefix, autoescape=True), *MEASURED)
    return list(connection.scalars(query.distinct().order_by(key)))


def inspections_named(connection: Connection, name: str) -> dict[str, list[str]]:
    """The inspections with this name or this start of their identifier, and their series.

    :returns: comparison keys by identifier, sorted
    """
    identifier, key = InspectionRow.document_id, ObservationRow.comparison_key
    query = (
        select(identifier, key)
        .join(ObservationRow, ObservationRow.document_id == identifier)
        .where(
            or_(InspectionRow.name == name, identifier.startswith(name, autoescape=True)), *MEASURED
        )
    )
    keys: dict[str, list[str]] = {}
    for document_id, comparison_key in connection.execute(
        query.distinct().order_by(identifier, key)
    ):
        keys.setdefault(document_id, []).append(comparison_key)
    return keys


def _minors(versions: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(sorted({short for it in versions if (short := minor(it))}))
