"""Where documents come from: files, folders, archives and object stores, all read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from common.errors import InvalidDocument
from ingest.sources.archives import count_in_zip
from ingest.sources.documents import (
    RawDocument,
    RefusedDocument,
    SkippedFile,
    SourceLimits,
)
from ingest.sources.folders import count_in_folder, documents_in_file, documents_in_folder
from ingest.sources.layout import LINE_SUFFIXES, is_archive, unreadable
from ingest.sources.object_stores import documents_at_url
from ingest.sources.urls import local_path, stored_source

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
    """Every document of ``source``, one at a time, in a stable order.

    What cannot be read comes as a refusal, with its place in ``source``, so that
    the rest of the batch goes on; nothing is raised for what a source holds.

    They name ``stored_source(source)``, which is the source less any credentials.

    :param source: a file, a folder, an archive or an fsspec URL such as ``s3://bucket/prefix``
    :param on_skipped: called with each file that is not an inspection. If it is given, files
        count by their content; otherwise by their names, and the others are passed over
    """
    named = stored_source(source)
    for found in _found(source, named, replace(limits, by_content=on_skipped is not None)):
        if isinstance(found, InvalidDocument):
            yield RefusedDocument(named, found)
        elif isinstance(found, RawDocument):
            yield found
        elif on_skipped is not None:
            on_skipped(found)


def _found(
    source: str, named: str, limits: SourceLimits
) -> Iterator[RawDocument | InvalidDocument | SkippedFile]:
    local = local_path(source)
    if local is None:
        yield from documents_at_url(source, named, limits)
        return
    path = Path(local)
    try:
        if path.is_dir():
            yield from documents_in_folder(path, named, limits)
        elif path.exists() and not path.is_file():
            yield unreadable("", "neither a file nor a folder")
        else:
            yield from documents_in_file(path, named, limits)
    except OSError as error:
        yield unreadable("", error)


def count_hint(source: str) -> int | None:
    """How many documents to expect, for a progress bar; ``None`` where counting is not cheap."""
    local = local_path(source)
    if local is None:
        return None
    path = Path(local)
    if path.is_dir():
        return count_in_folder(local)
    if path.suffix.lower() == ".zip":
        return count_in_zip(local)
    many = is_archive(path.name) or path.name.lower().endswith(LINE_SUFFIXES)
    return None if many or not path.is_file() else 1
