"""Reads every document of a source: a file, a folder, an archive or a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ingest.sources.archives import count_in_zip
from ingest.sources.folders import count_in_folder, documents_in_file, documents_in_folder
from ingest.sources.layout import LINE_SUFFIXES, is_archive, unreadable
from ingest.sources.object_stores import documents_at_url
from ingest.sources.source_items import RawDocument, RefusedDocument, SkippedFile, SourceLimits
from ingest.sources.urls import local_path, stored_source
from model.errors import InvalidDocument

DEFAULT_LIMITS = SourceLimits()

__all__ = [
    "DEFAULT_LIMITS",
    "RawDocument",
    "RefusedDocument",
    "SkippedFile",
    "SourceLimits",
    "count_hint",
    "documents_of",
    "stored_source",
]


def documents_of(
    source: str,
    limits: SourceLimits = DEFAULT_LIMITS,
    on_skipped: Callable[[SkippedFile], None] | None = None,
) -> Iterator[RawDocument | RefusedDocument]:
    """Yield every document of ``source``, one at a time, in a stable order.

    An unreadable document is yielded as a refusal with its place in ``source``. The content of a
    source never raises an error. Documents and refusals name ``stored_source(source)``, which
    contains no credentials.

    :param source: a file, a folder, an archive or an fsspec URL such as ``s3://bucket/prefix``
    :param on_skipped: called with each file that is not an inspection; inspections are then
        recognised by content. Without it, file names decide, and other files are ignored
    """
    public = stored_source(source)
    limits = replace(limits, by_content=on_skipped is not None)
    for document in _documents(source, public, limits):
        if isinstance(document, InvalidDocument):
            yield RefusedDocument(public, document)
        elif isinstance(document, RawDocument):
            yield document
        elif on_skipped is not None:
            on_skipped(document)


def _documents(
    source: str, public: str, limits: SourceLimits
) -> Iterator[RawDocument | InvalidDocument | SkippedFile]:
    local = local_path(source)
    if local is None:
        yield from documents_at_url(source, public, limits)
        return
    path = Path(local)
    try:
        if path.is_dir():
            yield from documents_in_folder(path, public, limits)
        elif path.exists() and not path.is_file():
            yield unreadable("", "neither a file nor a folder")
        else:
            yield from documents_in_file(path, public, limits)
    except OSError as error:
        yield unreadable("", error)


def count_hint(source: str) -> int | None:
    """Return the expected number of documents; ``None`` if counting would be slow."""
    local = local_path(source)
    if local is None:
        return None
    path = Path(local)
    if path.is_dir():
        return count_in_folder(local)
    if path.suffix.lower() == ".zip":
        return count_in_zip(local)
    holds_many = is_archive(path.name) or path.name.lower().endswith(LINE_SUFFIXES)
    return None if holds_many or not path.is_file() else 1
