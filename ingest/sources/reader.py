"""Reads every document of a source: a file, a folder, an archive, or a URL through fsspec.

Credentials come from the environment, as they do for the object store's own tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from common.settings import OBJECT_STORES
from graph.record.document_store import client_errors, file_system_of
from ingest.sources.archives import count_in_zip, documents_in_archive
from ingest.sources.content_detection import (
    NOT_IN_FOLDER,
    or_empty,
    other_file,
    screen_document,
    skipped_by_name,
)
from ingest.sources.folders import count_in_folder, documents_in_file, documents_in_folder
from ingest.sources.layout import (
    LINE_SUFFIXES,
    MAX_DEPTH,
    documents_in_lines,
    inspection_part,
    is_archive,
    is_document,
    is_gzipped_document,
    is_inspection_folder,
    is_lines,
    of_part,
    read_bounded,
    too_deep,
    too_large,
    unpack_document,
    unreadable,
)
from ingest.sources.source_items import (
    RawDocument,
    RefusedDocument,
    SkippedFile,
    SourceItem,
    SourceLimits,
)
from ingest.sources.urls import check_url, local_path, stored_source
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


_STORES = (*OBJECT_STORES, "memory")
_WEB = ("http", "https")


def documents_at_url(url: str, source: str, limits: SourceLimits) -> Iterator[SourceItem]:
    """Yield every document under an fsspec URL and every skipped file.

    Finding the files of an inspection folder takes one listing. An ``http(s)`` URL is read only if
    ``limits`` allow it, and only as a single file.

    :param source: ``url`` without parts that must not be stored
    """
    protocol = url.partition("://")[0]
    allowed = (*_STORES, *_WEB) if limits.allow_http else _STORES
    if protocol not in allowed or "::" in url:
        known = ", ".join(("file", *allowed))
        yield unreadable("", f"{protocol[:40]!r} is not one of {known}")
        return
    try:
        check_url(url)
        # Each listing is needed once, so a cache would only cost memory.
        system, root = file_system_of(url, use_listings_cache=False)
        yield from _ObjectStore(system, source, root.rstrip("/"), limits).documents()
    except InvalidDocument as error:
        yield error
    except ImportError as error:
        yield unreadable("", str(error))
    except client_errors() as error:
        yield unreadable("", error)


@dataclass(frozen=True, slots=True)
class _ObjectStore:
    system: Any
    source: str
    root: str
    limits: SourceLimits

    def documents(self) -> Iterator[SourceItem]:
        """Yield the document at the URL or, if the URL is a folder, every item beneath it."""
        info = self.system.info(self.root)
        if info["type"] == "file":
            name = self.source.removesuffix("?…").rstrip("/").rpartition("/")[2]
            yield from self._file({**info, "name": self.root}, name, "")
            return
        yield from or_empty(self._folder(self.root), "")

    def _folder(self, folder: str, depth: int = 0) -> Iterator[SourceItem]:
        if depth > MAX_DEPTH:
            yield too_deep(self._place(folder))
            return
        try:
            entries = sorted(self.system.ls(folder, detail=True), key=lambda e: str(e["name"]))
        except client_errors() as error:
            yield unreadable(self._place(folder), error)
            return
        folders = {
            str(entry["name"]).rstrip("/").rpartition("/")[2]: str(entry["name"]).rstrip("/")
            for entry in entries
            if entry["type"] == "directory"
        }
        parts: dict[str, Any] = {}
        surplus: list[str] = []
        if folders.keys() & {"build", "results"}:
            parts, surplus = self._parts(folder)
        if parts:
            yield self._inspection(folder, parts)
            for path in map(self._place, surplus):
                yield SkippedFile(self.source, path, skipped_by_name(path) or NOT_IN_FOLDER)
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if name not in folders:
                yield from self._file(entry, name, self._place(str(entry["name"])))
            elif not (parts and name in ("build", "results")):
                yield from self._folder(folders[name], depth + 1)

    def _parts(self, folder: str) -> tuple[dict[str, Any], list[str]]:
        """Return the files of an inspection by path, and other files in the same folders.

        Both are empty if ``folder`` is not an inspection.
        """
        prefix = folder.rstrip("/") + "/"
        parts: dict[str, Any] = {}
        surplus: list[str] = []
        for name in ("build", "results"):
            try:
                listing = self.system.find(prefix + name, detail=True)
            except FileNotFoundError:
                continue
            for path, info in listing.items():
                inner = path.removeprefix(prefix)
                if inspection_part(inner):
                    parts[inner] = info
                else:
                    surplus.append(path)
        return (parts, surplus) if is_inspection_folder(parts) else ({}, [])

    def _inspection(self, folder: str, parts: dict[str, Any]) -> SourceItem:
        place = self._place(folder)
        size = sum(info["size"] or 0 for info in parts.values())
        if size > self.limits.document_bytes:
            return too_large(place, size, self.limits)
        names = {info["name"]: part for part, info in parts.items()}
        try:
            contents = self.system.cat(list(names), on_error="return")
        except client_errors() as error:
            return unreadable(place, error)
        files: dict[str, bytes] = {}
        for name, data in contents.items():
            if isinstance(data, client_errors()):
                return of_part(unreadable(place, data), place, names[name])
            if isinstance(data, Exception):
                raise data
            files[names[name]] = data
        return RawDocument(self.source, place, files=files)

    def _file(self, info: dict[str, Any], name: str, place: str) -> Iterator[SourceItem]:
        path, size = str(info["name"]), info.get("size")

        def opened() -> BinaryIO:
            return cast(BinaryIO, self.system.open(path, "rb"))

        lines = is_lines(name, self.limits)
        if lines or is_archive(name):
            inside = documents_in_lines if lines else documents_in_archive
            try:
                yield from inside(opened, name, self.source, place, self.limits)
            except client_errors() as error:
                yield unreadable(place, error)
        elif is_document(name) or not place:
            yield self._document(path, size, name, place)
        else:
            yield other_file(opened, self.source, place, self.limits, client_errors())

    def _document(self, path: str, size: int | None, name: str, place: str) -> SourceItem:
        if size is not None and size > self.limits.document_bytes:
            return too_large(place, size, self.limits)
        try:
            with self.system.open(path, "rb") as stream:
                if is_gzipped_document(name):
                    data = unpack_document(stream, size or 1, place, self.limits)
                else:
                    data = read_bounded(stream, place, self.limits)
        except InvalidDocument as error:
            return error
        except client_errors() as error:
            return unreadable(place, error)
        return screen_document(RawDocument(self.source, place, data=data), self.limits)

    def _place(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self.root).lstrip("/")
