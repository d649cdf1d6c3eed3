"""METADATA of wheels, and names of their modules, also from parts of a remote wheel.

Hostile archives meet bounds. The table of contents of a large wheel takes up to 1.5 MB. Only the
entry of METADATA is needed, and that entry is usually one of the last. That entry, its member and
an end record make a small archive that is read like any other archive. For most wheels, the end
that is fetched for it has the whole table, which names the modules; nothing else is fetched.
"""

import io
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name

from common.http.fetching import too_large
from model.errors import IndexFault, IndexProblem
from model.packages.import_names import ImportNames, names_at_end, names_in_wheel

#: Maximum bytes of a table of contents; the largest wheels have 1.5 MB.
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


_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class MissingSpan(Exception):
    """Raised on reading unknown bytes, with the offsets of their start and end."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"bytes {start} to {end} are not known")
        self.start = start
        self.end = end


class SparseFile(io.RawIOBase):
    """Behaves like a file of ``size`` bytes; reading an unknown part raises MissingSpan."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._spans: list[tuple[int, bytes]] = []
        self._offset = 0

    def add(self, start: int, data: bytes) -> None:
        """Add a known part."""
        self._spans.append((start, data))

    def need(self, start: int, end: int) -> None:
        """Check that all bytes between two offsets are known.

        :raises MissingSpan: for the first unknown part
        """
        self._offset = start
        self.read(end - start)

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self._offset + size, self.size)
        pieces = []
        while self._offset < end:
            pieces.append(self._piece(self._offset, end))
            self._offset += len(pieces[-1])
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._offset = offset + {0: 0, 1: self._offset, 2: self.size}[whence]
        if self._offset < 0:
            self._offset = 0
            raise OSError("before the beginning")
        return self._offset

    def tell(self) -> int:
        return self._offset

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def _piece(self, offset: int, end: int) -> bytes:
        for start, data in self._spans:
            if start <= offset < start + len(data):
                return data[offset - start : end - start]
        known = [start for start, _ in self._spans if start > offset]
        raise MissingSpan(offset, min([end, *known]))


def content_range(header: str, length: int, what: str) -> tuple[int, int]:
    """First byte and size of the file, from the ``Content-Range`` of a part of ``length`` bytes.

    :raises IndexProblem: ``malformed``, if the header is invalid or contradicts the length
    """
    match = _RANGE.fullmatch(header.strip())
    if match is not None:
        first, last, size = map(int, match.groups())
        if first <= last < size and last - first + 1 == length:
            return first, size
    raise IndexProblem(
        IndexFault.MALFORMED, f"{what}: a partial response without a valid Content-Range"
    )


_SUFFIX = b".dist-info/METADATA"
#: Central directory: file header and end record (APPNOTE.TXT 4.3.12 and 4.3.16).
ENTRY = struct.Struct("<4s6H3L5H2L")
END_RECORD = struct.Struct("<4s4H2LH")
ENTRY_MARK, END_MARK = b"PK\x01\x02", b"PK\x05\x06"
#: Marks a number that is too large for its field and stored elsewhere.
ELSEWHERE = 0xFFFFFFFF
#: Length of a local file header without its name, and an upper bound of its extra fields.
HEADER, _FIELDS = 30, 512
#: Bytes read behind METADATA, where most tools write ``top_level.txt`` and ``entry_points.txt``.
_NEIGHBOURS = 1024
_LONGEST_NAME = 512


@dataclass(frozen=True, slots=True)
class TailEntry:
    """Offsets of METADATA (first byte, first byte after it) and its directory entry."""

    start: int
    end: int
    record: bytes

    def read(self, span: bytes, filename: str, limit: int) -> bytes:
        """METADATA, from the bytes between ``start`` and ``end``.

        :raises IndexProblem: ``malformed``, also if the local header is longer than estimated
        """
        end = END_RECORD.pack(END_MARK, 0, 0, 1, 1, len(self.record), len(span), 0)
        return wheel_metadata(io.BytesIO(span + self.record + end), filename, limit)


def directory_start(tail: bytes, size: int) -> int | None:
    """Offset of the directory in the file; ``None`` in every doubtful case.

    :param tail: the last bytes of the file
    :param size: bytes of the whole file
    """
    end = tail.rfind(END_MARK)
    if end < 0 or len(tail) - end < END_RECORD.size:
        return None
    *_, length, table, comment = END_RECORD.unpack_from(tail, end)
    first = size - len(tail)
    whole = end + END_RECORD.size + comment == len(tail) and table + length == first + end
    return int(table) if whole else None


def entry_in_tail(tail: bytes, size: int, filename: str, limit: int) -> TailEntry | None:
    """The directory entry of the wheel's METADATA, if the known part of the directory contains it.

    :param tail: the last bytes of the file, at most from the start of the directory
    :param size: bytes of the whole file
    :param limit: bytes of METADATA, compressed
    :returns: ``None`` in every doubtful case
    """
    table = directory_start(tail, size)
    if table is None or table > size - len(tail):
        return None
    end = tail.rfind(END_MARK)
    project = canonicalize_name(filename.partition("-")[0])
    suffix = tail.find(_SUFFIX, 0, end)
    while suffix >= 0:
        entry = _entry(tail, suffix + len(_SUFFIX), project, table, limit)
        if entry is not None:
            return entry
        suffix = tail.find(_SUFFIX, suffix + 1, end)
    return None


def _entry(tail: bytes, end: int, project: str, table: int, limit: int) -> TailEntry | None:
    """The entry whose name ends at ``end``, if it is METADATA of ``project``."""
    begin = tail.rfind(ENTRY_MARK, max(0, end - ENTRY.size - _LONGEST_NAME), end)
    if begin < 0 or begin + ENTRY.size > end:
        return None
    name = tail[begin + ENTRY.size : end]
    fields = list(ENTRY.unpack_from(tail, begin))
    packed, named, offset = fields[8], fields[10], fields[16]
    owner = canonicalize_name(name.partition(b"-")[0].decode("ascii", "replace"))
    if named != len(name) or b"/" in name.removesuffix(b"/METADATA") or owner != project:
        return None
    if ELSEWHERE in fields[8:10] or packed > limit or offset + HEADER + named + packed > table:
        return None
    # Drop extra fields and comment, and make it the first member of the archive.
    fields[11] = fields[12] = fields[16] = 0
    last = min(table, offset + HEADER + named + packed + _FIELDS + _NEIGHBOURS)
    return TailEntry(offset, last, ENTRY.pack(*fields) + name)


#: Bytes at the end of a wheel in which its end record is searched.
_END = 4 << 10
#: Maximum bytes of a directory; the largest wheels have 2.9 MB.
_LARGEST = 16 << 20
#: Maximum bytes of a text file in ``.dist-info``.
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
