"""Distinguishes inspections, results of other benchmarks and other files by their content.

Published inspections often have no file extension, and other benchmarks also publish ``.json``
files. File names do not identify the results of other benchmarks either: several systems call their
results ``result_0.txt`` or ``1``, and users rename files.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

import orjson

from common.errors import InvalidDocument
from common.formats.fields import Record
from common.reasons import Reason
from ingest.benchmarks.captures import without_captures
from ingest.benchmarks.systems import SYSTEMS, BenchmarkSystem
from ingest.inspections.generations import has_inspection_keys
from ingest.sources.layout import (
    empty,
    is_archive,
    is_unfinished_part,
    read_bounded,
    read_up_to,
)
from ingest.sources.source_items import (
    RawDocument,
    SkippedFile,
    SourceItem,
    SourceLimits,
)

#: How many bytes are read from the beginning of a file; larger workbooks are not recognised.
HEAD_BYTES = 256 * 1024
#: How many bytes are searched; console output may begin with other lines.
_SEARCHED_BYTES = 64 * 1024

#: The member of a workbook that has the texts of its cells, and how many of its bytes are searched.
_WORKBOOK_TEXTS = "xl/sharedStrings.xml"
_WORKBOOK_BYTES = 1024 * 1024


def system_of(head: bytes) -> BenchmarkSystem | None:
    """The benchmark system that wrote a file, or ``None``.

    :param head: the first :data:`HEAD_BYTES` of the file, or all of a shorter file
    """
    text = _workbook_texts(head) if head.startswith(b"PK\x03\x04") else _searched(head)
    return next((system for system in SYSTEMS if system.content.search(text)), None)


def _searched(head: bytes) -> bytes:
    """The searched part of a text file as UTF-8 with line feeds, without a byte order mark."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # Windows consoles write UTF-16; the head may end inside a character.
        text = head[: 2 * _SEARCHED_BYTES].decode("utf-16", "ignore")
    else:
        text = head.removeprefix(codecs.BOM_UTF8)[:_SEARCHED_BYTES].decode(errors="surrogateescape")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return without_captures(lines).encode(errors="surrogateescape")


def _workbook_texts(data: bytes) -> bytes:
    """The texts in the cells of a workbook; empty for other archives and for large workbooks."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as workbook, workbook.open(_WORKBOOK_TEXTS) as texts:
            return texts.read(_WORKBOOK_BYTES)
    except (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return b""


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
    system = system_of(data[:HEAD_BYTES])
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
    system = system_of(raw.data[:HEAD_BYTES])
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
