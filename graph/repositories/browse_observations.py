"""What single jobs were seen to do, page by page, and what two stacks have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select

from graph.tables import (
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
    StackPackage,
)


@dataclass(frozen=True, slots=True)
class RecordedObservation:
    """What one job was seen to do, once; durations in s, rates in ``unit``, memory in bytes.

    :param elapsed_s: of one call of what is measured
    :param rate: ``None`` unless the outcome is ``measured``
    :param repetitions_s: of each repetition, in the order in which they ran
    :param unstable_reason: why it does not count in comparisons
    :param quarantine_reason: why nothing may be compared with it
    """

    observation_id: str
    document_id: str
    job_id: str
    outcome: str
    exit_code: int
    indicator: str
    component: str | None
    script_sha256: str | None
    stack_digest: str | None
    hardware_digest: str
    python_version: str | None
    comparison_key: str
    parameters: dict[str, Any]
    device: str | None
    elapsed_s: float | None
    rate: float | None
    unit: str | None
    repetitions_s: list[float]
    correction: str | None
    quarantine_reason: str | None
    unstable_reason: str | None
    failure_reason: str | None
    failure_message: str | None
    host: str | None
    block: str | None
    turn: int | None
    started_at: datetime | None
    ended_at: datetime | None
    memory_bytes: int | None
    user_s: float | None
    system_s: float | None


@dataclass(frozen=True, slots=True)
class ObservationFilter:
    """Which observations are asked for; ``None`` for any.

    :param package: in the stack that was tried, in ``version`` if that is given
    :param inspection: identifier of its document
    """

    indicator: str | None = None
    hardware: str | None = None
    stack: str | None = None
    package: str | None = None
    version: str | None = None
    outcome: str | None = None
    inspection: str | None = None
    comparison_key: str | None = None


def browse_observations(
    connection: Connection, wanted: ObservationFilter, *, after: str | None = None, limit: int
) -> list[RecordedObservation]:
    """Observations in the order of their identifiers."""
    row, job = ObservationRow, InspectionRow
    query = _observations()
    for column, value in (
        (row.hardware_digest, wanted.hardware),
        (job.stack_digest, wanted.stack),
        (row.outcome, wanted.outcome),
        (row.document_id, wanted.inspection),
        (row.comparison_key, wanted.comparison_key),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.indicator is not None:
        named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == wanted.indicator)
        query = query.where(row.indicator_id.in_(named))
    if wanted.package is not None:
        release = PackageVersionRow
        holding = select(StackPackage.stack_digest).join(release, release.purl == StackPackage.purl)
        holding = holding.where(release.name == wanted.package)
        if wanted.version is not None:
            holding = holding.where(release.version == wanted.version)
        query = query.where(job.stack_digest.in_(holding))
    if after is not None:
        query = query.where(row.observation_id > after)
    rows = connection.execute(query.order_by(row.observation_id).limit(limit))
    return [RecordedObservation(*it) for it in rows]


def observation_named(connection: Connection, observation_id: str) -> RecordedObservation | None:
    """An observation by its identifier, or ``None``."""
    query = _observations().where(ObservationRow.observation_id == observation_id)
    found = connection.execute(query).one_or_none()
    return None if found is None else RecordedObservation(*found)


def common_keys(
    connection: Connection,
    stacks: tuple[str, str],
    *,
    indicator: str | None = None,
    hardware: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[str]:
    """The comparison keys that both stacks were measured with, in order.

    :param stacks: their digests
    """
    row, job = ObservationRow, InspectionRow
    one, other = (
        select(row.comparison_key)
        .join(job, job.document_id == row.document_id)
        .where(
            job.stack_digest == stack,
            row.outcome == "measured",
            row.quarantine_reason.is_(None),
        )
        for stack in stacks
    )
    if indicator is not None:
        named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == indicator)
        one = one.where(row.indicator_id.in_(named))
    if hardware is not None:
        one = one.where(row.hardware_digest == hardware)
    if after is not None:
        one = one.where(row.comparison_key > after)
    query = one.where(row.comparison_key.in_(other)).distinct().order_by(row.comparison_key)
    return list(connection.scalars(query.limit(limit)))


def _observations() -> Select[*tuple[Any, ...]]:
    row, job, script, place = ObservationRow, InspectionRow, IndicatorRow, RuntimeEnvironmentRow
    return (
        select(
            row.observation_id, row.document_id, row.job_id, row.outcome, row.exit_code,
            script.name, script.component, script.script_sha256, job.stack_digest,
            row.hardware_digest, place.python_version, row.comparison_key, row.parameters,
            row.device, row.elapsed_s, row.rate, row.unit, row.repetitions_s, row.correction,
            row.quarantine_reason, row.unstable_reason, row.failure_reason, row.failure_message,
            row.host, row.block, row.turn, row.started_at, row.ended_at, row.memory_bytes,
            row.user_s, row.system_s,
        )
        .join(job, job.document_id == row.document_id)
        .join(script, script.indicator_id == row.indicator_id)
        .join(place, place.digest == row.environment_digest)
    )  # fmt: skip
