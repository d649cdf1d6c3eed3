"""The files of an evidence pack: a folder, or one uncompressed tar archive of it.

::

    manifest.json            names every other file by size and SHA-256
    envelope.json            the signature; optional
    observations/…           and the other tables, as ``thoth export parquet`` writes them
    indicators/SHA256.py     the scripts that measured

Entry point :func:`opened`. Neither reading nor writing takes memory that grows with the pack.
"""

import hashlib
import io
import os
import re
import stat
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from adviser.packs.envelope import Assurance, verified_key
from adviser.packs.manifest import TABLES, PackManifest, parse_manifest
from common.files import atomic_file
from model.errors import InvalidDocument, InvalidPack, Reason
from model.text import printable

MANIFEST = "manifest.json"
ENVELOPE = "envelope.json"
#: Folder of the scripts.
INDICATORS = "indicators"
#: A manifest and an envelope are read at once; a larger one is refused.
LONGEST_DOCUMENT = 64 * 2**20
_MOST_FILES = 10_000
_READ_BYTES = 2**20
_BATCH_ROWS = 10_000
#: Without reading ahead, which would hold whole files in memory.
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(
        pre_buffer=False, use_buffered_stream=True
    )
)

#: Called with what is done, and with all there is.
Progress = Callable[[int, int], None]

_PART = r"[\w%~-][\w%.~-]{0,150}"
_PATH = re.compile(
    rf"(?:{'|'.join(TABLES)})/(?:{_PART}/)?part-\d+\.parquet|{INDICATORS}/[0-9a-f]{{64}}\.py",
    re.ASCII,
)


