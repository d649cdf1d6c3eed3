"""Compares stored rows with their documents in batches, and quarantines what differs.

First the body of a document is compared with its identifier. Then the :class:`Verifier` for the
document's kind compares the rows. Verifiers are entry points of the group ``thoth.verifiers``,
because this package must not import the parsers or the adviser.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, any_, case, exists, func, select, update

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.document_store import require_own_store
from graph.record.documents import UPLOAD, unpacked_body
from graph.record.freshness import count_change
from graph.record.postgresql_helpers import texts
from graph.record.quarantine import QuarantineReason, add_refusals, resolve_sources
from graph.record.vulnerabilities import hold_advisories
from graph.tables import (
    AdviceRow,
    AdvisoryRow,
    AnalysisRow,
    ArtifactRow,
    Document,
    InspectionRow,
    NativeEnvironmentRow,
    PackageVersionRow,
    QuarantinedDocument,
    RecordCheckRow,
)
from graph.verification.comparison import EMPTY_VALUE, RecordDifference, of_document
from graph.verification.parser_version import columns_changed_since
from model.declared_fields import report_of
from model.errors import DamagedDocument, Reason
from model.json_documents import digest, digest_bytes

#: Kind of quarantine entries about stored documents.
KIND = "record"


def begin_round(connection: Connection) -> None:
    """Start a round with the first document."""
    values = {"position": "", "round_began_at": func.clock_timestamp()}
    connection.execute(update(RecordCheckRow).values(values))


def end_round(connection: Connection) -> None:
    """End a complete round; the next round starts with the first document.

    Quarantine entries about deleted documents are resolved.
    """
    entry, table = QuarantinedDocument, RecordCheckRow
    stored = exists().where(Document.document_id == entry.source)
    obsolete = update(entry).where(entry.kind == KIND, entry.resolved_at.is_(None), ~stored)
    connection.execute(obsolete.values(resolved_at=func.now()))
    connection.execute(
        update(table).values(
            position="", complete_since=table.round_began_at, completed_at=func.clock_timestamp()
        )
    )


def save_refusals(
    connection: Connection, document_ids: Collection[str], refusals: Iterable[QuarantineReason]
) -> None:
    """Quarantine differences, and resolve earlier entries about these documents.

    The caller owns the transaction, and must not add other quarantine entries in it.

    :param document_ids: the compared documents
    :param refusals: the differences, with the identifier of the document as source
    """
    add_refusals(connection, refusals)
    # Entries of this call are not older than the transaction.
    began = connection.execute(select(func.now())).scalar_one()
    resolve_sources(connection, document_ids, began, KIND)


logger = logging.getLogger(__name__)

#: Limits for the differences in a report, and for quarantine entries about one document.
NAMED, _KEPT = 1_000, 20
#: Number of pieces of advice that one run computes again.
REPLAYS = 20


@dataclass(slots=True)
class RecordReport:
    """Result of comparing documents in one run.

    :param documents: number of compared documents by kind
    :param damaged: number of documents whose body was changed or lost
    :param tampered: number of documents that differ, including damaged ones
    :param differences: at most :data:`NAMED`; a difference in a row that several documents share is
        listed once, with the first document
    :param more: number of differences that are not listed
    :param outdated: number of rows, by column, that differ because a newer version computes the
        column differently
    :param counts: further counts of verifiers, such as ``observations_refused``
    :param complete: whether the last document was compared
    """

    documents: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    tampered: int = 0
    differences: list[RecordDifference] = field(default_factory=list)
    more: int = 0
    outdated: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    complete: bool = False
    elapsed_s: float = 0.0
    _named: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.tampered

    def add(self, differences: Iterable[RecordDifference]) -> None:
        """Add differences that are not in the report yet."""
        for difference in differences:
            key = difference.table, difference.row or difference.document_id, difference.field
            if key in self._named:
                continue
            if len(self.differences) >= NAMED:
                self.more += 1
                continue
            self._named.add(key)
            self.differences.append(difference)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "equal": self.equal,
            **report_of(self, "more"),
            "more_differences": self.more,
            "elapsed_s": round(self.elapsed_s, 3),
        }


@dataclass(slots=True)
class VerificationRun:
    """State of a run, for use by verifiers.

    :param replays: number of pieces of advice that may still be computed again
    :param counts: counts of verifiers, such as ``observations_refused``
    """

    settings: Settings
    replays: int
    counts: Counter[str]


@dataclass(frozen=True, slots=True)
class ComparedDocuments:
    """The compared documents of one kind, without damaged documents.

    :param tampered: identifiers of all documents of any kind that differ, including damaged
        documents
    """

    documents: Sequence[StoredDocument]
    tampered: Collection[str]

    @property
    def differing(self) -> list[StoredDocument]:
        """The documents of this kind that differ from the record."""
        return [it for it in self.documents if it.document_id in self.tampered]

    @property
    def equal(self) -> list[StoredDocument]:
        """The documents of this kind that match the record."""
        return [it for it in self.documents if it.document_id not in self.tampered]


class Verifier(Protocol):
    """Compares the documents of a kind with their rows."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterable[RecordDifference]:
        """Differences between the record and these documents; writes nothing."""

    def settle(
        self, connection: Connection, run: VerificationRun, compared: ComparedDocuments
    ) -> None:
        """Act on the differences. The caller owns the transaction.

        By default, this does nothing, because reporting the differences is enough.
        """
        return


