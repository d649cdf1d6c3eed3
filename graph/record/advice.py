"""Stores advice with its documents and links, and lists it for the API."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from sqlalchemy import Connection, Select, any_, delete, exists, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from common.settings import Settings
from graph.record.affected_versions import share_advisories
from graph.record.analyses import requested_by
from graph.record.bulk import add_entries
from graph.record.claims import add_claims
from graph.record.documents import DeliveredDocument, add_documents, body_of
from graph.record.postgresql_helpers import columns_for, first_as, matching, texts
from graph.record.stacks import add_stacks
from graph.tables import (
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    Document,
    ObservationRow,
    PackageVersionRow,
    RequestRow,
)
from model.advice import AdviceHead, AdviceLinks, AdviceRequestSummary, StoredAdvice
from model.declared_fields import DIGEST, STACK_DIGEST, Field
from model.json_documents import digest_bytes

#: Kinds of the documents of an advice; each column's name starts with the last word of the kind.
_KINDS = ("advice-request", "snapshot", "evidence", "advice-files", "report")
#: The columns with these documents, in the same order.
ADVICE_DOCUMENTS = (
    AdviceRow.request_document_id,
    AdviceRow.snapshot_document_id,
    AdviceRow.evidence_document_id,
    AdviceRow.files_document_id,
    AdviceRow.report_document_id,
)


def add_advice(
    connection: Connection, settings: Settings, advice: StoredAdvice, links: AdviceLinks
) -> bool:
    """Store an advice once, with its outbox entries; the caller owns the transaction.

    :returns: ``False`` if the identifier exists; then nothing is stored
    :raises StoreUnavailable: if a large document cannot be written to the document store
    """
    head = advice.head
    taken = select(AdviceRow.advice_id).where(AdviceRow.advice_id == head.advice_id)
    if connection.scalar(taken) is not None:
        return False
    _expect_versions(connection, links)
    documents = list(_documents(advice))
    add_documents(connection, settings, documents)
    statement = (
        insert(AdviceRow)
        .values(
            **asdict(head),
            **{f"{it.kind.rpartition('-')[2]}_document_id": it.document_id for it in documents},
        )
        .on_conflict_do_nothing()
        .returning(AdviceRow.advice_id)
    )
    if connection.scalar(statement) is None:
        return False
    report = documents[-1].document_id
    new = add_stacks(connection, ((it.stack, report) for it in links.stacks))
    _add_links(connection, head.advice_id, links)
    add_claims(connection, head.advice_id, report, links.claims)
    _add_request(connection, documents[0].document_id, head, links.request)
    add_entries(connection, {"stack": new, "advice": [head.advice_id]})
    return True


def forget_requests(connection: Connection, document_ids: Collection[str]) -> list[str]:
    """Delete the requests among ``document_ids`` that no longer have any advice.

    :returns: identifiers of the deleted requests
    """
    unanswered = (
        select(RequestRow.document_id)
        .where(
            RequestRow.document_id == any_(texts(document_ids)),
            ~exists().where(AdviceRow.request_document_id == RequestRow.document_id),
        )
        # A transaction that is about to answer a request has locked it.
        .with_for_update(skip_locked=True)
    )
    deleted = list(connection.scalars(unanswered))
    connection.execute(delete(RequestRow).where(RequestRow.document_id == any_(texts(deleted))))
    return deleted


def advice_of(connection: Connection, settings: Settings, advice_id: str) -> StoredAdvice | None:
    """An advice by its identifier, or ``None``.

    :raises StoreUnavailable: if a document store cannot be read
    """
    head = advice_named(connection, advice_id)
    if head is None:
        return None
    query = select(Document.schema_version, *ADVICE_DOCUMENTS)
    version, *documents = connection.execute(
        query.join(Document, Document.document_id == AdviceRow.report_document_id)
        .where(AdviceRow.advice_id == advice_id)
    ).one()  # fmt: skip
    bodies = (body_of(connection, settings, it) or b"" for it in documents)
    return StoredAdvice(head, version, *bodies)


def report_document_of(connection: Connection, advice_id: str) -> str | None:
    """Identifier of the report document of an advice, or ``None``."""
    query = select(AdviceRow.report_document_id).where(AdviceRow.advice_id == advice_id)
    return connection.scalar(query)


def _expect_versions(connection: Connection, links: AdviceLinks) -> None:
    """Take the lock for new versions before the first write, if any version is new.

    Recommended versions come from the record, so usually no version is new. A long import of
    advisories then does not block storing the advice.
    """
    purls = {package.purl for it in links.stacks for package in it.stack.packages}
    known = select(PackageVersionRow.purl).where(PackageVersionRow.purl == any_(texts(purls)))
    if purls.difference(connection.scalars(known)):
        share_advisories(connection)


def _add_links(connection: Connection, advice_id: str, links: AdviceLinks) -> None:
    if links.stacks:
        rows = [
            {"advice_id": advice_id, "rank": rank, "stack_digest": it.stack.digest,
             "score": it.score}
            for rank, it in enumerate(links.stacks, 1)
        ]  # fmt: skip
        connection.execute(insert(AdvisedStack), rows)
    if links.evidence:
        observed = select(literal(advice_id), ObservationRow.observation_id).where(
            ObservationRow.observation_id == any_(texts(links.evidence))
        )
        columns = ["advice_id", "observation_id"]
        connection.execute(insert(AdviceObservation).from_select(columns, observed))


def _add_request(
    connection: Connection,
    document_id: str,
    head: AdviceHead,
    request: AdviceRequestSummary | None,
) -> None:
    """Store a request once, however often it is repeated."""
    if request is None:
        return
    known = select(RequestRow.document_id).where(RequestRow.document_id == document_id)
    # Locked: an existing request must not be deleted before this advice is committed.
    if connection.scalar(known.with_for_update(read=True)) is None:
        row = request_row(document_id, head, request)
        connection.execute(insert(RequestRow).values(row).on_conflict_do_nothing())


def request_row(
    document_id: str, head: AdviceHead, request: AdviceRequestSummary
) -> dict[str, Any]:
    """The column values of a request's row."""
    return {
        "document_id": document_id,
        "recommendation_type": head.recommendation_type,
        "python_version": head.python_version,
        "platform": head.platform,
        "hardware_digest": request.hardware_digest,
        "requirements": sorted(set(request.requirements)),
        "packages": sorted(set(request.packages)),
        "stack_count": request.stack_count,
    }


