"""How far the record was compared with its documents, and what differed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, exists, func, select, update

from graph.repositories.quarantine import Refusal, add_refusals, resolve_sources
from graph.tables import Document, QuarantinedDocument, RecordCheckRow

#: Kind of the entries of the quarantine that are about stored documents.
KIND = "record"


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """How far the record was compared.

    :param position: the document that was compared last; empty at the start of a round
    :param complete_since: when the last round began that reached the end
    :param completed_at: when it did
    """

    position: str
    complete_since: datetime | None
    completed_at: datetime | None


def record_check(connection: Connection) -> RecordCheck:
    """How far the record was compared."""
    table = RecordCheckRow
    query = select(table.position, table.complete_since, table.completed_at)
    return RecordCheck(*connection.execute(query).one())


def document_count(connection: Connection, position: str) -> int:
    """How many documents come after ``position``."""
    query = select(func.count()).where(Document.document_id > position)
    return connection.scalar(query) or 0


def begin_round(connection: Connection) -> None:
    """Begin with the first document again."""
    values = {"position": "", "round_began_at": func.clock_timestamp()}
    connection.execute(update(RecordCheckRow).values(values))


def save_position(connection: Connection, position: str) -> None:
    """Remember the document that was compared last."""
    connection.execute(update(RecordCheckRow).values(position=position))


def end_round(connection: Connection) -> None:
    """Remember that a round reached the end; the next begins with the first document.

    What was found in documents that are deleted by now is taken off the list.
    """
    entry, table = QuarantinedDocument, RecordCheckRow
    stored = exists().where(Document.document_id == entry.source)
    gone = update(entry).where(entry.kind == KIND, entry.resolved_at.is_(None), ~stored)
    connection.execute(gone.values(resolved_at=func.now()))
    connection.execute(
        update(table).values(
            position="", complete_since=table.round_began_at, completed_at=func.clock_timestamp()
        )
    )


def save_refusals(
    connection: Connection, document_ids: Collection[str], refusals: Iterable[Refusal]
) -> None:
    """Keep what differs in some documents, and take off the list what does no more.

    The caller owns the transaction, in which nothing else is refused.

    :param document_ids: those that were compared
    :param refusals: their source is the identifier of the document
    """
    add_refusals(connection, refusals)
    # Entries that were written just now are of this moment, or later.
    began = connection.execute(select(func.now())).scalar_one()
    resolve_sources(connection, document_ids, began, KIND)
