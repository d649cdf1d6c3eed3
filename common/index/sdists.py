"""Metadata of source distributions, read from their first members, without running anything.

Requirements in ``PKG-INFO`` are certain if that file says so (PEP 643). Otherwise, the requirements
in ``PKG-INFO``, or in ``*.egg-info/requires.txt`` of setuptools, are only likely: a build on
another machine may give other requirements. If neither file names a requirement and there is a
``setup.py``, they are unknown, unless an ``*.egg-info`` shows that setuptools found none.
"""

import bz2
import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Protocol, cast

from packaging.utils import canonicalize_name

from common.formats.core_metadata import parse_core_metadata
from common.http.fetching import too_large
from common.http.transport import StopReceiving
from common.index.wheel_metadata import broken_archive
from model.errors import IndexFault, IndexProblem

#: Bytes of a block of a tar archive.
_BLOCK = 512
#: Maximum bytes of an extended header, which holds a long name.
_LONGEST_HEADER = 1 << 20
_MOST_MEMBERS = 200_000
#: Characters of a path; longer ones are refused.
_LONGEST_PATH = 4_096
#: Decompressed bytes for each transferred one, and at least this many.
_MOST_RATIO, _UNPACKED = 200, 512 << 20
#: Bytes that are decompressed at once.
_STEP = 1 << 20
#: Archives up to this size, in bytes, are received completely, so that their hash can be checked.
_WHOLE_BYTES = 1 << 20
#: Bytes of one read of a local file.
_PIECE = 256 << 10


class Certainty(StrEnum):
    """Whether every build of a source distribution has the requirements that were read."""

    #: Its metadata says so (PEP 643).
    CERTAIN = "certain"
    #: They were true when it was made.
    LIKELY = "likely"
    #: It says that a build decides them, and names none.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SdistMetadata:
    """Metadata of a source distribution.

    :param text: core metadata, with the requirements of ``requires.txt`` if it has none itself
    :param certainty: how much its requirements can be relied on
    """

    text: str
    certainty: Certainty


class _Decompressor(Protocol):
    """The common part of the standard library's decompressors."""

    @property
    def eof(self) -> bool:
        """Whether the end of the data was reached."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress the next part."""


#: By the first bytes of a file; its name does not count.
_DECOMPRESSORS: dict[bytes, Callable[[], object]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(zlib.MAX_WBITS | 16),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": lzma.LZMADecompressor,
}


