"""The file format of a backup: a tar archive of compressed tables, documents and a manifest.

::

    record/TABLE/000001.copy.zst   rows as ``COPY TABLE TO STDOUT`` prints them
    document-store/AB/ABCD….json.zst   compressed bodies, under the same names
    manifest.json                      the last member, with the SHA-256 of everything before it

``tar`` and ``zstd`` read it. Neither writing nor reading takes memory that grows with the record.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import zstandard
from cattrs import Converter
from cattrs.errors import ForbiddenExtraKeysError
from sqlalchemy import Connection, text

from graph.record.document_store import client_errors, file_system_of
from graph.tables import Base
from model.errors import InvalidArgument, NoSpace

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


FORMAT = 1
MANIFEST = "manifest.json"
#: Rows of a table are compressed together up to this size, in bytes.
CHUNK_BYTES = 8 * 2**20
#: A manifest has a line or two for each table.
_LONGEST_MANIFEST = 4 * 2**20

_ROWS = re.compile(r"record/(?P<name>[a-z_]+)/\d{6,}\.copy\.zst")
_DOCUMENT = re.compile(r"document-store/(?P<name>[0-9a-f]{2}/[\w-]+\.json\.zst)")
_DOCUMENTS = "document-store"
_converter = Converter(forbid_extra_keys=True, detailed_validation=False)
#: Tables of the queue, which brings its own schema, after those that they refer to.
QUEUE_TABLES = (
    "procrastinate_workers",
    "procrastinate_jobs",
    "procrastinate_periodic_defers",
    "procrastinate_events",
)
#: Left out: the graph is built again from the record, people log in again, and requests are
#: counted anew. The document store that the documents are restored into gets an identifier anew.
LEFT_OUT = frozenset(
    {"document_store", "outbox", "graph_checkpoints", "page_sessions", "request_counts"}
)
#: Tables that may have rows in an empty record.
FILLED_FROM_THE_START = frozenset(
    {"document_store", "graph_checkpoints", "knowledge", "record_checks", "request_counts"}
)

_COLUMNS = text(
    """
    SELECT relname::text AS name, array_agg(attname::text ORDER BY attnum) AS columns
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    GROUP BY relname
    """
)


def stored_tables(connection: Connection) -> dict[str, tuple[str, ...]]:
    """The tables of the record in this database with their columns, referenced tables first.

    Tables that another program keeps in the same database do not count.
    """
    existing = {row.name: tuple(row.columns) for row in connection.execute(_COLUMNS)}
    names = [*(table.name for table in Base.metadata.sorted_tables), *QUEUE_TABLES]
    return {name: existing[name] for name in names if name in existing}


def quoted_names(connection: Connection, *names: str) -> str:
    """Identifiers as SQL, separated by commas."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ", ".join(map(quote, names))


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a table in an archive; the digest covers their compressed form."""

    columns: tuple[str, ...]
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DocumentsPart:
    """All bodies from the document store; the digest covers names and bodies, in order."""

    count: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an archive.

    :param created_at: time of the snapshot, in ISO 8601
    :param version: of the program that wrote the archive
    :param schema: revision of PostgreSQL's schema
    :param missing_documents: bodies that the document store did not have
    :param sequences: last value of each sequence
    :param settings: of the installation, without secrets; for people, never read again
    """

    created_at: str
    version: str
    schema: str
    postgresql: str
    tables: Mapping[str, TablePart]
    documents: DocumentsPart
    missing_documents: int
    sequences: Mapping[str, int]
    settings: Mapping[str, Any]
    format: int = FORMAT


