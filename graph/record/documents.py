"""Documents: compressed bodies in the record, or in the document store if they are large."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import local
from typing import Any

import zstandard
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Text,
    any_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)

from common.settings import Settings
from graph.record.bulk import copy_new
from graph.record.document_store import (
    RECORDS,
    delete_interrupted_writes,
    delete_object,
    file_system_of,
    identify_store,
    is_identified,
    is_shared,
    modified_at,
    object_url,
    objects_in,
    require_own_store,
    unavailable_store,
    write_object,
)
from graph.record.postgresql_helpers import AdvisoryLock, lock_name, shares_lock, storable, texts
from graph.tables import Document, QuarantinedDocument, UnreferencedBodyRow
from graph.verification.parser_version import PARSER_VERSION
from model.errors import DamagedDocument, DocumentStoreMismatch, StoreUnavailable
from model.json_documents import digest_bytes
from model.measurements.inspection import OWN_COLLECTOR

#: Larger compressed bodies are stored in the document store, to keep backups of the record fast.
INLINE_LIMIT_BYTES = 256 * 1024

_LOG = logging.getLogger(__name__)


class _Packers(local):
    """A compressor for each thread, because a shared compressor crashes or corrupts its output."""

    def __init__(self) -> None:
        # The fastest level, because ingest waits for the compressor.
        self.own = zstandard.ZstdCompressor(level=1)


_packers = _Packers()

# Built once, because almost every request runs it.
_BODY = select(
    Document.document_id, Document.kind, Document.size_bytes, Document.body, Document.location
).where(Document.document_id == bindparam("wanted"))

#: Kind of documents that are identified by their request instead of their content.
UPLOAD = "upload"

#: Namespace of the locks on large bodies: shared by writers, exclusive for deletion.
_BODIES = 1
_BODY_LOCATION = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})\.json\.zst")
#: A younger body may belong to a transaction that has not ended, or to documents that PostgreSQL
#: has again once an operator restores a later state of it.
_UNREFERENCED_AFTER = timedelta(days=30)
#: A write that began longer ago was interrupted.
_INTERRUPTED_AFTER = timedelta(days=1)
#: Bodies in a row that cannot be deleted before the others are left for a later run.
_MOST_FAILURES = 10
_KNOWN = select(exists().where(Document.document_id == bindparam("wanted")))

_COLUMNS = (
    "document_id", "kind", "schema_version", "source", "collector", "size_bytes", "body",
    "location", "parser_version",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeliveredDocument:
    """A delivered document with its canonical JSON.

    :param source: where it was read from
    :param collector: program or database that made it
    """

    document_id: str
    kind: str
    schema_version: str
    source: str
    body: bytes
    collector: str = OWN_COLLECTOR


@dataclass(frozen=True, slots=True)
class StoredBody:
    """The place where a body is stored; exactly one field is set."""

    body: bytes | None
    location: str | None


def store_body(
    settings: Settings, document_id: str, body: bytes, before: Callable[[], object] = lambda: None
) -> StoredBody:
    """Compress ``body`` and, if it is large, write it to the document store.

    The name of the object in the document store depends only on its content. Writing the same
    object twice changes nothing, and a transaction that fails later leaves at most an unused
    object.

    :param before: called before the document store is written
    :raises StoreUnavailable: if the document store cannot be written
    """
    packed = _packers.own.compress(body)
    if len(packed) <= INLINE_LIMIT_BYTES:
        return StoredBody(packed, None)
    location = _location(document_id)
    before()
    write_object(object_url(settings, location), packed)
    return StoredBody(None, location)


def body_of(connection: Connection, settings: Settings, document_id: str) -> bytes | None:
    """The canonical JSON of a document, or ``None`` if the document does not exist.

    :raises DamagedDocument: if the stored body does not match size and identifier
    :raises StoreUnavailable: if the document store cannot be read, or is not this record's
    """
    row = connection.execute(_BODY, {"wanted": document_id}).one_or_none()
    if row is None:
        return None
    if row.location is not None:
        require_own_store(connection, settings)
    return unpacked_body(settings, row)


def unpacked_body(settings: Settings, row: Row[*tuple[Any, ...]]) -> bytes:
    """The body in a row of ``documents``, checked against the row's size and identifier.

    :param row: has ``document_id``, ``kind``, ``size_bytes``, ``body`` and ``location``
    :raises DamagedDocument: if the stored body does not match
    :raises StoreUnavailable: if the document store cannot be read
    """
    packed = row.body if row.body is not None else packed_body(settings, row)
    try:
        # Checked first, because decompression allocates the size in the frame.
        if zstandard.frame_content_size(packed) != row.size_bytes:
            raise DamagedDocument(row.document_id, "its body has another size")
        body = zstandard.decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedDocument(row.document_id, "its body cannot be decompressed") from error
    if row.kind != UPLOAD and digest_bytes(body) != row.document_id:
        raise DamagedDocument(row.document_id, "its body has another SHA-256")
    return body


def packed_body(settings: Settings, row: Row[*tuple[Any, ...]]) -> bytes:
    """The compressed body in the document store, unchecked.

    :param row: has ``document_id`` and ``location``
    :raises DamagedDocument: if the document store does not have it
    :raises StoreUnavailable: if the document store cannot be read
    """
    # A location that was tampered with could point to any file.
    if row.location != _location(row.document_id):
        raise DamagedDocument(row.document_id, "its recorded location is wrong")
    try:
        filesystem, path = file_system_of(object_url(settings, row.location))
        with filesystem.open(path, "rb") as file:
            return bytes(file.read())
    except FileNotFoundError as error:
        raise DamagedDocument(row.document_id, "its body is not in the document store") from error
    except Exception as error:
        raise unavailable_store(error) from error


def add_documents(
    connection: Connection, settings: Settings, documents: Iterable[DeliveredDocument]
) -> set[str]:
    """Store each document once, in two statements; the caller owns the transaction.

    :returns: identifiers of the new documents
    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    unique = {str(document.document_id): document for document in documents}
    # Locked: an existing document must not be deleted before the caller's rows refer to it.
    query = select(Document.document_id).where(Document.document_id.in_(list(unique)))
    known = set(connection.scalars(query.with_for_update(read=True, key_share=True)))
    _replace_damaged(connection, settings, [unique[key] for key in sorted(known)])
    rows = [_row(connection, settings, it) for key, it in unique.items() if key not in known]
    # Another writer may have stored some of them in the meantime.
    return set(copy_new(connection, Document, rows, _COLUMNS)) if rows else set()