@cache
def verifiers() -> dict[str, Verifier]:
    """The verifiers by kind of document."""
    return {it.name: it.load() for it in entry_points(group="thoth.verifiers")}


def verify_record(
    settings: Settings,
    engine: Engine,
    *,
    most: int | None = None,
    seconds: float | None = None,
    replays: int = REPLAYS,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    on_commit: Callable[[], None] = lambda: None,
) -> RecordReport:
    """Compare documents, starting where the last run ended.

    Results are committed after each batch, so an interrupted run loses at most one batch.

    :param most: limit for compared documents; ``None`` for all
    :param seconds: time after which no batch is started; ``None`` for no limit
    :param replays: number of pieces of advice to compute again
    :param progress: called with the number of compared documents and the total
    :raises StoreUnavailable: if PostgreSQL or the document store does not answer
    """
    began = time.monotonic()
    report = RecordReport()
    run = VerificationRun(settings, replays, report.counts)
    with relational_errors(settings):
        with engine.begin() as connection:
            position = connection.scalar(select(RecordCheckRow.position)) or ""
            if position == "" or (most is None and seconds is None):
                begin_round(connection)
                position = ""
            remaining = select(func.count()).where(Document.document_id > position)
            total = connection.scalar(remaining) or 0
        total = total if most is None else min(total, most)
        while most is None or report.documents.total() < most:
            if seconds is not None and time.monotonic() - began >= seconds:
                break
            left = total if most is None else most - report.documents.total()
            batch = _next_batch(engine, run, report, position, left)
            if batch is None:
                report.complete = True
                with engine.begin() as connection:
                    end_round(connection)
                break
            position = batch
            progress(report.documents.total(), total)
            on_commit()
    report.elapsed_s = time.monotonic() - began
    logger.info(
        "record_verified",
        extra={
            "documents": report.documents.total(), "tampered": report.tampered,
            "elapsed_s": round(report.elapsed_s, 3),
        },
    )  # fmt: skip
    return report


def _next_batch(
    engine: Engine, run: VerificationRun, report: RecordReport, position: str, most: int
) -> str | None:
    """Compare the next documents and commit the result.

    :returns: the last compared document; ``None`` if there are no more
    """
    state = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    with state.connect() as connection:
        identifiers = next_identifiers(connection, position, most)
        if not identifiers:
            return None
        documents = list(read_documents(connection, run.settings, identifiers))
        differences = [
            of_document(it.document_id, "body", it.damage, "the body that was stored")
            for it in documents
            if it.damage
        ]
        report.damaged += len(differences)
        differences += wrong_kinds(connection, documents)
        differences += wrong_uploads(connection, documents)
        by_kind: dict[str, list[StoredDocument]] = defaultdict(list)
        for document in documents:
            if not document.damage:
                by_kind[document.kind].append(document)
        for kind, verifier in verifiers().items():
            if by_kind[kind]:
                differences += verifier.compare(connection, run, by_kind[kind])
    tampered = _unexplained(report, documents, differences)
    with engine.begin() as connection:
        if tampered:
            # Writers take this lock before their first write, so this order avoids deadlocks.
            hold_advisories(connection)
        before = run.counts.copy()
        for kind, verifier in verifiers().items():
            verifier.settle(connection, run, ComparedDocuments(by_kind[kind], tampered.keys()))
        save_refusals(connection, identifiers, _refusals(tampered))
        connection.execute(update(RecordCheckRow).values(position=identifiers[-1]))
        if run.counts != before:
            count_change(connection)
    report.documents.update(it.kind for it in documents)
    return identifiers[-1]


def _unexplained(
    report: RecordReport,
    documents: Sequence[StoredDocument],
    differences: Iterable[RecordDifference],
) -> dict[str, list[RecordDifference]]:
    """Differences by document, except those that a newer version of the parsers explains."""
    explained = {it.document_id: columns_changed_since(it.parser_version) for it in documents}
    tampered: dict[str, list[RecordDifference]] = defaultdict(list)
    for difference in differences:
        names = {difference.table, difference.column, f"{difference.column}={difference.expected}"}
        if difference.stored == EMPTY_VALUE:
            names.add(f"+{difference.column}")
        if names & explained.get(difference.document_id, frozenset()):
            report.outdated[difference.column] += 1
        else:
            tampered[difference.document_id].append(difference)
    for document_differences in tampered.values():
        report.add(document_differences)
    report.tampered += len(tampered)
    return tampered