class ArchiveWriter:
    """Writes an archive in a ``with`` block. Call :meth:`finish` last."""

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._documents = _Digest()
        self.tables: dict[str, TablePart] = {}

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # What is left is written now rather than when the stream is collected as garbage.
            with suppress(Exception):
                self._tar.close()

    def table(self, name: str, columns: tuple[str, ...]) -> TableWriter:
        """Begin a table; call its ``finish`` before anything else is written."""
        return TableWriter(self, name, columns)

    def document(self, location: str, packed: bytes) -> None:
        """Add a body from the document store."""
        self._documents.add(location.encode() + b"\n", packed)
        self.add_member(f"{_DOCUMENTS}/{location}", packed)

    @property
    def documents(self) -> DocumentsPart:
        """The bodies that were added so far."""
        return self._documents.part

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the end of the archive."""
        text = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
        self.add_member(MANIFEST, text.encode())
        self._tar.close()

    def add_member(self, name: str, content: bytes) -> None:
        """Write a member; nothing of it stays in memory."""
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o600
        self._tar.addfile(member, io.BytesIO(content))
        self._tar.members.clear()  # type: ignore[attr-defined]


class TableWriter:
    """Takes the rows of one table, as the driver writes them: a row for each call."""

    def __init__(self, archive: ArchiveWriter, name: str, columns: tuple[str, ...]) -> None:
        self._archive = archive
        self._name = name
        self._columns = columns
        self._buffer = bytearray()
        self._digest = _Digest()
        self._rows = 0

    def write(self, row: bytes) -> int:
        """Take a row."""
        self._buffer += row
        self._rows += 1
        if len(self._buffer) >= CHUNK_BYTES:
            self._flush()
        return len(row)

    def finish(self) -> int:
        """End the table; return the number of its rows."""
        if self._buffer:
            self._flush()
        whole = self._digest.part
        part = TablePart(self._columns, self._rows, whole.size_bytes, whole.sha256)
        self._archive.tables[self._name] = part
        return self._rows

    def _flush(self) -> None:
        packed = zstandard.compress(bytes(self._buffer), 3)
        self._buffer.clear()
        self._digest.add(packed)
        number = self._digest.count
        self._archive.add_member(f"record/{self._name}/{number:06}.copy.zst", packed)


@dataclass(slots=True)
class _Digest:
    """Number, size and SHA-256 of a sequence of contents."""

    count: int = 0
    size_bytes: int = 0
    _sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, *parts: bytes) -> None:
        for part in parts:
            self._sha256.update(part)
        self.size_bytes += len(parts[-1])
        self.count += 1

    @property
    def part(self) -> DocumentsPart:
        return DocumentsPart(self.count, self.size_bytes, self._sha256.hexdigest())


class Archive:
    """A complete archive whose digests were compared with its content.

    :raises InvalidArgument: if anything in the file is missing, damaged or unknown
    """

    def __init__(self, path: str, progress: Callable[[int, int], None]) -> None:
        """:param path: of a local file, or URL of an object
        :param progress: called with the number of bytes read and their total
        """
        self.path = path
        total = size_of(path)
        digests: dict[str, _Digest] = {}
        manifest, unreadable = None, []
        for name, content, offset in self._members():
            if manifest is not None:
                raise self._refused(f"{name!r} follows the manifest")
            if name == MANIFEST:
                manifest = self._parsed(content)
            elif rows := _ROWS.fullmatch(name):
                digests.setdefault(rows["name"], _Digest()).add(content)
            elif document := _DOCUMENT.fullmatch(name):
                location = document["name"].encode() + b"\n"
                digests.setdefault(_DOCUMENTS, _Digest()).add(location, content)
            else:
                raise self._refused(f"unknown member {name!r}")
            if name != MANIFEST and not _can_be_decompressed(content):
                unreadable.append(name)
            progress(offset, total)
        if manifest is None:
            raise self._refused("it ends before its manifest: the backup was interrupted")
        self.manifest = manifest
        parts: dict[str, TablePart | DocumentsPart] = {**manifest.tables}
        parts[_DOCUMENTS] = manifest.documents
        for name in sorted(digests.keys() | parts.keys()):
            self._compare(name, digests.get(name, _Digest()).part, parts.get(name))
        if unreadable:
            raise self._refused(f"{unreadable[0]}: cannot be decompressed")
        progress(total, total)

    def contents(self) -> Iterator[tuple[str, bytes] | tuple[str, RowsFile]]:
        """The parts in order: name and rows of each table, then location and body of documents.

        Read the rows of a table before the next part.
        """
        for kind, members in groupby(self._members(), lambda member: _kind_of(member[0])):
            if kind == MANIFEST:
                return
            if kind != _DOCUMENTS:
                yield kind, RowsFile(content for _, content, _ in members)
                continue
            for name, content, _ in members:
                yield name.removeprefix(f"{_DOCUMENTS}/"), content

    def _members(self) -> Iterator[tuple[str, bytes, int]]:
        """Name, content and offset of each member."""
        try:
            with open_for_reading(self.path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
                while (member := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]
                    content = tar.extractfile(member)
                    if content is None:
                        raise self._refused(f"{member.name!r} is not a file")
                    yield member.name, content.read(), member.offset
        except (tarfile.TarError, EOFError) as error:
            raise self._refused(f"it is damaged: {error}") from error
        except client_errors() as error:
            raise self._refused(f"it cannot be read: {type(error).__name__}") from error

    def _parsed(self, content: bytes) -> Manifest:
        try:
            values = json.loads(content[:_LONGEST_MANIFEST])
            if values.get("format") != FORMAT:
                raise self._refused(f"format {values.get('format')!r}: this code reads {FORMAT}")
            return _converter.structure(values, Manifest)
        except (ValueError, TypeError, KeyError, AttributeError, ForbiddenExtraKeysError) as error:
            raise self._refused(f"its manifest cannot be read: {error}") from error

    def _compare(
        self, name: str, read: DocumentsPart, stated: TablePart | DocumentsPart | None
    ) -> None:
        if stated is None:
            raise self._refused(f"{name}: not in the manifest")
        if (read.size_bytes, read.sha256) != (stated.size_bytes, stated.sha256):
            raise self._refused(f"{name}: damaged, the SHA-256 differs from the manifest")

    def _refused(self, message: str) -> InvalidArgument:
        return InvalidArgument(f"{self.path}: {message}", hint="restore another backup")


def _can_be_decompressed(packed: bytes) -> bool:
    try:
        zstandard.decompress(packed)
    except zstandard.ZstdError:
        return False
    return True


def _kind_of(name: str) -> str:
    """The table of a member, ``document-store``, or the name of the manifest.

    >>> _kind_of("record/stacks/000001.copy.zst"), _kind_of("document-store/ab/abcd.json.zst")
    ('stacks', 'document-store')
    """
    rows = _ROWS.fullmatch(name)
    return rows["name"] if rows else name.partition("/")[0]


class RowsFile:
    """The rows of a table as a file, as the driver reads it."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._current = io.BytesIO()

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes; none at the end."""
        while not (data := self._current.read(size)):
            packed = next(self._chunks, None)
            if packed is None:
                return b""
            self._current = io.BytesIO(zstandard.decompress(packed))
        return data


@contextmanager
def new_file(name: str) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block, or disappears.

    A local file has the mode 0600; who may read an object depends on its bucket. A local file that
    appears within the block is not replaced; an object is.

    :raises InvalidArgument: if there is such a file already, or it cannot be written
    :raises NoSpace: if its disk is full
    """
    with _new_object(name) if "://" in name else _new_local_file(Path(name)) as file:
        yield file


