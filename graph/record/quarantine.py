"""The quarantine: refused documents with their reasons, listed until they are resolved."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, any_, func, select, update
from sqlalchemy.dialects.postgresql import insert

from graph.record.postgresql_helpers import columns_for, storable, texts
from graph.tables import QuarantinedDocument


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    """Why a document was refused.

    :param place: position inside ``source``: a member of an archive, a key, or empty
    :param field: JSON path of the offending field, ``$`` for the whole document
    """

    kind: str
    source: str
    place: str
    reason: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class QuarantineEntry(QuarantineReason):
    """A stored reason with its history."""

    quarantine_id: int
    attempts: int
    first_seen_at: datetime
    last_seen_at: datetime


def add_refusals(connection: Connection, refusals: Iterable[QuarantineReason]) -> None:
    """Store each reason; if it is stored already, count another attempt."""
    entries = [
        {
            "kind": refusal.kind,
            "source": storable(refusal.source),
            "place": storable(refusal.place),
            "reason": str(refusal.reason),
            "field": storable(refusal.field),
            "message": storable(refusal.message),
        }
        for refusal in refusals
    ]
    # Unique, because one statement cannot change a row twice; sorted, to avoid deadlocks.
    rows = {(entry["source"], entry["place"], entry["field"]): entry for entry in entries}
    if not rows:
        return
    statement = insert(QuarantinedDocument).values([rows[key] for key in sorted(rows)])
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["source", "place", "field"],
            set_={
                "kind": statement.excluded.kind,
                "reason": statement.excluded.reason,
                "field": statement.excluded.field,
                "message": statement.excluded.message,
                "attempts": QuarantinedDocument.attempts + 1,
                "last_seen_at": func.clock_timestamp(),
                "resolved_at": None,
            },
        )
    )


def resolve_source(
    connection: Connection, source: str, since: datetime, kind: str | None = None
) -> int:
    """Resolve the entries of ``source`` that were not refused again after ``since``.

    Call this after the whole source was read. Documents that were not refused again have been
    repaired or removed.

    :param kind: resolves only entries of this kind of document, if no other kind was read
    :returns: number of resolved entries
    """
    return resolve_sources(connection, [storable(source)], since, kind)


def resolve_sources(
    connection: Connection, sources: Iterable[str], since: datetime, kind: str | None = None
) -> int:
    """Like :func:`resolve_source`, for several sources given by their stored names."""
    resolved = connection.execute(
        update(QuarantinedDocument)
        .where(
            QuarantinedDocument.resolved_at.is_(None),
            QuarantinedDocument.source == any_(texts(sources)),
            QuarantinedDocument.last_seen_at < since,
            *(() if kind is None else (QuarantinedDocument.kind == kind,)),
        )
        .values(resolved_at=func.now())
    )
    return resolved.rowcount


def open_refusals(connection: Connection) -> list[QuarantineEntry]:
    """Unresolved entries, oldest first."""
    table = QuarantinedDocument
    rows = connection.execute(
        select(*columns_for(QuarantineEntry, table))
        .where(table.resolved_at.is_(None))
        .order_by(table.quarantine_id)
    )
    return [QuarantineEntry(**row._mapping) for row in rows]


def count_refusals(connection: Connection) -> dict[str, int]:
    """Numbers of unresolved entries by reason, from an index."""
    table = QuarantinedDocument
    query = select(table.reason, func.count()).where(table.resolved_at.is_(None))
    rows = connection.execute(query.group_by(table.reason).order_by(table.reason))
    return {str(reason): int(number) for reason, number in rows}


def forget(connection: Connection, quarantine_ids: Iterable[int]) -> set[int]:
    """Resolve entries on request; return the identifiers of entries that were not yet resolved."""
    resolved = connection.scalars(
        update(QuarantinedDocument)
        .where(
            QuarantinedDocument.resolved_at.is_(None),
            QuarantinedDocument.quarantine_id.in_(list(quarantine_ids)),
        )
        .values(resolved_at=func.now())
        .returning(QuarantinedDocument.quarantine_id)
    )
    return set(resolved)