def _replace_damaged(
    connection: Connection, settings: Settings, documents: Sequence[DeliveredDocument]
) -> None:
    """Replace the bodies that ``thoth record verify`` found to be damaged."""
    entry = QuarantinedDocument
    query = select(entry.source).where(
        entry.kind == "record",
        entry.field == "body",
        entry.resolved_at.is_(None),
        entry.source == any_(literal([it.document_id for it in documents], ARRAY(Text))),
    )
    damaged = set(connection.scalars(query)) if documents else set()
    for document in documents:
        if document.document_id in damaged:
            names = ("size_bytes", "body", "location")
            row = dict(zip(_COLUMNS, _row(connection, settings, document), strict=True))
            statement = update(Document).where(Document.document_id == document.document_id)
            connection.execute(statement.values({name: row[name] for name in names}))


def _row(
    connection: Connection, settings: Settings, document: DeliveredDocument
) -> tuple[str | int | bytes | None, ...]:
    def before_writing() -> None:
        identify_store(connection, settings)
        lock_name(connection, document.document_id, namespace=_BODIES, shared=True)

    stored = store_body(settings, document.document_id, document.body, before_writing)
    return (
        document.document_id, document.kind, document.schema_version, storable(document.source),
        document.collector, len(document.body), stored.body, stored.location, PARSER_VERSION,
    )  # fmt: skip


def forget_documents(connection: Connection, kind: str, older_than: timedelta, limit: int) -> int:
    """Delete the oldest unreferenced documents of a kind, as :func:`delete_documents` does.

    :param limit: largest number of documents
    :returns: number of deleted documents
    """
    oldest = (
        select(Document.document_id)
        .where(
            Document.kind == kind,
            Document.ingested_at < func.clock_timestamp() - literal(older_than),
        )
        .order_by(Document.ingested_at)
        .limit(limit)
    )
    return delete_documents(connection, Document.document_id.in_(oldest))


def delete_documents(connection: Connection, which: ColumnElement[bool]) -> int:
    """Delete these documents; the caller owns the transaction.

    The record lists their bodies in the document store. Call :func:`delete_unreferenced_bodies`
    after the commit: if the deletion were rolled back later, the documents would lack their bodies.

    :returns: number of deleted documents
    """
    query = delete(Document).where(which).returning(Document.document_id, Document.location)
    rows = connection.execute(query).all()
    bodies = [{"document_id": row.document_id} for row in rows if row.location is not None]
    if bodies:
        connection.execute(insert(UnreferencedBodyRow), bodies)
    return len(rows)


