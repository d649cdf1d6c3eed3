"""Stores advice with its documents, links and claims, and lists it for the API.

Claims are verdicts on measured stacks; their content identifies them, and each is stored once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any

from sqlalchemy import Connection, Select, any_, delete, exists, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from common.settings import Settings
from graph.record.analyses import requested_by
from graph.record.bulk import add_entries, insert_new
from graph.record.documents import DeliveredDocument, add_documents, body_of
from graph.record.postgresql_helpers import columns_for, first_as, matching, texts
from graph.record.stacks import add_stacks
from graph.record.vulnerabilities import share_advisories
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    Base,
    ClaimPackage,
    ClaimRow,
    Document,
    ObservationRow,
    PackageVersionRow,
    RequestRow,
    StackPackage,
)
from model.advice import AdviceHead, AdviceLinks, AdviceRequestSummary, RecordedClaim, StoredAdvice
from model.declared_fields import DIGEST, STACK_DIGEST, Field
from model.json_documents import digest_bytes
from model.packages.identity import version_key

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
    connection: Connection, document_id: str, head: AdviceHead, request: AdviceRequestSummary | None
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


_COLUMNS = tuple(field.name for field in fields(RecordedClaim))
_values = attrgetter(*_COLUMNS)
_PACKAGE_COLUMNS = (
    "claim_id", "name", "version", "index_name", "version_key", "baseline_version",
    "baseline_index_name", "baseline_version_key",
)  # fmt: skip

#: Version and index of each package in a stack, by name.
_Versions = Mapping[str, tuple[str, str]]


def add_claims(
    connection: Connection, advice_id: str, document_id: str, claims: Iterable[RecordedClaim]
) -> None:
    """Store the claims of an advice; the caller owns the transaction.

    No outbox entries are written, because the claims are projected together with the advice.

    :param document_id: the report of the advice
    """
    unique = {it.claim_id: it for it in claims}
    if not unique:
        return
    # Locked: an existing claim must not be deleted before the advice refers to it.
    query = select(ClaimRow.claim_id).where(ClaimRow.claim_id == any_(texts(unique)))
    known = set(connection.scalars(query.with_for_update(read=True, key_share=True)))
    new = insert_new(
        connection, ClaimRow,
        [(*_values(it), document_id) for key, it in unique.items() if key not in known],
        (*_COLUMNS, "document_id"), "claim_id",
    )  # fmt: skip
    insert_new(
        connection, ClaimPackage,
        list(_differences(connection, [unique[key] for key in new])), _PACKAGE_COLUMNS,
    )  # fmt: skip
    insert_new(
        connection, AdviceClaim, [(advice_id, key) for key in unique], ("advice_id", "claim_id")
    )


@dataclass(frozen=True, slots=True)
class ClaimSubject:
    """The stacks that a recorded claim compares, with the field names of a claim in a report."""

    claim_id: str
    comparison_key: str
    python_version: str | None
    stack: str
    baseline_stack: str


def claims_starting(
    connection: Connection, start: str, *, advice_id: str | None = None, limit: int
) -> list[ClaimSubject]:
    """The recorded claims whose identifiers begin with ``start``, sorted.

    :param advice_id: only claims of this advice
    """
    row = ClaimRow
    query = select(
        row.claim_id, row.comparison_key, row.python_version, row.stack_digest, row.baseline_digest
    ).where(row.claim_id.startswith(start, autoescape=True))
    if advice_id is not None:
        query = query.join(AdviceClaim, AdviceClaim.claim_id == row.claim_id).where(
            AdviceClaim.advice_id == advice_id
        )
    rows = connection.execute(query.order_by(row.claim_id).limit(limit))
    return [ClaimSubject(*it) for it in rows]


def newest_advice_with(connection: Connection, claim_id: str) -> str | None:
    """The newest advice with a claim, or ``None``."""
    query = (
        select(AdviceRow.advice_id)
        .join(AdviceClaim, AdviceClaim.advice_id == AdviceRow.advice_id)
        .where(AdviceClaim.claim_id == claim_id)
        .order_by(AdviceRow.created_at.desc(), AdviceRow.advice_id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def claim_rows(
    connection: Connection, advice_id: str, document_id: str, claims: Sequence[RecordedClaim]
) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_claims` writes, as values by column; runs one query."""
    for claim in claims:
        yield (
            ClaimRow,
            dict(zip(_COLUMNS, _values(claim), strict=True)) | {"document_id": document_id},
        )
        yield AdviceClaim, {"advice_id": advice_id, "claim_id": claim.claim_id}
    for row in _differences(connection, claims):
        yield ClaimPackage, dict(zip(_PACKAGE_COLUMNS, row, strict=True))


def forget_claims(connection: Connection, claim_ids: Collection[str]) -> dict[str, str]:
    """Delete the claims among ``claim_ids`` that no advice refers to any more.

    :returns: the report that first contained each deleted claim, by claim
    """
    unreferenced = (
        select(ClaimRow.claim_id, ClaimRow.document_id)
        .where(
            ClaimRow.claim_id == any_(texts(claim_ids)),
            ~exists().where(AdviceClaim.claim_id == ClaimRow.claim_id),
        )
        # A transaction that is about to refer to a claim has locked it.
        .with_for_update(skip_locked=True)
    )
    deleted: dict[str, str] = dict(connection.execute(unreferenced).all())
    connection.execute(delete(ClaimPackage).where(ClaimPackage.claim_id == any_(texts(deleted))))
    connection.execute(delete(ClaimRow).where(ClaimRow.claim_id == any_(texts(deleted))))
    return deleted


def _differences(
    connection: Connection, claims: Sequence[RecordedClaim]
) -> Iterator[tuple[str | None, ...]]:
    """The rows of :class:`ClaimPackage`: each package in which the two stacks of a claim differ."""
    stacks = _stacks(connection, {key for it in claims for key in _both(it)})
    for claim in claims:
        ours, theirs = (stacks.get(key, {}) for key in _both(claim))
        for name in sorted(ours.keys() | theirs):
            if ours.get(name) != theirs.get(name):
                yield (claim.claim_id, name, *_release(ours, name), *_release(theirs, name))


def _both(claim: RecordedClaim) -> tuple[str, str]:
    return claim.stack_digest, claim.baseline_digest


def _release(stack: _Versions, name: str) -> tuple[str | None, str | None, str | None]:
    """Version, index and sort key of a package; ``None`` if the stack lacks it."""
    if name not in stack:
        return None, None, None
    version, index = stack[name]
    return version, index, version_key(version)


def _stacks(connection: Connection, digests: Collection[str]) -> Mapping[str, _Versions]:
    query = (
        select(
            StackPackage.stack_digest, PackageVersionRow.name, PackageVersionRow.version,
            PackageVersionRow.index_name,
        )
        .join(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
        .where(StackPackage.stack_digest == any_(texts(digests)))
        .order_by(StackPackage.purl)
    )  # fmt: skip
    stacks: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for digest, name, version, index in connection.execute(query):
        stacks[digest][name] = version, index
    return stacks