class SdistReader:
    """Receives a compressed tar archive part by part, until its metadata is known.

    A small archive is received completely.

    The reader stands in for the file that a response is written to. Nothing is extracted, and links
    are not followed.

    :param most_bytes: of ``PKG-INFO`` and of ``requires.txt``
    """

    def __init__(self, filename: str, most_bytes: int) -> None:
        self._filename = filename
        self._most_bytes = most_bytes
        self._project = canonicalize_name(filename.rpartition("-")[0])
        self.truncate()

    def truncate(self, size: int | None = None) -> int:
        """Forget all data, because the response starts again."""
        self._received = self._unpacked = self._members = 0
        self._digest = hashlib.sha256()
        self._decompressor: _Decompressor | None = None
        self._beginning = b""
        self._buffer = bytearray()
        self._skipped = 0
        self._long_name: str | None = None
        self._is_ended = self._is_told = False
        self._pkg_info: bytes | None = None
        self._requires: bytes | None = None
        self._marks: set[str | None] = set()
        return 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Do nothing; only :meth:`truncate` discards data."""
        return 0

    def write(self, part: bytes) -> int:
        """Take the next part.

        :raises StopReceiving: if the rest is not needed
        :raises IndexProblem: ``malformed`` or ``too_large``
        """
        self._received += len(part)
        self._digest.update(part)
        if not self._is_enough():
            self._read(part)
        if self._received > _WHOLE_BYTES and self._is_enough():
            raise StopReceiving
        return len(part)

    @property
    def digest(self) -> tuple[int, str]:
        """Number of bytes so far, and their SHA-256."""
        return self._received, self._digest.hexdigest()

    def _read(self, part: bytes) -> None:
        with broken_archive(self._filename):
            for unpacked in self._decompressed(part):
                self._unpacked += len(unpacked)
                most = max(_UNPACKED, _MOST_RATIO * self._received)
                if self._unpacked > most:
                    raise too_large(f"{self._filename}, decompressed,", most)
                self._buffer += unpacked
                self._read_members()
                if self._is_enough():
                    return

    def result(self) -> SdistMetadata | None:
        """The metadata; ``None`` if the archive has none.

        :raises IndexProblem: ``malformed``, if the archive ends early
        """
        is_whole = self._decompressor is not None and self._decompressor.eof
        if not self._is_enough() and not (is_whole and not self._buffer and not self._skipped):
            message = f"{self._filename} is broken: it ends early"
            raise IndexProblem(IndexFault.MALFORMED, message)
        return merged_metadata(self._pkg_info, self._requires, _is_open(self._marks))

    def _decompressed(self, part: bytes) -> Iterator[bytes]:
        if self._decompressor is None:
            self._beginning += part
            if len(self._beginning) < 6:
                return
            part, self._beginning = self._beginning, b""
            made = next((it for mark, it in _DECOMPRESSORS.items() if part.startswith(mark)), None)
            if made is None:
                raise ValueError("unknown compression")
            self._decompressor = cast(_Decompressor, made())
        while not self._decompressor.eof:
            unpacked = self._decompressor.decompress(part, _STEP)
            yield unpacked
            part = getattr(self._decompressor, "unconsumed_tail", b"")
            if not part and len(unpacked) < _STEP:
                return

    def _read_members(self) -> None:
        """Read all members that are complete in the buffer."""
        while not self._is_ended:
            dropped = min(self._skipped, len(self._buffer))
            del self._buffer[:dropped]
            self._skipped -= dropped
            if self._skipped or len(self._buffer) < _BLOCK:
                return
            header = bytes(self._buffer[:_BLOCK])
            if not any(header):
                self._is_ended = True
                return
            member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            name = self._long_name or member.name
            is_wanted = self._is_wanted(name)
            if is_wanted and (member.issym() or member.islnk()):
                raise ValueError(f"{name[-80:]} is a link")
            is_header = member.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
            has_data = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
            size = member.size if has_data or is_header or member.type == tarfile.XGLTYPE else 0
            if not (is_header or (is_wanted and member.isreg())):
                self._long_name = None if member.type != tarfile.XGLTYPE else self._long_name
                self._skipped = _BLOCK + -(-size // _BLOCK) * _BLOCK
                self._count(name)
                continue
            most = _LONGEST_HEADER if is_header else self._most_bytes
            if size > most:
                raise too_large(f"{name.rpartition('/')[2][:80]} of {self._filename}", most)
            if len(self._buffer) < _BLOCK + size:
                return
            data = bytes(self._buffer[_BLOCK : _BLOCK + size])
            self._skipped = _BLOCK + -(-size // _BLOCK) * _BLOCK
            self._count(name)
            if is_header:
                self._long_name = _long_name(member, data) or self._long_name
                continue
            self._long_name = None
            if name.endswith("PKG-INFO"):
                self._pkg_info = data
                core = parse_core_metadata(text_of(data))
                self._is_told = core.is_static or bool(core.requires_dist)
            else:
                self._requires = data

    def _count(self, name: str) -> None:
        self._members += 1
        self._marks.add(_mark_of(name, self._project))
        if self._members > _MOST_MEMBERS:
            raise ValueError(f"more than {_MOST_MEMBERS:,} members")
        if len(name) > _LONGEST_PATH:
            raise ValueError(f"a path of {len(name):,} characters")

    def _is_wanted(self, name: str) -> bool:
        parts = name.removeprefix("./").split("/")
        if parts[-1] == "PKG-INFO":
            return len(parts) == 2 and self._pkg_info is None
        if parts[-1] != "requires.txt" or len(parts) < 3 or self._requires is not None:
            return False
        folder = parts[-2]
        return folder.endswith(".egg-info") and _is_of(folder, self._project)

    def _is_enough(self) -> bool:
        return self._is_ended or (
            self._pkg_info is not None and (self._is_told or self._requires is not None)
        )


def read_sdist(file: BinaryIO, filename: str, most_bytes: int) -> SdistMetadata | None:
    """Metadata of a complete source distribution; ``None`` if it has none.

    :param most_bytes: of its metadata
    :raises IndexProblem: ``malformed`` or ``too_large``
    """
    if filename.endswith(".zip"):
        with broken_archive(filename):
            return _from_zip(file, filename, most_bytes)
    reader = SdistReader(filename, most_bytes)
    try:
        while piece := file.read(_PIECE):
            reader.write(piece)
    except StopReceiving:
        pass
    return reader.result()


def _from_zip(file: BinaryIO, filename: str, most_bytes: int) -> SdistMetadata | None:
    project = canonicalize_name(filename.rpartition("-")[0])
    with zipfile.ZipFile(file) as archive:
        members: dict[str, bytes] = {}
        marks = {_mark_of(it.filename, project) for it in archive.infolist()}
        for info in archive.infolist():
            parts = info.filename.removeprefix("./").split("/")
            is_info = len(parts) == 2 and parts[1] == "PKG-INFO"
            is_requires = (
                len(parts) > 2
                and parts[-1] == "requires.txt"
                and parts[-2].endswith(".egg-info")
                and _is_of(parts[-2], project)
            )
            if (is_info or is_requires) and parts[-1] not in members:
                if info.file_size > most_bytes:
                    raise too_large(f"{parts[-1]} of {filename}", most_bytes)
                members[parts[-1]] = archive.read(info)
    return merged_metadata(members.get("PKG-INFO"), members.get("requires.txt"), _is_open(marks))


def _mark_of(path: str, project: str) -> str | None:
    """``setup.py``, or ``egg-info`` for a file of setuptools about the project."""
    *folders, file = path.removeprefix("./").rstrip("/").split("/")
    if file == "setup.py" and len(folders) == 1:
        return file
    names = (it for it in (*folders, file) if it.endswith(".egg-info"))
    return "egg-info" if any(_is_of(it, project) for it in names) else None


def _is_open(marks: Container[str | None]) -> bool:
    return "setup.py" in marks and "egg-info" not in marks


def merged_metadata(
    pkg_info: bytes | None, requires: bytes | None, setup_decides: bool = False
) -> SdistMetadata | None:
    """Metadata from ``PKG-INFO`` and ``requires.txt``; ``None`` without ``PKG-INFO``.

    :param setup_decides: whether ``setup.py`` may add requirements that neither file lists

    >>> read = merged_metadata(b"Metadata-Version: 1.2\\nName: a\\n", b"b>1\\n[x]\\nc\\n")
    >>> parse_core_metadata(read.text).requires_dist, read.certainty.value
    (('b>1', 'c ; extra == "x"'), 'likely')
    """
    if pkg_info is None:
        return None
    text = text_of(pkg_info)
    core = parse_core_metadata(text)
    if core.is_static:
        return SdistMetadata(text, Certainty.CERTAIN)
    if core.requires_dist or requires is None:
        open_ones = setup_decides or "requires-dist" in core.dynamic
        is_told = bool(core.requires_dist) or not open_ones
        return SdistMetadata(text, Certainty.LIKELY if is_told else Certainty.UNKNOWN)
    header, blank, rest = text.lstrip("\ufeff\r\n").replace("\r\n", "\n").partition("\n\n")
    lines = [header.rstrip("\n"), *_as_core_metadata(text_of(requires).splitlines())]
    return SdistMetadata("\n".join(lines) + (blank or "\n\n") + rest, Certainty.LIKELY)


def _as_core_metadata(lines: Iterable[str]) -> Iterator[str]:
    """Fields of core metadata, from the lines of setuptools' ``requires.txt``.

    The sections of that file are ``[extra]``, ``[:marker]`` and ``[extra:marker]``.
    """
    extra = marker = ""
    for line in map(str.strip, lines):
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
            if extra:
                yield f"Provides-Extra: {extra}"
        elif line and not line.startswith("#"):
            conditions = [f"({marker})" if extra else marker] if marker else []
            conditions += [f'extra == "{extra}"'] if extra else []
            yield f"Requires-Dist: {' ; '.join(filter(None, (line, ' and '.join(conditions))))}"


def _is_of(folder: str, project: str) -> bool:
    return canonicalize_name(folder.removesuffix(".egg-info").partition("-")[0]) == project


def _long_name(member: tarfile.TarInfo, data: bytes) -> str | None:
    """The name that an extended header gives the next member."""
    if member.type == tarfile.GNUTYPE_LONGNAME:
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    while data:
        length = data.partition(b" ")[0]
        size = int(length)
        if size <= len(length) + 1:
            raise ValueError("an invalid extended header")
        key, _, value = data[len(length) + 1 : size].rstrip(b"\n").partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "surrogateescape")
        if key in (b"size", b"GNU.sparse.realsize"):
            raise ValueError("an extended header with another size")
        data = data[size:]
    return None


def text_of(data: bytes) -> str:
    """Metadata as text; old files that are not UTF-8 are read as Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
