"""The audit log: one row for each write through the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import Connection, insert, select

from graph.tables import AuditRow


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A write that a request made.

    :param address: of the client
    :param route: URL pattern without values
    :param status: HTTP status of the response
    :param subject: identifier of the created or changed object
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
    """An entry of the audit log with its time."""

    at: datetime


def add_write(connection: Connection, write: AuditEntry) -> None:
    """Add an entry; the caller owns the transaction."""
    values = {it.name: getattr(write, it.name) for it in fields(write)}
    connection.execute(insert(AuditRow).values(**values))


def latest_writes(connection: Connection, limit: int = 100) -> list[StoredAuditEntry]:
    """The latest entries, newest first."""
    query = (
        select(*(getattr(AuditRow, it.name) for it in fields(StoredAuditEntry)))
        .order_by(AuditRow.entry_id.desc())
        .limit(limit)
    )
    return [StoredAuditEntry(**row._mapping) for row in connection.execute(query)]


def writes_between(
    connection: Connection, since: datetime | None, until: datetime | None
) -> Iterator[StoredAuditEntry]:
    """All entries from ``since`` to before ``until``, oldest first, without keeping them."""
    query = (
        select(*(getattr(AuditRow, it.name) for it in fields(StoredAuditEntry)))
        .where(
            *([AuditRow.at >= since] if since else []), *([AuditRow.at < until] if until else [])
        )
        .order_by(AuditRow.at, AuditRow.entry_id)
        .execution_options(yield_per=2_000)
    )
    for row in connection.execute(query):
        yield StoredAuditEntry(**row._mapping)