@contextmanager
def open_for_reading(name: str) -> Iterator[BinaryIO]:
    """A file to read.

    :raises InvalidArgument: if it cannot be read
    """
    with _reading(name):
        filesystem, path = file_system_of(name)
        file: BinaryIO = filesystem.open(path, "rb")
    with file:
        yield file


def size_of(name: str) -> int:
    """Size of a file in bytes.

    :raises InvalidArgument: if it cannot be read
    """
    with _reading(name):
        filesystem, path = file_system_of(name)
        size: int = filesystem.size(path)
    return size


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except client_errors(ImportError, ValueError) as error:
        raise InvalidArgument(f"{name}: cannot be read: {_cause_of(error)}") from error


@contextmanager
def _new_object(url: str) -> Iterator[BinaryIO]:
    with _write_errors(url, ImportError, ValueError):
        filesystem, path = file_system_of(url)
        if filesystem.exists(path):
            raise FileExistsError
        file = filesystem.open(path, "wb", autocommit=False)
    try:
        yield cast(BinaryIO, _NewObject(file, url))
        with _write_errors(url):
            file.close()
            file.commit()
    except BaseException:
        with suppress(Exception):
            file.discard()
        file.closed = True  # otherwise it is written when it is collected as garbage
        raise


@contextmanager
def _new_local_file(path: Path) -> Iterator[BinaryIO]:
    with _write_errors(str(path)):
        if os.path.lexists(path):
            raise FileExistsError
        descriptor, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".part", dir=path.parent
        )
    temporary = Path(name)
    try:
        with io.BufferedWriter(_NewFile(descriptor, str(path))) as file:
            yield file
            file.flush()
            with _write_errors(str(path)):
                os.fsync(descriptor)
        with _write_errors(str(path)):
            if os.path.lexists(path):
                raise FileExistsError
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


class _NewFile(io.FileIO):
    """A file whose errors name the path that it gets later."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb")
        self._name = name

    def write(self, data: ReadableBuffer) -> int:
        with _write_errors(self._name):
            return super().write(data)


class _NewObject(io.RawIOBase):
    """An object whose errors name its URL."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def write(self, data: ReadableBuffer) -> int:
        with _write_errors(self._url):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())


@contextmanager
def _write_errors(name: str, *more: type[Exception]) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise InvalidArgument(f"{name}: exists", hint="name a new file") from None
    except client_errors(*more) as error:
        message = f"{name}: cannot be written: {_cause_of(error)}"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpace(message, hint="name a file on a disk with free space") from error
        folder = "a bucket" if "://" in name else "a folder"
        hint = f"name a file in {folder} that you may write to"
        raise InvalidArgument(message, hint=hint) from error


def _cause_of(error: Exception) -> str:
    """The cause, without configuration that a client library may repeat."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ImportError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "no such file or bucket"
    return type(error).__name__
