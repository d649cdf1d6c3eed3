"""The files of a source by their paths, with bounded reads.

Readers need more than one file at a time: the runs of an entry, the description of its machine.
Folders are read in place. Archives are unpacked into a temporary folder first.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from posixpath import dirname, splitext
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from common.formats.benchmark_files import benchmark_records
from ingest.benchmarks.result_texts import without_captures
from ingest.benchmarks.results import Run, numbered_parts, results_of_parts, run_of
from ingest.sources.bounded_reads import too_large, unreadable
from ingest.sources.file_names import is_archive
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument, Reason
from model.json_documents import json_value_of
from model.json_fields import Fields
from model.measurements.benchmark_results import BenchmarkResult, MeasuredFile

_Part = TypeVar("_Part")
#: A JSON object that describes a machine or a run, and its file.
Description = tuple[dict[str, Any], MeasuredFile]
_GZIP = b"\x1f\x8b\x08"
#: Endings by which readers know files; other systems write them in capitals, too.
_ENDINGS = frozenset({".csv", ".json", ".jtl", ".log", ".md", ".tsv", ".txt", ".xlsx", ".yaml"})
#: Descriptions that are kept, because many results share them.
_KEPT_DESCRIPTIONS = 64
#: A text with more than one encoding error in this number of characters is binary data.
_CHARACTERS_FOR_AN_ERROR = 100


@dataclass(slots=True)
class ResultTree:
    """Files beneath one root.

    A packed file has the path that it would have without ``.gz``, so that readers find the parts
    of an entry whether they are packed or not. Bytes of a path that are not UTF-8 are escapes.

    :param source: the path or URL that the user gave, without credentials
    :param places: paths of the files below the root, in order
    :param unpacked: for files of unpacked archives, where they are on this machine
    :ivar stated: facts that the user gave beside the files, see
        :func:`ingest.benchmarks.user_metadata.stated_facts`
    :ivar renames: whether some files have other paths than their stored ones
    """

    source: str
    root: Path
    places: Sequence[str]
    limits: SourceLimits
    unpacked: Mapping[str, Path] = field(default_factory=dict)
    stated: Mapping[str, str] = field(default_factory=dict)
    renames: bool = False
    _stored: dict[str, str] = field(default_factory=dict)
    _folders: dict[str, list[str]] = field(default_factory=dict)
    _descriptions: dict[str, Description | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = set(self.places)
        for stored in self.places:
            plain = _plain_place(stored)
            place = _escaped(stored if plain in taken else plain)
            taken.add(place)
            self._stored[place] = stored
            self.renames = self.renames or place != stored
        self.places = list(self._stored)
        for place in self.places:
            self._folders.setdefault(dirname(place), []).append(place)

    def in_folder(self, folder: str) -> Sequence[str]:
        """Paths of the files directly in ``folder``, in order."""
        return self._folders.get(folder, ())

    def stored_place(self, place: str) -> str:
        """The path as it is stored; a part of the file may follow behind ``#``."""
        file, mark, part = place.partition("#")
        return _escaped(self._stored.get(place) or self._stored.get(file, file) + mark + part)

    @contextmanager
    def opened(self, place: str) -> Iterator[BinaryIO]:
        """The content of a file as a stream; logs may be gzipped.

        :raises InvalidDocument: if the file cannot be read or is too large
        """
        try:
            stored = self._stored[place]
            with (self.unpacked.get(stored) or self.root / stored).open("rb") as stream:
                size = stream.seek(0, io.SEEK_END)
                if size > self.limits.document_bytes:
                    raise too_large(place, size, self.limits)
                stream.seek(0)
                packed = stream.read(len(_GZIP)) == _GZIP and not is_archive(place)
                stream.seek(0)
                yield cast(BinaryIO, gzip.GzipFile(fileobj=stream) if packed else stream)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(place, error) from None

    def content(self, place: str) -> bytes:
        """All bytes of a file.

        :raises InvalidDocument: if the file cannot be read or is too large
        """
        most = self.limits.document_bytes
        with self.opened(place) as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise too_large(place, len(content), self.limits)
        return content

    def file(self, place: str) -> ResultFile:
        """A file with its content.

        :raises InvalidDocument: if the file cannot be read or is too large
        """
        return ResultFile(place, self.content(place))

    def description(self, place: str) -> Description | None:
        """The JSON object at ``place``, which results may share; ``None`` for other content."""
        if place not in self._descriptions:
            while len(self._descriptions) >= _KEPT_DESCRIPTIONS:
                del self._descriptions[next(iter(self._descriptions))]
            self._descriptions[place] = None
            if place in self.in_folder(dirname(place)):
                with suppress(InvalidDocument):
                    file = self.file(place)
                    self._descriptions[place] = file.json_object(), file.measured
        return self._descriptions[place]


def _escaped(place: str) -> str:
    """The path with escapes for bytes that are not UTF-8, because no store takes these.

    >>> _escaped("caf\\udce9/1")
    'caf\\\\udce9/1'
    """
    return place.encode("utf-8", "backslashreplace").decode()