def _documents(advice: StoredAdvice) -> Iterator[DeliveredDocument]:
    for kind, body in zip(_KINDS, advice.bodies, strict=True):
        source, version = advice.head.advice_id, advice.schema_version
        yield DeliveredDocument(digest_bytes(body), kind, version, source, body)


@dataclass(frozen=True, slots=True)
class AdvisedStackHead:
    """A recommended stack; rank 1 is the best, the score is in points."""

    rank: Annotated[int, Field("Position; the best stack has rank 1.", 1)]
    stack_digest: Annotated[str, STACK_DIGEST]
    score: Annotated[float, Field("Score in points.", 812.5)]


@dataclass(frozen=True, slots=True)
class AdviceFilter:
    """Filter for advice; a field that is ``None`` matches all advice.

    :param token_id: token of the request
    """

    recommendation_type: str | None = None
    status: str | None = None
    python_version: Annotated[
        str | None, Field("Python version of the requested environment.", "3.11")
    ] = None
    platform: Annotated[
        str | None,
        Field("Platform of the requested environment, as a wheel tag.", "manylinux_2_28_x86_64"),
    ] = None
    stack: Annotated[str | None, Field("Digest of a recommended stack.", DIGEST)] = None
    token_id: str | None = None


def browse_advice(
    connection: Connection,
    wanted: AdviceFilter,
    *,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[AdviceHead]:
    """Advice, newest first.

    :param after: time and identifier of the last advice on the previous page
    """
    row = AdviceRow
    values = {
        row.recommendation_type: wanted.recommendation_type,
        row.status: wanted.status,
        row.python_version: wanted.python_version,
        row.platform: wanted.platform,
    }
    query = _advice().where(*matching(values))
    if wanted.stack is not None:
        advised = select(AdvisedStack.advice_id).where(AdvisedStack.stack_digest == wanted.stack)
        query = query.where(row.advice_id.in_(advised))
    if wanted.token_id is not None:
        query = query.where(row.advice_id.in_(requested_by(wanted.token_id)))
    if after is not None:
        query = query.where(tuple_(row.created_at, row.advice_id) < tuple_(*after))
    order = row.created_at.desc(), row.advice_id.desc()
    return [AdviceHead(*it) for it in connection.execute(query.order_by(*order).limit(limit))]


def advice_named(connection: Connection, advice_id: str) -> AdviceHead | None:
    """An advice with the fields that are shown in lists; ``None`` if there is no such advice."""
    return first_as(connection, _advice().where(AdviceRow.advice_id == advice_id), AdviceHead)


def stacks_of(connection: Connection, advice_id: str) -> list[AdvisedStackHead]:
    """The recommended stacks of an advice, best first; may be empty."""
    row = AdvisedStack
    rows = connection.execute(
        select(row.rank, row.stack_digest, row.score)
        .where(row.advice_id == advice_id)
        .order_by(row.rank)
    )
    return [AdvisedStackHead(*it) for it in rows]


def evidence_count(connection: Connection, advice_id: str) -> int:
    """Number of observations that an advice is based on."""
    query = select(func.count()).where(AdviceObservation.advice_id == advice_id)
    return connection.scalar(query) or 0


def recent_statuses(connection: Connection) -> dict[str, int]:
    """Numbers of the advice of the last day by status, for monitoring."""
    row = AdviceRow
    query = select(row.status, func.count()).where(row.created_at > func.now() - timedelta(days=1))
    rows = connection.execute(query.group_by(row.status))
    counts = dict.fromkeys(("optimal", "feasible", "infeasible", "unknown"), 0)
    return counts | {str(status): int(number) for status, number in rows}


def _advice() -> Select[*tuple[Any, ...]]:
    return select(*columns_for(AdviceHead, AdviceRow))