def delete_unreferenced_bodies(settings: Settings, engine: Engine) -> None:
    """Delete the bodies of deleted documents from the document store.

    A later call deletes what this one leaves: bodies that could not be deleted, everything after
    several failures in a row, and everything during a backup, whose snapshot may name the
    documents.
    """
    table = UnreferencedBodyRow
    with engine.connect() as connection:
        query = select(table.entry_id, table.document_id).order_by(table.entry_id)
        entries = connection.execute(query).all()
    failed = in_a_row = 0
    for number, entry in enumerate(entries):
        try:
            with engine.begin() as connection:
                if not shares_lock(connection, AdvisoryLock.BACKUP):
                    _LOG.info("deletion_put_off", extra={"bodies": len(entries) - number})
                    return
                _delete_body(connection, settings, entry.document_id)
                connection.execute(delete(table).where(table.entry_id == entry.entry_id))
                in_a_row = 0
        except StoreUnavailable as error:
            fields = {"document_id": entry.document_id, "error": str(error)}
            _LOG.warning("deletion_failed", extra=fields)
            failed, in_a_row = failed + 1, in_a_row + 1
            # A store that does not answer takes the same time for each body.
            if in_a_row == _MOST_FAILURES or isinstance(error, DocumentStoreMismatch):
                failed += len(entries) - number - 1
                break
    if failed:
        _LOG.warning("bodies_left", extra={"bodies": failed, "of": len(entries)})


def find_unreferenced_bodies(
    settings: Settings,
    engine: Engine,
    older_than: timedelta = _UNREFERENCED_AFTER,
    interrupted_after: timedelta = _INTERRUPTED_AFTER,
) -> int:
    """Find bodies without a document, which interrupted transactions leave in the document store.

    The record lists them, and :func:`delete_unreferenced_bodies` deletes them. Temporary objects of
    interrupted writes are deleted at once. Nothing is done if the store may have bodies of other
    records. The time grows with the number of bodies.

    :returns: number of bodies that were not listed before
    :raises StoreUnavailable: if the document store cannot be read
    """
    with engine.connect() as connection:
        if not is_identified(connection):
            return 0
        if is_shared(connection, settings):
            _LOG.info("document_store_shared")
            return 0
    now = datetime.now(UTC)
    latest, number, parts = now - older_than, 0, 0
    for folder in (RECORDS, *map("{:02x}".format, range(256))):
        locations = objects_in(settings, folder)
        parts += delete_interrupted_writes(settings, locations, now - interrupted_after)
        with engine.begin() as connection:
            bodies = _without_document(connection, locations)
            unreferenced = [
                {"document_id": document_id}
                for document_id in sorted(bodies)
                if (at := modified_at(settings, _location(document_id))) and at < latest
            ]
            if unreferenced:
                connection.execute(insert(UnreferencedBodyRow), unreferenced)
        number += len(unreferenced)
    if number:
        _LOG.info("unreferenced_bodies_found", extra={"bodies": number})
    if parts:
        _LOG.info("interrupted_writes_deleted", extra={"objects": parts})
    return number


def _without_document(connection: Connection, locations: Iterable[str]) -> set[str]:
    """Document IDs of the given bodies that no document has and that are not listed yet."""
    bodies = {f"sha256:{match[1]}" for it in locations if (match := _BODY_LOCATION.fullmatch(it))}
    for column in (Document.document_id, UnreferencedBodyRow.document_id):
        if bodies:
            bodies -= set(connection.scalars(select(column).where(column == any_(texts(bodies)))))
    return bodies


def _delete_body(connection: Connection, settings: Settings, document_id: str) -> None:
    """Delete a body unless a document has it.

    A writer that stores the same body again holds a lock until its transaction ends.
    """
    require_own_store(connection, settings)
    lock_name(connection, document_id, namespace=_BODIES)
    if not connection.scalar(_KNOWN, {"wanted": document_id}):
        delete_object(object_url(settings, _location(document_id)))


def _location(document_id: str) -> str:
    hexadecimal = document_id.removeprefix("sha256:")
    return f"{hexadecimal[:2]}/{hexadecimal}.json.zst"
