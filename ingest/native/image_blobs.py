"""Reads the files of an image archive, in a folder or in a tar file."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

import orjson

from ingest.native.file_trees import (
    BROKEN_STREAM,
    MEBIBYTE,
    FolderTree,
    copy_bounded,
    open_decompressed,
    resolve,
)
from model.errors import InvalidDocument
from model.reasons import Reason

_JSON_BYTES = 4 * MEBIBYTE
_MOST_BLOBS = 100_000
_ARCHIVE_BYTES = 128 * 1024 * MEBIBYTE
_LONGEST_READ = 64 * MEBIBYTE
_MOST_LINKS = 8


class Blobs(Protocol):
    """Files of an image by name."""

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""

    def open(self, name: str) -> BinaryIO:
        """Return a new, seekable stream.

        :raises InvalidDocument: if there is no such file
        """


class FolderBlobs:
    """Files of a folder; links within it are followed."""

    def __init__(self, folder: Path) -> None:
        self._tree = FolderTree(folder)

    def has(self, name: str) -> bool:
        real = resolve(self._tree, name)
        return real is not None and self._tree.is_file(real)

    def open(self, name: str) -> BinaryIO:
        real = resolve(self._tree, name)
        try:
            if real is not None:
                return cast(BinaryIO, self._tree.open(real))
        except OSError as error:
            raise absent(name, error.strerror) from error
        raise absent(name)


class TarBlobs:
    """Files of an uncompressed tar file; links within it are followed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        with path.open("rb") as stream, _reading_tar(path.name):
            guarded = cast(BinaryIO, _Slice(stream, 0, path.stat().st_size))
            with tarfile.open(fileobj=guarded, mode="r:") as archive:
                while (member := archive.next()) is not None:
                    self._add(member)
                    archive.members = []  # type: ignore[attr-defined]

    def _add(self, member: tarfile.TarInfo) -> None:
        name = posixpath.normpath(member.name)
        if member.isreg() and not member.issparse():
            self._places[name] = (member.offset_data, member.size)
        elif member.issym():
            self._links[name] = posixpath.join(posixpath.dirname(name), member.linkname)
        elif member.islnk():
            self._links[name] = member.linkname
        if len(self._places) + len(self._links) > _MOST_BLOBS:
            raise TooManyBlobs(Reason.ARCHIVE_BOMB, f"more than {_MOST_BLOBS} files")

    def _place(self, name: str) -> tuple[int, int] | None:
        for _ in range(_MOST_LINKS):
            name = posixpath.normpath(name)
            if name not in self._links:
                break
            name = self._links[name]
        return self._places.get(name)

    def has(self, name: str) -> bool:
        return self._place(name) is not None

    def open(self, name: str) -> BinaryIO:
        place = self._place(name)
        if place is None:
            raise absent(name)
        return cast(BinaryIO, _Slice(self._path.open("rb"), *place))


class TooManyBlobs(InvalidDocument):
    """An archive with too many files for an image: a bomb, or the tar file of a root folder."""


def absent(name: str, cause: str | None = None) -> InvalidDocument:
    """Return the error for a missing file of an image."""
    return InvalidDocument(Reason.UNREADABLE, cause or "it is not in the image", place=name[:200])


class _Slice(io.RawIOBase):
    """A part of a file; closing it closes the file."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream = stream
        self._start, self._size, self._at = start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > _LONGEST_READ:
            raise ValueError("a header claims to be longer than 64 MiB")
        self._stream.seek(self._start + self._at)
        data = self._stream.read(wanted)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextmanager
def plain_tar(path: Path) -> Iterator[Path]:
    """Yield ``path`` itself, or an unpacked temporary copy.

    :raises InvalidDocument: if the file cannot be read, or unpacks to more than any image
    """
    with path.open("rb") as stream, _reading_tar(path.name):
        packed = stream.read(4)[:2] in (b"\x1f\x8b", b"\x28\xb5")
    if not packed:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="thoth-image-") as copy:
        with path.open("rb") as stream, _reading_tar(path.name):
            copy_bounded(open_decompressed(stream, _ARCHIVE_BYTES, path.name), copy, _ARCHIVE_BYTES)
            copy.flush()
        yield Path(copy.name)


@contextmanager
def _reading_tar(name: str) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *BROKEN_STREAM) as error:
        message = str(error)[:200] or "the archive is truncated"
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=name) from error


def read_json(blobs: Blobs, name: str, sha256: str | None = None) -> Any:
    """Read a JSON file of an image.

    :param sha256: expected digest of the file
    :raises InvalidDocument: if it is missing, too large, not JSON, or has another digest
    """
    with blobs.open(name) as stream:
        data = stream.read(_JSON_BYTES + 1)
    if len(data) > _JSON_BYTES:
        raise InvalidDocument(Reason.FILE_TOO_LARGE, "more than 4 MiB of JSON", place=name[:200])
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise other_content(name)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(Reason.INVALID_JSON, str(error), place=name[:200]) from error


def check_content(blobs: Blobs, name: str, sha256: str) -> None:
    """Compare the content of a file with its digest.

    :raises InvalidDocument: if they differ
    """
    digest = hashlib.sha256()
    with blobs.open(name) as stream:
        while chunk := stream.read(MEBIBYTE):
            digest.update(chunk)
    if digest.hexdigest() != sha256:
        raise other_content(name)


def other_content(name: str) -> InvalidDocument:
    """Return the error for a file whose digest differs."""
    return InvalidDocument(
        Reason.ARCHIVE_BROKEN, "its content does not match its digest", place=name[:200]
    )
