"""Read METADATA from parts of a remote wheel.

Tables of contents of large wheels have up to 1.5 MB, of which one entry is needed; it is usually
among the last. That entry, its member and an end record make a small archive that is read as any
other.
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from common.errors import IndexFault, IndexProblem
from common.index.archives import wheel_metadata

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


_SUFFIX = b".dist-info/METADATA"
#: Entries of the table of contents and its end (APPNOTE.TXT 4.3.12 and 4.3.16).
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_ENTRY_MARK, _END_MARK = b"PK\x01\x02", b"PK\x05\x06"
#: A number that is elsewhere, as it is too large.
_ELSEWHERE = 0xFFFFFFFF
#: A member's own header is as long as this and its name; further fields are few.
_HEADER, _FIELDS = 30, 512
_LONGEST_NAME = 512


@dataclass(frozen=True, slots=True)
class TailEntry:
    """Where METADATA is: first byte and the one behind the last, and its entry."""

    start: int
    end: int
    record: bytes

    def read(self, span: bytes, filename: str, limit: int) -> bytes:
        """METADATA, of the bytes from ``start`` to ``end``.

        :raises IndexProblem: ``malformed``, also where the header is longer than was thought
        """
        end = _END.pack(_END_MARK, 0, 0, 1, 1, len(self.record), len(span), 0)
        return wheel_metadata(io.BytesIO(span + self.record + end), filename, limit)


def entry_in_tail(tail: bytes, size: int, filename: str, limit: int) -> TailEntry | None:
    """The entry of the wheel's own METADATA, if the table's known part has one.

    :param tail: the last bytes of the file
    :param size: of the whole file
    :param limit: bytes of METADATA, packed
    :returns: ``None`` where the table is known to its beginning, and wherever in doubt
    """
    end = tail.rfind(_END_MARK)
    if end < 0 or len(tail) - end < _END.size:
        return None
    *_, length, table, comment = _END.unpack_from(tail, end)
    first = size - len(tail)
    whole = end + _END.size + comment == len(tail) and table + length == first + end
    if not whole or table >= first:
        return None
    wanted = canonicalize_name(filename.partition("-")[0])
    found = tail.find(_SUFFIX, 0, end)
    while found >= 0:
        entry = _entry(tail, found + len(_SUFFIX), wanted, table, limit)
        if entry is not None:
            return entry
        found = tail.find(_SUFFIX, found + 1, end)
    return None


def _entry(tail: bytes, end: int, wanted: str, table: int, limit: int) -> TailEntry | None:
    """The entry whose name ends at ``end``, if it has one and the name is the wanted one."""
    begin = tail.rfind(_ENTRY_MARK, max(0, end - _ENTRY.size - _LONGEST_NAME), end)
    if begin < 0 or begin + _ENTRY.size > end:
        return None
    name = tail[begin + _ENTRY.size : end]
    fields = list(_ENTRY.unpack_from(tail, begin))
    packed, named, place = fields[8], fields[10], fields[16]
    project = canonicalize_name(name.partition(b"-")[0].decode("ascii", "replace"))
    if named != len(name) or b"/" in name.removesuffix(b"/METADATA") or project != wanted:
        return None
    if _ELSEWHERE in fields[8:10] or packed > limit or place + _HEADER + named + packed > table:
        return None
    # Its further fields and its comment are left out; its member is the archive's first.
    fields[11] = fields[12] = fields[16] = 0
    last = min(table, place + _HEADER + named + packed + _FIELDS)
    return TailEntry(place, last, _ENTRY.pack(*fields) + name)
