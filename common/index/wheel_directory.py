"""Reads module names from the known part of the central directory of a wheel.

The end of a wheel is fetched for its METADATA anyway. For most wheels, this end contains the whole
directory. Nothing else is fetched here.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from common.index.partial_zip import (
    ELSEWHERE,
    END_MARK,
    END_RECORD,
    ENTRY,
    ENTRY_MARK,
    HEADER,
    MissingSpan,
)
from model.packages.import_names import ImportNames, names_at_end, names_in_wheel

#: Bytes at the end of a wheel in which its end record is searched.
_END = 4 << 10
#: Bytes of a directory; the largest wheels have 2.9 MB.
_LARGEST = 16 << 20
#: Bytes of a text file in ``.dist-info``.
_LONGEST_TEXT = 64 << 10
#: Marks of an entry that are tried as the first one; the bytes of a name may look like a mark.
_ATTEMPTS = 8
#: Flags, and lengths of name, extra fields and comment, with their place in an entry.
_FLAGS, _LENGTHS = 8, struct.Struct("<H18x3H")
_UTF8 = 0x800
_TEXT = re.compile(r"[^/]+\.dist-info/([^/]+\.txt)")
_STORED, _DEFLATED = 0, 8


@dataclass(frozen=True, slots=True)
class WheelDirectory:
    """The known entries of a central directory.

    :param paths: of the members, in their order
    :param texts: entries of the text files in ``.dist-info``, by file name
    :param complete: whether these are all entries
    """

    paths: tuple[str, ...]
    texts: Mapping[str, bytes]
    complete: bool


def import_names_in(wheel: BinaryIO) -> ImportNames | None:
    """The names that a wheel makes importable, from the known part of its central directory.

    :param wheel: may raise :class:`MissingSpan` for unknown parts
    :returns: ``None`` if its directory cannot be read
    """
    directory = directory_of(wheel)
    if directory is None:
        return None
    if directory.complete:
        namespaces = _text(wheel, directory, "namespace_packages.txt").split()
        return names_in_wheel(directory.paths, namespaces)
    texts = (_text(wheel, directory, it) for it in ("top_level.txt", "entry_points.txt"))
    return names_at_end(directory.paths, *texts)


def directory_of(wheel: BinaryIO) -> WheelDirectory | None:
    """The central directory of a wheel, or as much of the directory's end as is known.

    :returns: ``None`` if it is broken, in the format for files above 4 GiB, or beyond the limits
    """
    place = _place(wheel)
    if place is None:
        return None
    table, length, count = place
    try:
        wheel.seek(table)
        directory = _parsed(wheel.read(length), 0, complete=True)
    except MissingSpan as missing:
        return _known_end(wheel, missing.end, table + length)
    return directory if directory and len(directory.paths) == count else None


def _place(wheel: BinaryIO) -> tuple[int, int, int] | None:
    """Offset, bytes and entries of the directory, from the end record."""
    try:
        size = wheel.seek(0, io.SEEK_END)
        wheel.seek(max(0, size - _END))
        end = wheel.read(_END)
    except MissingSpan:
        return None
    mark = end.rfind(END_MARK)
    if mark < 0 or len(end) - mark < END_RECORD.size:
        return None
    *_, count, length, table, comment = END_RECORD.unpack_from(end, mark)
    # Wheels have no bytes before the archive or behind it.
    whole = mark + END_RECORD.size + comment == len(end)
    if not whole or table + length != size - len(end) + mark:
        return None
    return None if length > _LARGEST or ELSEWHERE in (length, table) else (table, length, count)


def _known_end(wheel: BinaryIO, first: int, last: int) -> WheelDirectory | None:
    """The entries between two offsets; the first offset may lie inside an entry."""
    wheel.seek(first)
    try:
        data = wheel.read(last - first)
    except MissingSpan:
        return None
    start = -1
    for _ in range(_ATTEMPTS):
        start = data.find(ENTRY_MARK, start + 1)
        if start < 0:
            return None
        directory = _parsed(data, start, complete=False)
        if directory is not None:
            return directory
    return None


def _parsed(data: bytes, start: int, *, complete: bool) -> WheelDirectory | None:
    """The entries from ``start`` on; ``None`` if they do not end exactly with ``data``."""
    paths, texts = [], {}
    while start + ENTRY.size <= len(data):
        if data[start : start + 4] != ENTRY_MARK:
            return None
        flags, named, extra, comment = _LENGTHS.unpack_from(data, start + _FLAGS)
        name_end = start + ENTRY.size + named
        path = data[start + ENTRY.size : name_end].decode(
            "utf-8" if flags & _UTF8 else "cp437", "replace"
        )
        paths.append(path)
        if path.endswith(".txt") and (match := _TEXT.fullmatch(path)):
            texts[match[1]] = data[start : start + ENTRY.size]
        start = name_end + extra + comment
    return WheelDirectory(tuple(paths), texts, complete) if start == len(data) else None


def _text(wheel: BinaryIO, directory: WheelDirectory, filename: str) -> str:
    """A text file in ``.dist-info``; empty if there is none, or if its bytes are not known."""
    entry = directory.texts.get(filename)
    if entry is None:
        return ""
    fields = ENTRY.unpack(entry)
    method, packed, offset = fields[4], fields[8], fields[16]
    if packed > _LONGEST_TEXT or method not in (_STORED, _DEFLATED):
        return ""
    try:
        wheel.seek(offset)
        header = wheel.read(HEADER)
        named = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        wheel.seek(offset + HEADER + named)
        data = wheel.read(packed)
        if method == _DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _LONGEST_TEXT)
    except (MissingSpan, OSError, zlib.error):
        return ""
    return data.decode("utf-8", "replace")
