"""Deletes old rows: requests with their advice and documents, audit log entries, and events."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import Connection, any_, delete, exists, func, literal, select

from graph.record.advice import ADVICE_DOCUMENTS, forget_claims, forget_requests
from graph.record.bulk import add_entries
from graph.record.documents import delete_documents
from graph.record.postgresql_helpers import texts
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    AnalysisRow,
    AuditRow,
    Base,
    Document,
    EventRow,
    NoticeRow,
)

#: All columns of all tables that refer to a document.
_REFERENCES = [
    column
    for table in Base.metadata.sorted_tables
    for column in table.columns
    for key in column.foreign_keys
    if key.target_fullname == "documents.document_id"
]


def forget_analyses(connection: Connection, older_than: timedelta, limit: int) -> int:
    """Delete requests that finished more than ``older_than`` ago; the caller owns the transaction.

    The logs and the advice of these requests, and documents without other references, are deleted,
    too. Advice from commands has no request and is kept. A report is kept if it was the first to
    contain a stack or claim that still exists.

    :param limit: largest number of requests
    :returns: number of deleted requests; afterwards, call
        :func:`graph.record.documents.delete_unreferenced_bodies`
    """
    oldest = (
        select(AnalysisRow.analysis_id)
        .where(AnalysisRow.finished_at < func.clock_timestamp() - literal(older_than))
        .order_by(AnalysisRow.finished_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(
        delete(AnalysisRow)
        .where(AnalysisRow.analysis_id.in_(oldest))
        .returning(
            AnalysisRow.analysis_id, AnalysisRow.request_document_id, AnalysisRow.result_document_id
        )
    ).all()
    if not rows:
        return 0
    documents = {it for row in rows for it in row[1:] if it is not None}
    documents |= _forget_advice(connection, [row.analysis_id for row in rows])
    _forget_unreferenced(connection, sorted(documents))
    return len(rows)


def forget_writes(connection: Connection, older_than: timedelta, limit: int) -> int:
    """Delete entries of the audit log that are older than ``older_than``, oldest first.

    :param limit: largest number of entries
    :returns: number of deleted entries
    """
    oldest = (
        select(AuditRow.entry_id)
        .where(AuditRow.at < func.clock_timestamp() - literal(older_than))
        .order_by(AuditRow.at)
        .limit(limit)
    )
    deleted = connection.execute(delete(AuditRow).where(AuditRow.entry_id.in_(oldest)))
    return int(deleted.rowcount)


def forget_events(connection: Connection, older_than: timedelta, limit: int) -> int:
    """Delete events that are older than ``older_than``, oldest first, with all their notices.

    :param limit: largest number of events
    :returns: number of deleted events
    """
    oldest = (
        select(EventRow.event_id)
        .where(EventRow.at < func.clock_timestamp() - literal(older_than))
        .order_by(EventRow.event_id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    events = list(connection.scalars(oldest))
    connection.execute(delete(NoticeRow).where(NoticeRow.event_id.in_(events)))
    deleted = connection.execute(delete(EventRow).where(EventRow.event_id.in_(events)))
    return int(deleted.rowcount)


def _forget_advice(connection: Connection, requests: Sequence[str]) -> set[str]:
    """Delete the advice of requests, with the claims and request rows that no other advice uses.

    Outbox entries are written as well.

    :returns: the documents that the advice referred to
    """
    wanted = any_(texts(requests))
    for model in (AdvisedStack, AdviceObservation):
        connection.execute(delete(model).where(model.advice_id == wanted))
    links = delete(AdviceClaim).where(AdviceClaim.advice_id == wanted)
    claims = set(connection.scalars(links.returning(AdviceClaim.claim_id)))
    query = delete(AdviceRow).where(AdviceRow.advice_id == wanted)
    rows = connection.execute(query.returning(AdviceRow.advice_id, *ADVICE_DOCUMENTS)).all()
    reports = forget_claims(connection, claims)
    entries = {
        "claim": reports,
        "request": forget_requests(connection, {row.request_document_id for row in rows}),
        "advice": [row.advice_id for row in rows],
    }
    add_entries(connection, entries)
    return {it for row in rows for it in row[1:]} | set(reports.values())


def _forget_unreferenced(connection: Connection, documents: Iterable[str]) -> None:
    """Delete the documents that nothing refers to.

    Another transaction that stores equal content either already holds the lock on the row, or waits
    until the row is deleted.
    """
    unreferenced = (
        select(Document.document_id)
        .where(
            Document.document_id == any_(texts(documents)),
            *(~exists().where(column == Document.document_id) for column in _REFERENCES),
        )
        .with_for_update(skip_locked=True)
    )
    delete_documents(connection, Document.document_id.in_(unreferenced))
