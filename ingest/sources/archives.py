"""Streams documents from .zip, .tar and .tar.gz without unpacking them to disk.

Archives are untrusted. Links, devices and members whose paths leave the archive are refused one by
one. An archive that unpacks to too many bytes is refused as a whole before it is unpacked.
"""

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from ingest.sources.bounded_reads import (
    BOMB_FLOOR_BYTES,
    bomb,
    cause_of,
    documents_in_lines,
    of_part,
    read_bounded,
    too_large,
    unpack_document,
    unreadable,
)
from ingest.sources.content_detection import or_empty, other_file, screen_document
from ingest.sources.file_names import inspection_part, is_document, is_gzipped_document, is_lines
from ingest.sources.source_items import MEBIBYTE, RawDocument, SourceItem, SourceLimits
from model.errors import InvalidDocument, Reason

Opener = Callable[[], BinaryIO]

#: Real headers of archives are shorter; only a forged header requests more.
_LONGEST_READ = 64 * MEBIBYTE
#: Accepted compression methods; others are rare, and their decoders allocate as much memory as a
#: header requests.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OTHER_METHODS = {9: "deflate64", zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma"}
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # encryption or a version that zipfile does not know
    RuntimeError,  # a password
    ValueError,  # a forged header
)


@dataclass(frozen=True, slots=True)
class _Member:
    """A file of a zip or tar archive."""

    name: str
    size: int
    regular: bool
    open: Opener
    method: int = zipfile.ZIP_STORED


class _ForgedHeader(ValueError):
    """A header requests more memory than real archives need."""


