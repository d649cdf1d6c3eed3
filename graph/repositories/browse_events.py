"""What changed in indexes, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from graph.tables import PackageEvent

#: Kinds of events, as they are stored.
KINDS = (
    "new_release", "removed", "yanked", "unyanked", "new_files", "changed_requirements",
    "changed_hash", "conflicting_hash", "emptied",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that changed in an index; the version is empty where it is of a project."""

    event_id: int
    kind: str
    index: str
    name: str
    version: str
    detail: dict[str, Any]
    occurred_at: datetime


def browse_events(
    connection: Connection,
    *,
    package: str | None = None,
    index: str | None = None,
    kind: str | None = None,
    after: int | None = None,
    limit: int,
) -> list[RecordedEvent]:
    """Events, the newest first; ``after`` is the identifier of the last one before."""
    row = PackageEvent
    query = select(
        row.event_id, row.kind, row.index_name, row.name, row.version, row.detail, row.occurred_at
    )
    for column, value in ((row.name, package), (row.index_name, index), (row.kind, kind)):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        query = query.where(row.event_id < after)
    rows = connection.execute(query.order_by(row.event_id.desc()).limit(limit))
    return [RecordedEvent(*it) for it in rows]
