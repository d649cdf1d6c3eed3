"""Opens a source of advisories; recognises a source that has not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from common.errors import InvalidDocument
from graph.record.advisories import SourceState
from ingest.advisories.fetching import Validators, fetch_archive
from ingest.sources.documents import (
    MEBIBYTE,
    RawDocument,
    RefusedDocument,
    SourceLimits,
)
from ingest.sources.folders import documents_in_file
from ingest.sources.reader import documents_of
from ingest.sources.urls import check_url, local_path, stored_source

#: Size limit for an advisory; the longest advisories have some hundred kilobytes.
LIMITS = SourceLimits(document_bytes=16 * MEBIBYTE)


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source of advisories that was opened for reading.

    :param documents: ``None`` if the source has not changed
    :param validators: headers of the server's response
    :param sha256: hash of an archive or a single file
    :param as_of: time of this version of the source
    """

    documents: Iterator[RawDocument | RefusedDocument] | None
    validators: Validators
    sha256: str | None
    as_of: datetime


@contextmanager
def opened_source(source: str, known: SourceState | None = None) -> Iterator[OpenedSource]:
    """Open ``source`` for reading within the ``with`` block.

    :param source: a folder, a file, an archive or a URL
    :param known: state of the source when it was last read
    :raises StoreUnavailable: if a server does not answer
    """
    if source.partition("://")[0] in ("http", "https"):
        with TemporaryDirectory(prefix="thoth-advisories-") as folder:
            yield _fetched(source, known, Path(folder))
        return
    path = Path(local_path(source) or "")
    # Hashing the whole file costs less than parsing its content.
    digest = _sha256(path) if local_path(source) is not None and path.is_file() else None
    as_of = datetime.fromtimestamp(path.stat().st_mtime, UTC) if digest else datetime.now(UTC)
    unchanged = digest is not None and known is not None and known.sha256 == digest
    documents = None if unchanged else documents_of(source, LIMITS)
    yield OpenedSource(documents, Validators(), digest, as_of)


def _fetched(source: str, known: SourceState | None, folder: Path) -> OpenedSource:
    try:
        check_url(source)
    except InvalidDocument as error:
        refused = iter([RefusedDocument(stored_source(source), error)])
        return OpenedSource(refused, Validators(), None, datetime.now(UTC))
    # The query of a URL is not stored, so the known state may belong to another URL.
    same_url = known is not None and stored_source(source) == source
    before = Validators(known.etag, known.last_modified) if known and same_url else Validators()
    answer = fetch_archive(source, before, folder)
    if answer.path is None:
        return OpenedSource(None, before, known.sha256 if known else None, answer.as_of)
    digest = _sha256(answer.path)
    unchanged = known is not None and known.sha256 == digest
    documents = None if unchanged else _documents_in(answer.path, stored_source(source))
    return OpenedSource(documents, answer.validators, digest, answer.as_of)


def _documents_in(path: Path, source: str) -> Iterator[RawDocument | RefusedDocument]:
    for item in documents_in_file(path, source, LIMITS):
        if isinstance(item, InvalidDocument):
            yield RefusedDocument(source, item)
        elif isinstance(item, RawDocument):
            yield item


def _sha256(path: Path) -> str | None:
    """Return the hash of a file; ``None`` for an unreadable file, which the reader reports."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
