"""Reads jobs with their raw repetitions, and lists the series that can be reported."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from sqlalchemy import ColumnElement, Connection, Integer, Select, any_, cast, func, or_, select

from graph.record.hardware import labels_apart
from graph.record.measurements import measured_rows, minor, ran
from graph.record.postgresql_helpers import matching, texts
from graph.tables import (
    MEASURED,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)
from model.measurements.evidence import JobSamples, MissingMeasurement, SeriesSettings


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

    The time grows with the measurements of these series, not with those of the record.

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
    """The comparison keys of rows that meet conditions, in order, each a step in the index."""
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
            or_(InspectionRow.name == name, identifier.startswith(name, autoescape=True)),
            *MEASURED,
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
