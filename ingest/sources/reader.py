"""Reads every document of a source: a file, a folder, an archive, or a URL through fsspec.

Credentials come from the environment, as they do for the object store's own tools.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from common.settings import OBJECT_STORES
from graph.record.document_store import client_errors, file_system_of
from ingest.sources.archives import count_in_zip, documents_in_archive
from ingest.sources.bounded_reads import (
    MAX_DEPTH,
    documents_in_lines,
    of_part,
    read_bounded,
    too_deep,
    too_large,
    unpack_document,
    unreadable,
)
from ingest.sources.content_detection import (
    NOT_IN_FOLDER,
    or_empty,
    other_file,
    screen_document,
    skipped_by_name,
)
from ingest.sources.file_names import (
    LINE_SUFFIXES,
    inspection_part,
    is_archive,
    is_document,
    is_gzipped_document,
    is_inspection_folder,
    is_lines,
)
from ingest.sources.source_items import (
    RawDocument,
    RefusedDocument,
    SkippedFile,
    SourceItem,
    SourceLimits,
    check_url,
    local_path,
    stored_source,
)
from model.errors import InvalidDocument

#: A folder tree with more folders is not counted in advance.
_MOST_COUNTED_FOLDERS = 200_000


def documents_in_folder(path: Path, source: str, limits: SourceLimits) -> Iterator[SourceItem]:
    """Yield every document beneath a folder and every skipped file, in the order of their paths.

    Links to folders and links out of the folder are not followed. Only one inspection is in memory
    at a time.
    """
    yield from or_empty(_FolderReader(source, path.resolve(), limits).folder(path, ""), "")


@dataclass(frozen=True, slots=True)
class _FolderReader:
    source: str
    root: Path
    limits: SourceLimits

    def folder(self, folder: Path, place: str, depth: int = 0) -> Iterator[SourceItem]:
        """Yield ``folder`` if it is an inspection, then the other files beneath it."""
        if depth > MAX_DEPTH:
            yield too_deep(place)
            return
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield unreadable(place, error)
            return
        folders = [entry.name for entry in ordered if entry.is_dir(follow_symlinks=False)]
        parts, surplus = self._parts(folder, set(folders) & {"build", "results"})
        if parts:
            yield self._inspection(folder, place, parts)
            for name in surplus:
                inner = f"{place}/{name}" if place else name
                yield SkippedFile(self.source, inner, skipped_by_name(inner) or NOT_IN_FOLDER)
        for entry in ordered:
            inner = f"{place}/{entry.name}" if place else entry.name
            if entry.name in folders:
                # The files in these two folders of an inspection were read above.
                if not (parts and entry.name in ("build", "results")):
                    yield from self.folder(Path(entry.path), inner, depth + 1)
            else:
                yield from self._file(Path(entry.path), inner)

    def _parts(self, folder: Path, names: set[str]) -> tuple[list[str], list[str]]:
        """Return the paths of the files of an inspection, and of other files in the same folders.

        Both are empty if ``folder`` is not an inspection.
        """
        parts: list[str] = []
        surplus: list[str] = []
        for name in sorted(names):
            for base, folders, files in os.walk(folder / name):
                folders.sort()
                inner = Path(base).relative_to(folder).as_posix()
                for file in sorted(files):
                    path = f"{inner}/{file}"
                    (parts if inspection_part(path) else surplus).append(path)
                if inner.count("/") >= 1:
                    surplus += [f"{inner}/{deeper}/" for deeper in folders]
                    folders.clear()
        return (parts, surplus) if is_inspection_folder(parts) else ([], [])

    def _inspection(self, folder: Path, place: str, parts: list[str]) -> SourceItem:
        files: dict[str, bytes] = {}
        left = self.limits.document_bytes
        for part in parts:
            try:
                path = self._allowed(folder / part)
                data = _read(path, place, self.limits) if path else None
            except OSError as error:
                return of_part(unreadable(place, error), place, part)
            except InvalidDocument as error:
                return of_part(error, place, part)
            if data is not None:
                files[part] = data
                left -= len(data)
            if left < 0:
                return too_large(place, None, self.limits)
        return RawDocument(self.source, place, files=files)

    def _file(self, path: Path, place: str) -> Iterator[SourceItem]:
        lines = is_lines(path.name, self.limits)
        if not (lines or is_document(path.name) or is_archive(path.name)):

            def opened() -> BinaryIO | None:
                allowed = self._allowed(path)
                return None if allowed is None else allowed.open("rb")

            yield other_file(opened, self.source, place, self.limits, (OSError,))
            return
        try:
            allowed = self._allowed(path)
        except OSError as error:
            yield unreadable(place, error)
            return
        if allowed is None:
            reason = "a link out of the folder, a pipe or a device; use a link's target instead"
            yield unreadable(place, reason)
            return
        yield from documents_in_file(allowed, self.source, self.limits, place)

    def _allowed(self, path: Path) -> Path | None:
        """Return the file to read; ``None`` for a link out of the folder, a pipe or a device."""
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            return path  # no parent is a link, because links to folders are not followed
        if not stat.S_ISLNK(mode):
            return None
        # Path.resolve() of Python 3.11 and 3.12 raises RuntimeError for links in a circle.
        resolved = Path(os.path.realpath(path, strict=True))
        inside = resolved.is_relative_to(self.root)
        return resolved if inside and stat.S_ISREG(resolved.stat().st_mode) else None


def documents_in_file(
    path: Path, source: str, limits: SourceLimits, place: str = ""
) -> Iterator[SourceItem]:
    """Yield the document in a file, or the documents in an archive.

    :param place: path of the file in ``source``; empty if it is the source
    """

    def opened() -> BinaryIO:
        return path.open("rb")

    if is_lines(path.name, limits):
        yield from documents_in_lines(opened, path.name, source, place, limits)
        return
    if is_archive(path.name):
        yield from documents_in_archive(opened, path.name, source, place, limits)
        return
    try:
        yield screen_document(RawDocument(source, place, data=_read(path, place, limits)), limits)
    except OSError as error:
        yield unreadable(place, error)
    except InvalidDocument as error:
        yield error


def _read(path: Path, place: str, limits: SourceLimits) -> bytes:
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limits.document_bytes:
            raise too_large(place, size, limits)
        if is_gzipped_document(path.name):
            return unpack_document(cast(BinaryIO, file), size, place, limits)
        data = file.read(size + 1)
    if len(data) != size:
        raise unreadable(place, "changed while it was read")
    return data


def count_in_folder(source: str) -> int | None:
    """Count documents beneath a folder by name; ``None`` if there are too many folders."""
    count = 0
    top = source.rstrip(os.sep).count(os.sep)
    for seen, (folder, folders, files) in enumerate(os.walk(source)):
        if seen > _MOST_COUNTED_FOLDERS:
            return None
        if folder.rstrip(os.sep).count(os.sep) - top >= MAX_DEPTH:
            folders.clear()
        if "results" in folders:
            count += 1
            folders[:] = [name for name in folders if name not in ("results", "build")]
        elif "build" in folders and (Path(folder) / "build" / "status").is_file():
            count += 1
            folders.remove("build")
        count += sum(is_document(name) for name in files)
    return count or None


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
            if entry["type"] != "directory":  # an object may have the name of a folder
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
