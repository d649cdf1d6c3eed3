"""Lists observations, and what was measured of packages and on hardware classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import Connection, Select, any_, func, select, text

from graph.record.measurements import installed_component, measured_releases, ran
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
from model.measurements.inspection import ObservationValues, Outcome
from model.packages.identity import version_key


@dataclass(frozen=True, slots=True)
class IndicatorCoverage:
    """What an indicator measured of one package on a hardware class."""

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
    """What was measured on a hardware class, by indicator and package; two queries.

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
    :param observations: maximum number of measurements of all of them; a series that would exceed
        it is left out
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
    """One result of one job, with names of what it refers to."""

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


#: Columns of other tables by name; the others are those of observations.
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
