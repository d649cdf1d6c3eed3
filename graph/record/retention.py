"""What is kept for a time only: requests with all that only they name, and who wrote what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import Connection, any_, delete, exists, func, literal, select

from graph.record.advice import forget_requests
from graph.record.claims import forget_claims
from graph.record.documents import forgotten
from graph.record.packages import add_entries
from graph.record.postgresql import texts
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    AnalysisRow,
    AuditRow,
    Base,
    Document,
)

#: Every column by which a row names a document, whatever table it is in.
_NAMING = [
    column
    for table in Base.metadata.sorted_tables
    for column in table.columns
    for key in column.foreign_keys
    if key.target_fullname == "documents.document_id"
]
_OF_ADVICE = (
    AdviceRow.request_document_id,
    AdviceRow.snapshot_document_id,
    AdviceRow.evidence_document_id,
    AdviceRow.files_document_id,
    AdviceRow.report_document_id,
)


def forget_analyses(
    connection: Connection, older_than: timedelta, limit: int
) -> tuple[int, list[str]]:
    """Delete requests that ended so long ago, the oldest first; the caller owns the transaction.

    With them go their logs, the advice that was given for them, and the documents that nothing
    else names. Advice without a request, as commands record it, stays. So does the report that
    first named a stack or a claim that is still there, which says where it is from.

    :param limit: of the requests
    :returns: how many were deleted, and documents whose bodies are to be deleted after the commit
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
        return 0, []
    named = {it for row in rows for it in row[1:] if it is not None}
    named |= _forget_advice(connection, [row.analysis_id for row in rows])
    return len(rows), _forget_unnamed(connection, sorted(named))


def forget_writes(
    connection: Connection, older_than: timedelta, limit: int
) -> tuple[int, list[str]]:
    """Delete entries of the audit log that are so old, the oldest first.

    :param limit: of the entries
    :returns: how many were deleted, and no document
    """
    oldest = (
        select(AuditRow.entry_id)
        .where(AuditRow.at < func.clock_timestamp() - literal(older_than))
        .order_by(AuditRow.at)
        .limit(limit)
    )
    found = connection.execute(delete(AuditRow).where(AuditRow.entry_id.in_(oldest)))
    return int(found.rowcount), []


def _forget_advice(connection: Connection, requests: Sequence[str]) -> set[str]:
    """Delete the advice of some requests with what only it names, and tell the graph.

    :returns: the documents that it named
    """
    wanted = any_(texts(requests))
    for model in (AdvisedStack, AdviceObservation):
        connection.execute(delete(model).where(model.advice_id == wanted))
    made = delete(AdviceClaim).where(AdviceClaim.advice_id == wanted)
    claims = set(connection.scalars(made.returning(AdviceClaim.claim_id)))
    query = delete(AdviceRow).where(AdviceRow.advice_id == wanted)
    rows = connection.execute(query.returning(AdviceRow.advice_id, *_OF_ADVICE)).all()
    reports = forget_claims(connection, claims)
    gone = {
        "claim": reports,
        "request": forget_requests(connection, {row.request_document_id for row in rows}),
        "advice": [row.advice_id for row in rows],
    }
    add_entries(connection, gone)
    return {it for row in rows for it in row[1:]} | set(reports.values())


def _forget_unnamed(connection: Connection, wanted: Iterable[str]) -> list[str]:
    """Delete those of some documents that nothing names; others are left alone.

    Who stores the same content at this moment has locked the row, or waits until it is gone.
    """
    unnamed = (
        select(Document.document_id)
        .where(
            Document.document_id == any_(texts(wanted)),
            *(~exists().where(column == Document.document_id) for column in _NAMING),
        )
        .with_for_update(skip_locked=True)
    )
    _, gone = forgotten(connection, Document.document_id.in_(unnamed))
    return gone
