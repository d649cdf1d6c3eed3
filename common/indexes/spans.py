"""A file of which only some parts are known."""

from __future__ import annotations

import io
import re

from common.errors import IndexFault, IndexProblem

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class MissingSpan(Exception):
    """A part that was read and is not known: first byte, and the one behind the last."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"bytes {start} to {end} are not known")
        self.start = start
        self.end = end


class SparseFile(io.RawIOBase):
    """Reads like a file of ``size`` bytes; a part that is not known raises MissingSpan."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._spans: list[tuple[int, bytes]] = []
        self._place = 0

    def add(self, start: int, data: bytes) -> None:
        """Learn a part."""
        self._spans.append((start, data))

    def need(self, start: int, end: int) -> None:
        """Raise unless all between is known.

        :raises MissingSpan: for what is not
        """
        self._place = start
        self.read(end - start)

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self._place + size, self.size)
        pieces = []
        while self._place < end:
            pieces.append(self._piece(self._place, end))
            self._place += len(pieces[-1])
        return b"".join(pieces)

    def seek(self, place: int, whence: int = 0) -> int:
        self._place = place + {0: 0, 1: self._place, 2: self.size}[whence]
        if self._place < 0:
            self._place = 0
            raise OSError("before the beginning")
        return self._place

    def tell(self) -> int:
        return self._place

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def _piece(self, place: int, end: int) -> bytes:
        for start, data in self._spans:
            if start <= place < start + len(data):
                return data[place - start : end - start]
        known = [start for start, _ in self._spans if start > place]
        raise MissingSpan(place, min([end, *known]))


def content_range(header: str, length: int, what: str) -> tuple[int, int]:
    """First byte and size of the file, of an answer that is a part of ``length`` bytes.

    :raises IndexProblem: ``malformed``, if the header says something else
    """
    found = _RANGE.fullmatch(header.strip())
    if found is not None:
        first, last, size = (int(it) for it in found.groups())
        if first <= last < size and last - first + 1 == length:
            return first, size
    raise IndexProblem(IndexFault.MALFORMED, f"{what}: a part that does not say which it is")
