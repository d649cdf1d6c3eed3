"""The hardware classes that something was recorded on."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from graph.evidence import (
    RecordedHardware,
)
from graph.tables import HardwareRow, ObservationRow


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