class BoundedReads(io.RawIOBase):
    """A stream that refuses to read more than ``_LONGEST_READ`` at once.

    ``tarfile`` trusts the size in the header of a long name.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > _LONGEST_READ:
            raise _ForgedHeader("a header claims to be longer than 64 MiB")
        return self._stream.read(size)

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def documents_in_archive(
    opened: Opener, name: str, source: str, place: str, limits: SourceLimits
) -> Iterator[SourceItem]:
    """Yield every document of an archive and every skipped file; inner archives are skipped.

    The archive is read twice. The first pass reads names and sizes, to refuse bombs and to know
    when an inspection is complete. The second pass reads the documents.

    :param opened: each call opens the archive anew
    :param place: path of the archive in ``source``; empty if it is the source
    """
    members = _zip_members if name.lower().endswith(".zip") else _tar_members
    try:
        with opened() as stream:
            packed = stream.seek(0, io.SEEK_END)
        survey = _Survey(place, packed, limits)
        with opened() as stream:
            for member in members(stream, limits):
                survey.add(member)
        with opened() as stream:
            items = _Reader(source, place, limits, survey).documents(members(stream, limits))
            yield from or_empty(items, place, "archive")
    except InvalidDocument as error:
        error.place = error.place or place
        yield error
    except OSError as error:
        yield _broken(error, place) if _is_packing(error) else unreadable(place, error)
    except _BROKEN as error:
        yield _broken(error, place)


def unpack_archive(path: Path, folder: Path, limits: SourceLimits) -> None:
    """Write the files of an archive into ``folder``.

    Links, devices and members whose paths leave the archive are left out. Sizes are checked before
    anything is written, and again while it is written.

    :raises InvalidDocument: if the archive is broken, a bomb, or has a member that cannot be read
    """
    members = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    try:
        survey = _Survey("", path.stat().st_size, limits)
        with path.open("rb") as stream:
            for member in members(stream, limits):
                survey.add(member)
        with path.open("rb") as stream:
            for member in members(stream, limits):
                name = _clean(member.name)
                if _leaves(member) or not name:
                    continue
                _check_method(member, name)
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as content, target.open("wb") as output:
                    output.write(read_bounded(content, name, limits))
    except OSError as error:
        raise (_broken(error, "") if _is_packing(error) else unreadable("", error)) from None
    except _BROKEN as error:
        raise _broken(error, "") from None


def _is_packing(error: OSError) -> bool:
    """Whether the content rather than the disk is broken; gzip raises ``OSError`` for both."""
    return isinstance(error, gzip.BadGzipFile) or error.errno is None


def _broken(error: Exception, place: str) -> InvalidDocument:
    reason = Reason.ARCHIVE_BOMB if isinstance(error, _ForgedHeader) else Reason.ARCHIVE_BROKEN
    cause = cause_of(error) if str(error) else "the archive is truncated"
    return InvalidDocument(reason, cause, place=place)


@dataclass(slots=True)
class _Survey:
    """Counts and sizes of the members of an archive.

    :param parts: number of unread files of each inspection folder
    """

    place: str
    packed: int
    limits: SourceLimits
    parts: Counter[str] = field(default_factory=Counter)
    members: int = 0
    size: int = 0

    def add(self, member: _Member) -> None:
        """Count one member."""
        self.members += 1
        self.size += max(member.size, 0)
        if self.members > self.limits.members:
            raise bomb(f"more than {self.limits.members} members", self.place)
        if self.size > self.limits.archive_bytes:
            raise bomb(f"unpacks to more than {self.limits.archive_bytes} bytes", self.place)
        if self.size > BOMB_FLOOR_BYTES and self.size > self.limits.ratio * self.packed:
            raise bomb(f"{self.packed} bytes claim to unpack to {self.size} and more", self.place)
        part = inspection_part(_clean(member.name))
        if part and not _leaves(member):
            self.parts[part[0]] += 1


@dataclass(slots=True)
class _IncompleteFolder:
    """The files of an inspection folder that were read so far."""

    files: dict[str, bytes] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _Reader:
    source: str
    place: str
    limits: SourceLimits
    survey: _Survey
    pending: dict[str, _IncompleteFolder] = field(default_factory=dict)
    held: int = 0
    refused: dict[str, InvalidDocument] = field(default_factory=dict)

    def documents(self, members: Iterator[_Member]) -> Iterator[SourceItem]:
        """Yield each document as soon as all its files were read."""
        for member in members:
            name = _clean(member.name)
            part = inspection_part(name)
            if _leaves(member):
                shown = member.name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
                message = "leaves the archive, or is a link or a device"
                place = self._inside(shown[:500])
                yield InvalidDocument(Reason.ARCHIVE_PATH, message, place=place)
            elif part:
                yield from self._part(member, *part)
            else:
                yield from self._file(member, name, self._inside(name))

    def _file(self, member: _Member, name: str, inside: str) -> Iterator[SourceItem]:
        """Yield a document, the lines of a file or another file."""

        def opened() -> BinaryIO:
            if member.method not in _METHODS:
                raise NotImplementedError
            return member.open()

        try:
            if is_document(name):
                raw = RawDocument(self.source, inside, data=self._read(member, inside))
                yield screen_document(raw, self.limits)
            elif is_lines(name, self.limits):
                _check_method(member, inside)
                yield from documents_in_lines(member.open, name, self.source, inside, self.limits)
            else:
                errors = (OSError, *_BROKEN)
                yield other_file(opened, self.source, inside, self.limits, errors, in_archive=True)
        except InvalidDocument as error:
            yield error

    def _part(self, member: _Member, folder: str, inner: str) -> Iterator[SourceItem]:
        self.survey.parts[folder] -= 1
        if folder not in self.refused:
            place = self._inside(folder)
            try:
                try:
                    data = self._read(member, place)
                except InvalidDocument as error:
                    raise of_part(error, place, inner) from None
                self._keep(folder, inner, data)
            except InvalidDocument as error:
                self._release(folder)
                self.refused[folder] = error
        if self.survey.parts[folder] == 0:
            refusal = self.refused.pop(folder, None)
            files = self._release(folder)
            yield refusal or RawDocument(self.source, self._inside(folder), files=files)

    def _keep(self, folder: str, inner: str, data: bytes) -> None:
        pending = self.pending.setdefault(folder, _IncompleteFolder())
        grown = len(data) - len(pending.files.get(inner, b""))
        pending.files[inner] = data
        pending.size += grown
        self.held += grown
        if pending.size > self.limits.document_bytes:
            raise too_large(self._inside(folder), None, self.limits)
        if self.held > 4 * self.limits.document_bytes:
            # Real archives keep a folder's files together, so that few are incomplete at a time.
            raise bomb("files of too many folders are interleaved", self._inside(folder))

    def _release(self, folder: str) -> dict[str, bytes]:
        pending = self.pending.pop(folder, _IncompleteFolder())
        self.held -= pending.size
        return pending.files

    def _read(self, member: _Member, inside: str) -> bytes:
        _check_method(member, inside)
        if member.size > self.limits.document_bytes:
            raise too_large(inside, member.size, self.limits)
        with member.open() as stream:
            if is_gzipped_document(member.name):
                return unpack_document(stream, member.size, inside, self.limits)
            return read_bounded(stream, inside, self.limits)

    def _inside(self, name: str) -> str:
        return "/".join(part for part in (self.place, name) if part)


def _check_method(member: _Member, inside: str) -> None:
    if member.method not in _METHODS:
        name = _OTHER_METHODS.get(member.method, f"method {member.method}")
        raise InvalidDocument(
            Reason.ARCHIVE_BROKEN,
            f"packed with {name}; only stored and deflated members are read",
            place=inside,
        )


def _clean(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _leaves(member: _Member) -> bool:
    name = member.name.replace("\\", "/")
    absolute = name.startswith("/") or name[1:3] == ":/"
    return not member.regular or absolute or ".." in name.split("/")


def _tar_members(stream: BinaryIO, limits: SourceLimits) -> Iterator[_Member]:
    magic = stream.read(2)
    stream.seek(0)
    unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if magic == b"\x1f\x8b" else stream
    bounded = cast(BinaryIO, BoundedReads(unpacked))
    with tarfile.open(fileobj=bounded, mode="r:") as archive:
        while (info := archive.next()) is not None:
            if not info.isdir():
                opener = partial(_open_in_tar, archive, info)
                yield _Member(info.name, info.size, info.isreg(), opener)
            # Otherwise tarfile keeps every header. typeshed does not know the attribute.
            archive.members = []  # type: ignore[attr-defined]


def _open_in_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> BinaryIO:
    stream = archive.extractfile(info)
    if stream is None:
        raise tarfile.ReadError("a member without content")
    return cast(BinaryIO, stream)


def _zip_members(stream: BinaryIO, limits: SourceLimits) -> Iterator[_Member]:
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            kind = stat.S_IFMT(info.external_attr >> 16)
            regular = kind in (0, stat.S_IFREG)
            opener = cast(Opener, partial(archive.open, info))
            yield _Member(info.filename, info.file_size, regular, opener, info.compress_type)


def count_in_zip(path: str) -> int | None:
    """Count the documents that a zip file's directory lists; ``None`` if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [_clean(name) for name in archive.namelist()]
    except (OSError, *_BROKEN):
        return None
    folders = {part[0] for part in map(inspection_part, names) if part}
    return len(folders) + sum(is_document(name) for name in names) or None
