"""Distinguishes inspections, results of other benchmarks and other files by their content.

Published inspections often have no file extension, and other benchmarks also publish ``.json``
files. File names do not identify the results of other benchmarks either: several systems call their
results ``result_0.txt`` or ``1``, and users rename files.
"""

import codecs
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import IO, BinaryIO

import orjson

from ingest.benchmarks.result_texts import without_captures
from ingest.benchmarks.systems import SYSTEMS, BenchmarkSystem, has_mark
from ingest.inspections.generations import has_inspection_keys
from ingest.sources.bounded_reads import empty, read_bounded, read_up_to
from ingest.sources.file_names import is_archive, is_unfinished_part
from ingest.sources.source_items import RawDocument, SkippedFile, SourceItem, SourceLimits
from model.errors import InvalidDocument, Reason
from model.json_fields import Record

#: How many bytes of a file decide whether it is an inspection.
HEAD_BYTES = 256 * 1024
#: How many bytes of a file are searched at once, and again with those behind them.
_WINDOW_BYTES = 256 * 1024
_OVERLAP = 8 * 1024
#: A packed file may have no end.
_SEARCHED_PIECES = 256
#: The member of a workbook that has the texts of its cells.
_WORKBOOK_TEXTS = "xl/sharedStrings.xml"


def system_of(content: bytes | BinaryIO) -> BenchmarkSystem | None:
    """The benchmark system whose mark is anywhere in a file, or ``None``.

    :param content: all of the file; a stream must be seekable, and is read in windows
    """
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    workbook = stream.read(4) == b"PK\x03\x04"
    stream.seek(0)
    first, begun = len(SYSTEMS), set[str]()
    for window in _windows(_workbook_pieces(stream) if workbook else _pieces(stream)):
        for number, system in enumerate(SYSTEMS[:first] if has_mark(window) else ()):
            position = 0
            if system.key not in begun:
                match = system.content.search(window)
                if match is None:
                    continue
                begun.add(system.key)
                position = match.end()
            if system.end is None or system.end.search(window, position):
                first = number
                break
        if not first:
            break
    return SYSTEMS[first] if first < len(SYSTEMS) else None


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    return islice(iter(lambda: stream.read(_WINDOW_BYTES), b""), _SEARCHED_PIECES)