def ignore(done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where the content of a file of a pack is: a whole file, or a part of an archive."""

    path: Path
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack whose files were compared with its manifest.

    :param path: its folder or archive
    :param key: fingerprint of the key that signed it; ``None`` without a signature
    :param assurance: who vouches for it according to the signature
    :param places: of its files by name
    """

    path: Path
    manifest: PackManifest
    envelope: bytes | None
    key: str | None
    assurance: Assurance | None
    places: Mapping[str, FilePlace]

    @property
    def digest(self) -> str:
        """Digest of the manifest, which names the pack."""
        return self.manifest.digest

    def contents(self, progress: Progress = ignore) -> Iterator[tuple[str, BinaryIO]]:
        """Name and content of each file of the manifest, to be read before the next.

        :param progress: called with the number of bytes that were read, and of all
        """
        done, total = 0, sum(it.size_bytes for it in self.manifest.files)
        for stated in sorted(self.manifest.files, key=lambda it: it.path):
            with _opened(self.places[stated.path]) as file:
                yield stated.path, file
            done += stated.size_bytes
            progress(done, total)

    def _files_of(self, table: str) -> list[str]:
        return sorted(it.path for it in self.manifest.files if _table_of(it.path) == table)

    def schemas(self, table: str) -> Iterator[tuple[str, pa.Schema]]:
        """Name and columns of each file of a table."""
        for name in self._files_of(table):
            with refused_in(self.path, name), _opened(self.places[name]) as file:
                yield name, pq.read_schema(file)

    def rows(
        self, table: str, columns: Sequence[str], **wanted: Collection[str]
    ) -> list[dict[str, Any]]:
        """Some columns of the rows of a table.

        :param wanted: text columns with the values to select; without this, all rows are returned
        :raises InvalidPack: if the table cannot be read
        """
        batches = self.batches(table, columns, **wanted)
        return [row for batch in batches for row in batch.to_pylist()]

    def batches(
        self, table: str, columns: Sequence[str], **wanted: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        """Like :meth:`rows`, in parts of limited size."""
        condition = None
        for column, values in wanted.items():
            alike = ds.field(column).isin(pa.array(sorted(values), pa.string()))
            condition = alike if condition is None else condition & alike
        for name in self._files_of(table):
            with refused_in(self.path, name), _opened(self.places[name]) as file:
                yield from _FORMAT.make_fragment(file).to_batches(
                    columns=list(columns), filter=condition, batch_size=_BATCH_ROWS,
                    batch_readahead=1, use_threads=False,
                )  # fmt: skip


def opened(path: Path, progress: Progress = ignore) -> Pack:
    """The pack at a path, with matching files, sizes, digests, numbers of rows and signature.

    A folder without a manifest and with one archive, such as ``evidence``, stands for the archive.

    :param progress: called with the number of bytes that were compared, and of all
    :raises InvalidPack: if anything is missing, added, changed or unknown
    """
    path, places = _places(path)
    with refused_in(path):
        with refused_in(path, MANIFEST):
            manifest = parse_manifest(_document(places, MANIFEST))
        envelope = _document(places, ENVELOPE) if ENVELOPE in places else None
        key = assurance = None
        if envelope is not None:
            with refused_in(path, ENVELOPE):
                key, assurance = verified_key(envelope, manifest)
        _compare(manifest, places, progress)
        _count(path, manifest, places)
    return Pack(path, manifest, envelope, key, assurance, places)


def copy_pack(path: Path, target: Path) -> None:
    """Copy the files of a pack into a new archive, for a reader who must not see later changes.

    :raises InvalidPack: if there is no pack
    """
    path, places = _places(path)
    with refused_in(path):
        write_archive(target, places)


def _places(path: Path) -> tuple[Path, dict[str, FilePlace]]:
    """The archive or the folder of a pack, and its files by name."""
    if not path.exists():
        hint = "name the folder or the archive of a pack"
        raise InvalidPack(Reason.UNREADABLE, "there is no such pack", place=str(path), hint=hint)
    if path.is_dir() and not (path / MANIFEST).exists():
        archives = list(path.glob("*.tar"))
        path = archives[0] if len(archives) == 1 else path
    with refused_in(path):
        places = _members(path) if path.is_file() else files_in(path)
        if MANIFEST not in places:
            raise _refused(Reason.MISSING_FIELD, MANIFEST, "is missing: this is not a pack")
    return path, places


def _compare(manifest: PackManifest, places: Mapping[str, FilePlace], progress: Progress) -> None:
    """Compare the files with the manifest."""
    names = [it.path for it in manifest.files]
    for name in names:
        if not _PATH.fullmatch(name):
            raise _refused(
                Reason.ARCHIVE_PATH, MANIFEST, f"names a path that a pack must not have: {name!r}"
            )
    if len(set(names)) < len(names):
        raise _refused(Reason.DUPLICATE_KEY, MANIFEST, "names a file twice")
    for name in sorted({MANIFEST, *names} ^ (places.keys() - {ENVELOPE})):
        if name in places:
            raise _refused(Reason.TAMPERED, name, "was added: the manifest does not name it")
        raise _refused(Reason.MISSING_FIELD, name, "is missing")
    done, total = 0, sum(it.size_bytes for it in manifest.files)
    for file in manifest.files:
        place = places[file.path]
        if place.size_bytes != file.size_bytes:
            sizes = f"has {place.size_bytes} bytes, and the manifest says {file.size_bytes}"
            raise _refused(Reason.TAMPERED, file.path, sizes)
        sha256 = hashlib.sha256()
        with _opened(place) as content:
            while data := content.read(_READ_BYTES):
                sha256.update(data)
                done += len(data)
                progress(done, total)
        if sha256.hexdigest() != file.sha256:
            raise _refused(Reason.TAMPERED, file.path, "its SHA-256 differs from the manifest")
        script = file.path.removeprefix(f"{INDICATORS}/").removesuffix(".py")
        if _table_of(file.path) == INDICATORS and script != file.sha256:
            raise _refused(Reason.TAMPERED, file.path, "is not the script that its name says")


def _count(path: Path, manifest: PackManifest, places: Mapping[str, FilePlace]) -> None:
    """Compare the numbers of rows with the manifest."""
    counts: Counter[str] = Counter(dict.fromkeys(TABLES, 0))
    for name in (it.path for it in manifest.files if _table_of(it.path) != INDICATORS):
        with refused_in(path, name), _opened(places[name]) as file:
            counts[_table_of(name)] += pq.read_metadata(file).num_rows
    if counts != manifest.counts:
        stated = ", ".join(f"{it} {manifest.counts.get(it)}" for it in TABLES)
        rows = ", ".join(f"{it} {counts[it]}" for it in TABLES)
        message = f"says {stated}; the tables have {rows}"
        raise _refused(Reason.CONFLICTING_FIELDS, f"{MANIFEST}:$.counts", message)


def files_in(folder: Path) -> dict[str, FilePlace]:
    """The files in a folder by name.

    :raises InvalidPack: if there are too many entries, or others than files and folders
    """
    places = {}
    for parent, folders, names in os.walk(folder, onerror=_raise):
        for name in (*folders, *names):
            path = Path(parent, name)
            mode = path.lstat()
            if stat.S_ISREG(mode.st_mode):
                places[path.relative_to(folder).as_posix()] = FilePlace(path, 0, mode.st_size)
            elif not stat.S_ISDIR(mode.st_mode):
                message = "is neither a file nor a folder"
                raise _refused(Reason.ARCHIVE_PATH, path.relative_to(folder).as_posix(), message)
        if len(places) > _MOST_FILES:
            raise _refused(Reason.FILE_TOO_LARGE, "$", f"has more than {_MOST_FILES} files")
    return places


def _members(archive: Path) -> dict[str, FilePlace]:
    """The files of an archive by name."""
    places: dict[str, FilePlace] = {}
    with tarfile.open(archive, "r:") as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]
            if not member.isreg() or member.sparse is not None:
                raise _refused(Reason.ARCHIVE_PATH, member.name, "is not a regular file")
            if member.name not in (MANIFEST, ENVELOPE) and not _PATH.fullmatch(member.name):
                raise _refused(
                    Reason.ARCHIVE_PATH, member.name, "is a path that a pack must not have"
                )
            if member.name in places:
                raise _refused(Reason.DUPLICATE_KEY, member.name, "occurs twice")
            places[member.name] = FilePlace(archive, member.offset_data, member.size)
            if len(places) > _MOST_FILES:
                raise _refused(Reason.FILE_TOO_LARGE, "$", f"has more than {_MOST_FILES} files")
        end = tar.offset
    with archive.open("rb") as file:
        file.seek(end)
        while data := file.read(_READ_BYTES):
            if data.strip(b"\0"):
                raise _refused(Reason.TAMPERED, "$", "something follows the end of the archive")
    return places


def write_archive(target: Path, places: Mapping[str, FilePlace], **new: bytes) -> None:
    """Write an archive atomically; equal files give equal bytes.

    :param new: content of files that replace others or are added, by name
    """
    with (
        atomic_file(target) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted({*places, *new}):
            member = tarfile.TarInfo(name)
            member.size = len(new[name]) if name in new else places[name].size_bytes
            with io.BytesIO(new[name]) if name in new else _opened(places[name]) as content:
                tar.addfile(member, content)


def _opened(place: FilePlace) -> Any:
    """The content as a file; it is mapped, not copied."""
    with pa.memory_map(str(place.path)) as file:
        file.seek(place.offset)
        return pa.BufferReader(file.read_buffer(place.size_bytes))


def _document(places: Mapping[str, FilePlace], name: str) -> bytes:
    if places[name].size_bytes > LONGEST_DOCUMENT:
        raise _refused(Reason.FILE_TOO_LARGE, name, f"has more than {LONGEST_DOCUMENT} bytes")
    with _opened(places[name]) as file:
        return bytes(file.read())


def _table_of(name: str) -> str:
    return name.partition("/")[0]


def _refused(reason: Reason, field: str, message: str) -> InvalidPack:
    return InvalidPack(reason, printable(message), field=printable(field))


@contextmanager
def refused_in(path: Path, name: str = "") -> Iterator[None]:
    """Add the path of the refused pack to errors within the block.

    :param name: of the file that is read
    """
    try:
        yield
    except InvalidPack as error:
        error.place = error.place or str(path)
        raise
    except InvalidDocument as error:
        field = name if error.field == "$" else f"{name}:{error.field}"
        raise InvalidPack(error.reason, error.message, field=field, place=str(path)) from error
    except (tarfile.TarError, EOFError) as error:
        message = f"is not a whole tar archive: {error}"
        raise InvalidPack(Reason.ARCHIVE_BROKEN, message, place=str(path)) from error
    except (
        OSError, ValueError, pa.ArrowException, LookupError, TypeError, AttributeError,
        ArithmeticError, RecursionError,
    ) as error:  # fmt: skip
        message = f"cannot be read: {error}"
        field = name or "$"
        raise InvalidPack(Reason.UNREADABLE, message, field=field, place=str(path)) from error


def _raise(error: OSError) -> None:
    raise error
