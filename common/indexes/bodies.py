"""Bodies of answers, unpacked and bounded."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterator
from typing import BinaryIO

from common.errors import IndexFault, IndexProblem
from common.indexes.words import cut

_PACKED = ("gzip", "x-gzip")
#: Bytes unpacked at once.
_STEP = 1 << 20


async def unpack(
    pieces: AsyncIterable[bytes], encoding: str, limit: int, into: BinaryIO, what: str
) -> int:
    """Write a body to ``into``; how many bytes were transferred.

    :param encoding: the header ``Content-Encoding``, or empty text
    :param limit: bytes, of what is transferred and of what is written
    :raises IndexProblem: ``too_large``, ``truncated`` or ``malformed``
    """
    kind = encoding.strip().lower()
    if kind in _PACKED:
        return await _unzip(pieces, limit, into, what)
    if kind not in ("", "identity"):
        raise IndexProblem(IndexFault.MALFORMED, f"{what} is packed as {cut(kind)!r}")
    received = 0
    async for piece in pieces:
        received += len(piece)
        _check(received, limit, what)
        into.write(piece)
    return received


async def _unzip(pieces: AsyncIterable[bytes], limit: int, into: BinaryIO, what: str) -> int:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    received = written = 0
    async for piece in pieces:
        received += len(piece)
        _check(received, limit, what)
        for unpacked in _steps(unpacker, piece, what):
            written += len(unpacked)
            _check(written, limit, what)
            into.write(unpacked)
    if not unpacker.eof:
        raise IndexProblem(
            IndexFault.TRUNCATED, f"{what} ends before its packed end", retryable=True
        )
    return received


def _steps(unpacker: zlib._Decompress, piece: bytes, what: str) -> Iterator[bytes]:
    """Unpack in steps: a piece that grows a thousandfold is never held as a whole."""
    while not unpacker.eof:
        try:
            unpacked = unpacker.decompress(piece, _STEP)
        except zlib.error as error:
            message = f"{what} cannot be unpacked: {error}"
            raise IndexProblem(IndexFault.MALFORMED, message) from None
        yield unpacked
        piece = unpacker.unconsumed_tail
        if not piece and len(unpacked) < _STEP:
            return


def _check(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise too_large(what, limit)


def too_large(what: str, limit: int) -> IndexProblem:
    """More than what is read of such a thing."""
    return IndexProblem(IndexFault.TOO_LARGE, f"{what} is larger than {limit:,} bytes")
