"""Reads local files and folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ingest.sources.archives import documents_in_archive
from ingest.sources.content_detection import (
    NOT_IN_FOLDER,
    or_empty,
    other_file,
    screen_document,
    skipped_by_name,
)
from ingest.sources.layout import (
    MAX_DEPTH,
    documents_in_lines,
    inspection_part,
    is_archive,
    is_document,
    is_gzipped_document,
    is_inspection_folder,
    is_lines,
    of_part,
    too_deep,
    too_large,
    unpack_document,
    unreadable,
)
from ingest.sources.source_items import RawDocument, SkippedFile, SourceItem, SourceLimits
from model.errors import InvalidDocument

#: A folder tree with more folders is not counted in advance.
_MOST_COUNTED_FOLDERS = 200_000


def documents_in_file(path: Path, source: str, limits: SourceLimits) -> Iterator[SourceItem]:
    """Yield the document in a file, or the documents in an archive."""
    yield from _documents_of_file(path, source, "", limits)


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
            yield other_file(
                lambda: self._opened(path), self.source, place, self.limits, (OSError,)
            )
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
        yield from _documents_of_file(allowed, self.source, place, self.limits)

    def _opened(self, path: Path) -> BinaryIO | None:
        allowed = self._allowed(path)
        return None if allowed is None else allowed.open("rb")

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


def _documents_of_file(
    path: Path, source: str, place: str, limits: SourceLimits
) -> Iterator[SourceItem]:
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