def _refusals(tampered: dict[str, list[RecordDifference]]) -> Iterable[QuarantineReason]:
    for document_id, differences in tampered.items():
        for difference in differences[:_KEPT]:
            message = f"stored {difference.stored}, expected {difference.expected}"
            place = f"{difference.table} {difference.row}".rstrip()
            yield QuarantineReason(
                KIND, document_id, place, Reason.TAMPERED, difference.field or "$", message
            )


#: Number of documents in memory at a time, and bytes of their bodies.
_DOCUMENTS, _BYTES = 500, 16 * 2**20

#: The kind of document that the rows of each table come from.
_ORIGINS = (
    (InspectionRow.document_id, "inspection"),
    (AdvisoryRow.document_id, "advisory"),
    (ArtifactRow.document_id, "analysis"),
    (NativeEnvironmentRow.document_id, "analysis"),
    (PackageVersionRow.release_document_id, "release"),
    (AdviceRow.report_document_id, "report"),
)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it is stored.

    :param parser_version: version of the parsers that made its rows
    :param body: empty if it is damaged
    :param damage: description of the damage, or ``None``
    """

    document_id: str
    kind: str
    schema_version: str
    source: str
    collector: str | None
    parser_version: int
    body: bytes = b""
    damage: str | None = None


def next_identifiers(connection: Connection, position: str, most: int) -> list[str]:
    """Identifiers of the documents after ``position``: together at most 16 MiB or 16 reports."""
    # A report computes the advice again, which takes as long as comparing many other documents.
    weight = case((Document.kind == "report", 2**20), else_=0)
    held = func.greatest(Document.size_bytes, func.octet_length(Document.body)) + weight
    query = (
        select(Document.document_id, held)
        .where(Document.document_id > position)
        .order_by(Document.document_id)
        .limit(min(most, _DOCUMENTS))
    )
    identifiers: list[str] = []
    size = 0
    for document_id, size_bytes in connection.execute(query):
        size += size_bytes
        if identifiers and size > _BYTES:
            break
        identifiers.append(document_id)
    return identifiers


def read_documents(
    connection: Connection, settings: Settings, identifiers: Sequence[str]
) -> Iterator[StoredDocument]:
    """Read documents in the order of their identifiers.

    :raises StoreUnavailable: if the document store cannot be read
    """
    table = Document
    query = (
        select(
            table.document_id, table.kind, table.schema_version, table.source, table.collector,
            table.size_bytes, table.body, table.location, table.parser_version,
        )
        .where(table.document_id == any_(texts(identifiers)))
        .order_by(table.document_id)
    )  # fmt: skip
    for row in connection.execute(query).all():
        document = StoredDocument(
            row.document_id, row.kind, row.schema_version, row.source, row.collector,
            row.parser_version,
        )  # fmt: skip
        if row.location is not None:
            require_own_store(connection, settings)
        try:
            yield replace(document, body=unpacked_body(settings, row))
        except DamagedDocument as error:
            yield replace(document, damage=error.cause)


def wrong_kinds(
    connection: Connection, documents: Sequence[StoredDocument]
) -> Iterator[RecordDifference]:
    """Documents that own rows reserved for another kind of document."""
    for column, kind in _ORIGINS:
        others = {it.document_id: it.kind for it in documents if it.kind != kind}
        query = select(column).where(column == any_(texts(others))).distinct()
        for document_id in filter(None, connection.scalars(query) if others else ()):
            yield of_document(document_id, "kind", others[document_id], kind)


def wrong_uploads(
    connection: Connection, documents: Sequence[StoredDocument]
) -> Iterator[RecordDifference]:
    """Uploads whose body does not match the SHA-256 in their request."""
    uploads = {it.source: it for it in documents if it.kind == UPLOAD and not it.damage}
    if not uploads:
        return
    query = select(AnalysisRow.analysis_id, AnalysisRow.parameters["document_id"].astext)
    requests = query.where(AnalysisRow.analysis_id == any_(texts(uploads)))
    digests = {row[0]: row[1] for row in connection.execute(requests)}
    for source, upload in uploads.items():
        # An upload has no request only if somebody deleted the request from the table.
        expected = digests.get(source, digest_bytes(upload.body))
        if (
            upload.document_id != digest(["upload", source])
            or digest_bytes(upload.body) != expected
        ):
            yield of_document(upload.document_id, "body", digest_bytes(upload.body), expected)
