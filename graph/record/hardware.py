"""The hardware classes that something was recorded on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from graph.evidence import (
    RecordedHardware,
)
from graph.tables import (
    HardwareRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)


def recorded_hardware(connection: Connection) -> list[RecordedHardware]:
    """All of them, by digest."""
    query = select(HardwareRow.digest, HardwareRow.label, HardwareRow.identity)
    return [
        RecordedHardware(*row) for row in connection.execute(query.order_by(HardwareRow.digest))
    ]


def jobs_on(connection: Connection) -> dict[str, int]:
    """How many measured jobs there are of each hardware class that has any."""
    table = ObservationRow
    query = (
        select(table.hardware_digest, func.count(table.job_id.distinct()).label("jobs"))
        .where(table.outcome == "measured", table.quarantine_reason.is_(None))
        .group_by(table.hardware_digest)
    )
    return {row.hardware_digest: row.jobs for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class KnownSystem:
    """An operating system and a Python that something was measured on."""

    os_name: str
    os_version: str
    python_version: str


def known_systems(connection: Connection) -> list[KnownSystem]:
    """Systems that inspections ran on, sorted; those that did not say are left out."""
    table = RuntimeEnvironmentRow
    columns = table.os_name, table.os_version, table.python_version
    query = select(*columns).where(*(it.is_not(None) for it in columns)).distinct()
    rows = connection.execute(query.order_by(*columns))
    return [KnownSystem(str(name), str(version), str(python)) for name, version, python in rows]


@dataclass(frozen=True, slots=True)
class HardwareHead:
    """A hardware class; ``identity`` is what its digest is made of."""

    digest: str
    label: str
    identity: dict[str, Any]
    document_id: str


def browse_hardware(
    connection: Connection, *, like: str | None = None, after: str | None = None, limit: int
) -> list[HardwareHead]:
    """Hardware classes by digest.

    :param like: part of a label, in any case
    """
    row = HardwareRow
    query = select(row.digest, row.label, row.identity, row.document_id)
    if like is not None:
        query = query.where(row.label.icontains(like, autoescape=True))
    if after is not None:
        query = query.where(row.digest > after)
    rows = connection.execute(query.order_by(row.digest).limit(limit))
    return [HardwareHead(*it) for it in rows]


def hardware_named(connection: Connection, digest: str) -> HardwareHead | None:
    """A hardware class by its digest, or ``None``."""
    row = HardwareRow
    found = connection.execute(
        select(row.digest, row.label, row.identity, row.document_id).where(row.digest == digest)
    ).one_or_none()
    return None if found is None else HardwareHead(*found)
