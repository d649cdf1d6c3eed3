"""The hardware classes that something was recorded on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from graph.tables import HardwareRow


@dataclass(frozen=True, slots=True)
class RecordedHardware:
    """A hardware class; ``identity`` is what its digest is made of."""

    digest: str
    label: str
    identity: dict[str, Any]


def recorded_hardware(connection: Connection) -> list[RecordedHardware]:
    """All of them, by digest."""
    query = select(HardwareRow.digest, HardwareRow.label, HardwareRow.identity)
    return [
        RecordedHardware(*row) for row in connection.execute(query.order_by(HardwareRow.digest))
    ]