def _windows(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A text file as UTF-8 with line feeds, without a byte order mark and prefixes, in windows.

    Windows have whole lines, unless a line is longer than a window, and begin with the last lines
    of the window before, because a mark may have several lines.
    """
    decoder: io.IncrementalNewlineDecoder | None = None
    text = ""
    for piece in chain(pieces, (b"",)):
        if decoder is None:
            # Windows consoles write UTF-16.
            utf16 = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding, errors = ("utf-16", "ignore") if utf16 else ("utf-8-sig", "surrogateescape")
            decoder = io.IncrementalNewlineDecoder(
                codecs.getincrementaldecoder(encoding)(errors), translate=True
            )
        text += decoder.decode(piece, final=not piece)
        end = text.rfind("\n") + 1
        if not piece or len(text) - end > _WINDOW_BYTES:
            end = len(text)
        yield without_captures(text[:end]).encode(errors="surrogateescape")
        start = max(0, end - _OVERLAP)
        text = text[start and (text.find("\n", start, end) + 1 or start) :]


def _workbook_pieces(stream: BinaryIO) -> Iterator[bytes]:
    """The texts in the cells of a workbook; none for other archives."""
    try:
        with zipfile.ZipFile(stream) as workbook, workbook.open(_WORKBOOK_TEXTS) as texts:
            yield from _pieces(texts)
    except (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return


#: Reasons why a file is skipped; results of other benchmarks have reasons of their own.
NOT_AN_INSPECTION = "not an inspection"
NOT_NAMED_LIKE_A_DOCUMENT = "not named like a document"
UNFINISHED = "part of an unfinished inspection folder"
NOT_IN_FOLDER = "not a part of its inspection folder"
NESTED_ARCHIVE = "archive inside an archive"
NO_REGULAR_FILE = "link that leads elsewhere, pipe or device"
NOT_READABLE = "not readable"
EMPTY = "empty"

_JSON_OBJECT = re.compile(rb"(?:" + re.escape(codecs.BOM_UTF8) + rb")?\s*\{")
#: A file without any of these keys is not an inspection. Searching for them is faster than parsing
#: large files of other programs.
_KEYS = re.compile(
    rb'"(?:job_logs?|inspection_id|build_log|requirements_locked|hwinfo|script_sha256|exit_code)"\s*:'
)


def parsed_inspection(data: bytes) -> Record | None:
    """The parsed JSON of a file with the keys of an inspection; ``None`` for other files.

    Truncated or invalid JSON counts as an inspection if it contains one of these keys anywhere. An
    empty object is returned for it.

    >>> parsed_inspection(b'{"job_log": {}}')
    {'job_log': {}}
    >>> parsed_inspection(b'{"inspection_id": "inspection-a", "job_logs": [')
    {}
    >>> parsed_inspection(b'{"columns": ["exit_code", "stdout"]}')
    """
    if not _JSON_OBJECT.match(data) or not _KEYS.search(data):
        return None
    try:
        value: Record = orjson.loads(data.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError:
        return {}
    return value if has_inspection_keys(value) else None


def other_content(data: bytes) -> str:
    """Return why a file that is not an inspection is skipped, such as the benchmark's name."""
    if not data.strip():
        return EMPTY
    system = system_of(data)
    return f"result of {system.title}" if system else NOT_AN_INSPECTION


def screen_document(
    raw: RawDocument, limits: SourceLimits
) -> RawDocument | InvalidDocument | SkippedFile:
    """Return ``raw``, or a skipped file if another benchmark wrote it.

    If the whole source is a file of another benchmark, the file is refused, because it was named
    explicitly.
    """
    if not limits.by_content or raw.data is None:
        return raw
    value = parsed_inspection(raw.data)
    if value is not None:
        return replace(raw, value=value)
    system = system_of(raw.data)
    if system is None:
        return raw
    if raw.place:
        return SkippedFile(raw.source, raw.place, f"result of {system.title}")
    message = f"a result of {system.title}, which is another benchmark, not an inspection"
    return InvalidDocument(Reason.FOREIGN_BENCHMARK, message)


def recognise(
    stream: BinaryIO, source: str, place: str, limits: SourceLimits
) -> RawDocument | SkippedFile:
    """Recognise a file by its content, and return an inspection or a skipped file.

    :raises InvalidDocument: if a JSON file exceeds the limit of a document
    """
    head = read_up_to(stream, HEAD_BYTES)
    if not _JSON_OBJECT.match(head):
        return SkippedFile(source, place, other_content(head))
    data = read_bounded(stream, place, limits, head)
    value = parsed_inspection(data)
    if value is not None:
        return RawDocument(source, place, data=data, value=value)
    return SkippedFile(source, place, other_content(data))


def skipped_by_name(place: str, *, in_archive: bool = False) -> str | None:
    """Return why a file is skipped by its name; ``None`` if its content must decide."""
    if is_unfinished_part(place):
        return UNFINISHED
    if in_archive and is_archive(place):
        return NESTED_ARCHIVE
    return None


def other_file(
    opened: Callable[[], BinaryIO | None],
    source: str,
    place: str,
    limits: SourceLimits,
    errors: tuple[type[Exception], ...],
    *,
    in_archive: bool = False,
) -> SourceItem:
    """Read a file that is not named like a document.

    :param opened: opens the file; returns ``None`` if it is not a regular file
    :param errors: errors of opening and reading, after which the file is skipped
    """
    by_name = skipped_by_name(place, in_archive=in_archive)
    if reason := by_name if limits.by_content else NOT_NAMED_LIKE_A_DOCUMENT:
        return SkippedFile(source, place, reason)
    try:
        stream = opened()
        if stream is None:
            return SkippedFile(source, place, NO_REGULAR_FILE)
        with stream:
            return recognise(stream, source, place, limits)
    except InvalidDocument as error:
        return error
    except errors:
        return SkippedFile(source, place, NOT_READABLE)


def or_empty(items: Iterable[SourceItem], place: str, kind: str = "folder") -> Iterator[SourceItem]:
    """Yield ``items``; at the end, refuse the whole folder or archive if no item is a document."""
    skipped: Counter[str] = Counter()
    has_documents = False
    for item in items:
        if isinstance(item, SkippedFile):
            skipped[item.reason] += 1
        else:
            has_documents = True
        yield item
    if not has_documents:
        yield empty(place, skipped, kind)
