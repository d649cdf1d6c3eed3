"""Metadata inside wheels and source distributions, with bounds against hostile archives."""

from __future__ import annotations

import bz2
import gzip
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

from common.errors import IndexFault, IndexProblem
from common.http.fetching import too_large

#: Bytes of a table of contents; the largest wheels have 1.5 MB.
_TABLE = 16 << 20
#: Bytes that are decompressed to reach a member.
_UNPACKED = 512 << 20
#: Bytes of one read; only invalid headers ask for more.
_READING = 16 << 20
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
    OSError, ValueError, NotImplementedError, RuntimeError, OverflowError, KeyError,
)  # fmt: skip

_PACKERS: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


def wheel_metadata(file: BinaryIO, filename: str, limit: int) -> bytes:
    """METADATA of a wheel. Reads only the end, the table of contents and that member.

    :param limit: bytes, compressed and decompressed
    :raises IndexProblem: ``malformed`` or ``too_large``
    """
    with _typed(filename), zipfile.ZipFile(cast(BinaryIO, _Bounded(file, _TABLE))) as archive:
        info = _member(archive, filename)
        if max(info.file_size, info.compress_size) > limit:
            raise too_large(f"METADATA of {filename}", limit)
        with archive.open(info) as member:
            return member.read(limit + 1)


def wheel_span(file: BinaryIO, filename: str, limit: int) -> tuple[int, int]:
    """Offsets of METADATA with its header in a wheel: first byte, and first byte after it.

    :raises IndexProblem: ``malformed`` or ``too_large``
    """
    with _typed(filename), zipfile.ZipFile(cast(BinaryIO, _Bounded(file, _TABLE))) as archive:
        info = _member(archive, filename)
        if max(info.file_size, info.compress_size) > limit:
            raise too_large(f"METADATA of {filename}", limit)
        starts = [it.header_offset for it in archive.infolist()]
        later = [it for it in (*starts, archive.start_dir) if it > info.header_offset]
        # A header is 30 bytes, a name and an extra field of at most 65,535 bytes each.
        longest = info.header_offset + 30 + 2 * 0xFFFF + info.compress_size
        return info.header_offset, min([*later, longest])


def sdist_metadata(file: BinaryIO, filename: str, limit: int) -> bytes | None:
    """PKG-INFO of a source distribution, or ``None`` if it has none.

    :raises IndexProblem: ``malformed`` or ``too_large``
    """
    with _typed(filename):
        if filename.endswith(".zip"):
            return _from_zip(file, filename, limit)
        with _unpacked(file) as stream:
            return _from_tar(stream, filename, limit)


def _member(archive: zipfile.ZipFile, filename: str) -> zipfile.ZipInfo:
    members = {
        canonicalize_name(it.filename.partition("-")[0]): it
        for it in archive.infolist()
        if it.filename.endswith(".dist-info/METADATA") and it.filename.count("/") == 1
    }
    project = canonicalize_name(filename.partition("-")[0])
    if project in members:
        return members[project]
    if len(members) != 1:
        raise ValueError(f"{len(members)} members are METADATA")
    return next(iter(members.values()))


def _from_zip(file: BinaryIO, filename: str, limit: int) -> bytes | None:
    with zipfile.ZipFile(cast(BinaryIO, _Bounded(file, _TABLE))) as archive:
        for info in archive.infolist():
            if _is_pkg_info(info.filename):
                if info.file_size > limit:
                    raise too_large(f"PKG-INFO of {filename}", limit)
                return archive.read(info)
    return None


def _from_tar(stream: BinaryIO, filename: str, limit: int) -> bytes | None:
    bounded = cast(BinaryIO, _Bounded(stream, _READING, _UNPACKED))
    with tarfile.open(fileobj=bounded, mode="r:") as archive:
        for info in archive:
            if not (info.isreg() and _is_pkg_info(info.name)):
                continue
            if info.size > limit:
                raise too_large(f"PKG-INFO of {filename}", limit)
            member = archive.extractfile(info)
            return member.read() if member else None
    return None


def _is_pkg_info(name: str) -> bool:
    folder, _, rest = name.removeprefix("./").partition("/")
    return bool(folder) and rest == "PKG-INFO"


def _unpacked(file: BinaryIO) -> BinaryIO:
    """Decompress a tar archive; its first bytes decide how, not its name."""
    beginning = file.read(6)
    file.seek(0)
    for mark, opened in _PACKERS.items():
        if beginning.startswith(mark):
            return cast(BinaryIO, opened(file))
    raise ValueError("unknown compression")


class _Bounded(io.RawIOBase):
    """A file with a limit for a single read and, optionally, for the offset.

    :param reading: bytes of a single read
    :param end: offset after which nothing is read
    """

    def __init__(self, file: BinaryIO, reading: int, end: int | None = None) -> None:
        self._file = file
        self._reading = reading
        self._end = end

    def read(self, size: int = -1) -> bytes:
        if size > self._reading or (size < 0 and self._end is not None):
            raise too_large("a part of an archive", self._reading)
        self._check(self._file.tell() + max(size, 0))
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0:
            self._check(offset)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def _check(self, offset: int) -> None:
        if self._end is not None and offset > self._end:
            raise too_large("a decompressed archive", self._end)


@contextmanager
def _typed(filename: str) -> Iterator[None]:
    """Turn errors of the archive libraries into ``malformed``."""
    try:
        yield
    except _BROKEN as error:
        what = f"{filename} is broken: {str(error) or type(error).__name__}"
        raise IndexProblem(IndexFault.MALFORMED, what[:300]) from error
