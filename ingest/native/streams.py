"""Bytes that may be packed, read forwards only and within bounds."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, Any, BinaryIO, cast

import zstandard

from common.errors import InvalidDocument
from common.reasons import Reason

MEBIBYTE = 1024 * 1024
#: No header of an archive is that long; a longer read was asked for by a forged one.
_LONGEST_READ = 64 * MEBIBYTE
#: What broken packing raises.
BROKEN_STREAM = (gzip.BadGzipFile, zlib.error, EOFError, zstandard.ZstdError)


class Bounded(io.RawIOBase):
    """A stream that is read forwards, ends a bomb early and counts what it gave.

    ``tarfile`` skips what it does not want by seeking, which here reads.

    :param limit: bytes that it gives in all
    :param name: for the error
    """

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        self._stream = stream
        self._limit = limit
        self._name = name
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > _LONGEST_READ:
            raise self._bomb("a header claims to be longer than 64 MiB")
        parts = []
        while size and (part := self._stream.read(size)):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
            if self._at > self._limit:
                raise self._bomb(f"unpacks to more than {self._limit} bytes")
        return b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        left = offset - self._at
        if whence != io.SEEK_SET or left < 0:
            raise io.UnsupportedOperation("it is read forwards only")
        while left > 0 and (part := self.read(min(left, MEBIBYTE))):
            left -= len(part)
        return self._at

    def tell(self) -> int:
        return self._at

    def _bomb(self, message: str) -> InvalidDocument:
        return InvalidDocument(Reason.ARCHIVE_BOMB, message, place=self._name)


def unpacked(stream: IO[bytes], limit: int, name: str) -> BinaryIO:
    """``stream`` unpacked, by its first bytes: gzip, Zstandard or not packed."""
    start = stream.read(4)
    stream.seek(-len(start), io.SEEK_CUR)
    if start[:2] == b"\x1f\x8b":
        plain: Any = gzip.GzipFile(fileobj=stream)
    elif start == b"\x28\xb5\x2f\xfd":
        # A frame asks for the window that its header names: bounded as the tool itself does.
        unpacker = zstandard.ZstdDecompressor(max_window_size=128 * MEBIBYTE)
        plain = unpacker.stream_reader(stream, read_across_frames=True)
    else:
        plain = stream
    return cast(BinaryIO, Bounded(plain, limit, name))


def copy_bounded(source: IO[bytes], target: IO[bytes], limit: int) -> None:
    """Copy, and refuse a stream that is longer than it claimed.

    :raises InvalidDocument: after ``limit`` bytes
    """
    left = limit
    while chunk := source.read(MEBIBYTE):
        left -= len(chunk)
        if left < 0:
            raise InvalidDocument(
                Reason.ARCHIVE_BOMB, f"longer than the {limit} bytes that it claims"
            )
        target.write(chunk)
