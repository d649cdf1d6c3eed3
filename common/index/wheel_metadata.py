"""METADATA of wheels, with bounds against hostile archives."""

from __future__ import annotations

import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name

from common.http.fetching import too_large
from model.errors import IndexFault, IndexProblem

#: Bytes of a table of contents; the largest wheels have 1.5 MB.
_TABLE = 16 << 20
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
    OSError, ValueError, NotImplementedError, RuntimeError, OverflowError, KeyError,
)  # fmt: skip


def wheel_metadata(
    file: BinaryIO,
    filename: str,
    limit: int,
    need: Callable[[int, int], object] = lambda _first, _end: None,
) -> bytes:
    """METADATA of a wheel; only the wheel's end, its table of contents and METADATA are read.

    :param limit: bytes, compressed and decompressed
    :param need: called with the offsets of METADATA with its header, before these are read: first
        byte, and first byte after it
    :raises IndexProblem: ``malformed`` or ``too_large``
    """
    with _opened(file, filename, limit) as (archive, info):
        need(*_span(archive, info))
        with archive.open(info) as member:
            return member.read(limit + 1)


def _span(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[int, int]:
    starts = [it.header_offset for it in archive.infolist()]
    later = [it for it in (*starts, archive.start_dir) if it > info.header_offset]
    # A header is 30 bytes, a name and an extra field of at most 65,535 bytes each.
    longest = info.header_offset + 30 + 2 * 0xFFFF + info.compress_size
    return info.header_offset, min([*later, longest])


@contextmanager
def _opened(
    file: BinaryIO, filename: str, limit: int
) -> Iterator[tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
    """A wheel and the entry of its METADATA, which is no larger than ``limit``."""
    with (
        broken_archive(filename),
        zipfile.ZipFile(cast(BinaryIO, _Bounded(file, _TABLE))) as archive,
    ):
        info = _member(archive, filename)
        if max(info.file_size, info.compress_size) > limit:
            raise too_large(f"METADATA of {filename}", limit)
        yield archive, info


def _member(archive: zipfile.ZipFile, filename: str) -> zipfile.ZipInfo:
    members = {
        canonicalize_name(it.filename.partition("-")[0]): it
        for it in archive.infolist()
        if it.filename.endswith(".dist-info/METADATA") and it.filename.count("/") == 1
    }
    project = canonicalize_name(filename.partition("-")[0])
    if project in members:
        return members[project]
    if not members:
        raise ValueError("it contains no METADATA")
    if len(members) > 1:
        raise ValueError(f"{len(members)} members are METADATA")
    return next(iter(members.values()))


class _Bounded(io.RawIOBase):
    """A file with a limit for a single read, in bytes."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file = file
        self._most_bytes = most_bytes

    def read(self, size: int = -1) -> bytes:
        if size > self._most_bytes:
            raise too_large("a part of an archive", self._most_bytes)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


@contextmanager
def broken_archive(filename: str) -> Iterator[None]:
    """Turn errors of the archive libraries into ``malformed``.

    :raises IndexProblem: ``malformed``
    """
    try:
        yield
    except _BROKEN as error:
        what = f"{filename}: {str(error) or type(error).__name__}"
        raise IndexProblem(IndexFault.MALFORMED, what[:300]) from error
