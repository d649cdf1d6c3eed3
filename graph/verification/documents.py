"""Reads stored documents with their bodies, in the order of their identifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, any_, case, func, select

from common.settings import Settings
from graph.record.document_store import require_own_store
from graph.record.documents import UPLOAD, unpacked_body
from graph.record.postgresql_helpers import texts
from graph.tables import (
    AdviceRow,
    AdvisoryRow,
    AnalysisRow,
    ArtifactRow,
    Document,
    InspectionRow,
    NativeEnvironmentRow,
    PackageVersionRow,
)
from graph.verification.comparison import RecordDifference, of_document
from model.errors import DamagedDocument
from model.json_documents import digest, digest_bytes

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
