"""Who wrote what through the service: one row a write."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import Connection, insert, select

from graph.tables import AuditRow


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A write that a request caused.

    :param address: of the client
    :param route: the pattern of the URL, without its values
    :param status: of the answer
    :param subject: identifier of what was made or changed
    """

    request_id: str
    token_id: str | None
    address: str
    method: str
    route: str
    status: int
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuditEntry(AuditEntry):
    """A write as it was noted.

    :param at: when
    """

    at: datetime


def add_write(connection: Connection, write: AuditEntry) -> None:
    """Note a write; the caller owns the transaction."""
    values = {it.name: getattr(write, it.name) for it in fields(write)}
    connection.execute(insert(AuditRow).values(**values))


def latest_writes(connection: Connection, limit: int = 100) -> list[StoredAuditEntry]:
    """What was written last, newest first."""
    query = (
        select(*(getattr(AuditRow, it.name) for it in fields(StoredAuditEntry)))
        .order_by(AuditRow.entry_id.desc())
        .limit(limit)
    )
    return [StoredAuditEntry(**row._mapping) for row in connection.execute(query)]
