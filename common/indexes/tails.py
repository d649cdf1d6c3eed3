"""METADATA of a wheel of which only the end is known, not even its table of contents.

Tables of large wheels have up to 1.5 MB, of which one entry is needed; it is usually among
the last. Its member alone, that entry and an end make an archive that is read as any other.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from common.indexes.archives import wheel_metadata

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