def _plain_place(stored: str) -> str:
    """The path without ``.gz``, and with its ending in lower case.

    >>> _plain_place("run/RESULT.TXT.gz"), _plain_place("run.tar.gz"), _plain_place("a/1")
    ('run/RESULT.txt', 'run.tar.gz', 'a/1')
    """
    if is_archive(stored):
        return stored
    stem, ending = splitext(stored)
    plain = stem if ending.lower() == ".gz" else stored
    stem, ending = splitext(plain)
    return stem + ending.lower() if ending.lower() in _ENDINGS else plain


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file with its content.

    :param place: path inside the source
    """

    place: str
    content: bytes

    @property
    def measured(self) -> MeasuredFile:
        """The file as results name it."""
        return MeasuredFile(self.place, sha256(self.content).hexdigest())

    def run(self, system: str, *others: MeasuredFile) -> Run:
        """The fields that all results of this file share, from the descriptions ``others``."""
        return run_of(system, self.place, self.measured, *others)

    @property
    def text(self) -> str:
        """The content as :func:`decode_text` text.

        :raises InvalidDocument: if the content is no text
        """
        return decode_text(self.content, self.place)

    def json_value(self) -> Any:
        """The content as a JSON value, by :func:`json_value_of`.

        :raises InvalidDocument: if it is not JSON
        """
        return json_value_of(self.json_content)

    def json_records(self) -> list[Fields]:
        """The objects of the file: a single object, the items of a list, or one on each line.

        :raises InvalidDocument: if there is no object, or another value
        """
        records = list(benchmark_records(self.json_content))
        if not records:
            raise missing_value(self.place, "$", "the file has no object")
        return records

    @property
    def json_content(self) -> bytes:
        """The content in UTF-8, if it is UTF-16."""
        utf16 = self.content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return self.text.encode() if utf16 else self.content

    def json_object(self) -> dict[str, Any]:
        """The content as a JSON object.

        :raises InvalidDocument: if it is something else
        """
        return as_object(self.json_value(), self.place)


def decode_text(content: bytes, place: str) -> str:
    """Text with line feeds as line ends, without a byte order mark, NUL characters, empty lines
    at its beginning, and prefixes that :mod:`ingest.benchmarks.result_texts` removes.

    Windows consoles write UTF-16. Summaries of LoadGen have NUL characters, which no store takes.
    Progress bars and names in other encodings do not refuse a log: a few bytes that are not UTF-8
    become U+FFFD.

    :raises InvalidDocument: if more than a few bytes are not UTF-8
    """
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if utf16 else "utf-8-sig", "replace")
    if text.count("\ufffd") > len(text) // _CHARACTERS_FOR_AN_ERROR + 1:
        raise InvalidDocument(Reason.NOT_UTF8, "the file is not UTF-8 text", place=place)
    lines = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return without_captures(lines).lstrip("\n")


def missing_value(place: str, field_name: str, what: str) -> InvalidDocument:
    """The refusal of a file without the value that makes it a result."""
    return InvalidDocument(Reason.MISSING_FIELD, what, field=field_name, place=place)


def as_object(value: Any, place: str) -> dict[str, Any]:
    """``value`` if it is a JSON object.

    :raises InvalidDocument: if it is something else
    """
    if not isinstance(value, dict):
        raise InvalidDocument(Reason.WRONG_TYPE, "an object was expected", field="$", place=place)
    return value


def results_or_refusal(
    results: Iterator[BenchmarkResult], place: str
) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Yield ``results``; an error becomes the refusal of the file at ``place``."""
    try:
        yield from results
    except InvalidDocument as error:
        error.place = error.place or place
        yield error


class ResultReader(Protocol):
    """Reads the results in all files of one system."""

    def __call__(
        self, tree: ResultTree, places: Sequence[str]
    ) -> Iterator[BenchmarkResult | InvalidDocument]: ...


def reader_of_places(
    results: Callable[[ResultTree, str], Iterator[BenchmarkResult]],
) -> ResultReader:
    """Make a reader of ``results``, which reads one file, and others that describe it."""

    def read(
        tree: ResultTree, places: Sequence[str]
    ) -> Iterator[BenchmarkResult | InvalidDocument]:
        for place in places:
            yield from results_or_refusal(results(tree, place), place)

    return read


def reader_of_files(results: Callable[[ResultFile], Iterator[BenchmarkResult]]) -> ResultReader:
    """Make a reader of ``results``, for a system whose files are independent of each other."""

    def opened(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
        yield from results(tree.file(place))

    return reader_of_places(opened)


def reader_of_parts(
    system: str, parts_of: Callable[[ResultFile], Iterable[_Part]], *, independent: bool = False
) -> Callable[[Callable[[Run, _Part], Iterator[BenchmarkResult]]], ResultReader]:
    """Make a reader of a function that reads one part of a file, such as one of several runs.

    :param parts_of: divides a file
    :param independent: whether later parts are read if a part is refused
    """

    def reader(results: Callable[[Run, _Part], Iterator[BenchmarkResult]]) -> ResultReader:
        @reader_of_files
        def read(file: ResultFile) -> Iterator[BenchmarkResult]:
            run, parts = file.run(system), list(parts_of(file))
            if independent:
                yield from results_of_parts(run, parts, results)
            else:
                for part_run, part in numbered_parts(run, parts):
                    yield from results(part_run, part)

        return read

    return reader
