"""Distinguishes inspections, results of other benchmarks and other files by their content.

Published inspections often have no file extension, and other benchmarks also publish
``.json`` files.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import orjson

from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.benchmarks.systems import HEAD_BYTES, system_of
from ingest.inspections.generations import has_inspection_keys
from ingest.sources.documents import (
    RawDocument,
    SkippedFile,
    SourceItem,
    SourceLimits,
)
from ingest.sources.layout import (
    empty,
    is_archive,
    is_unfinished_part,
    read_bounded,
    read_up_to,
)

#: Reasons why a file is skipped; results of other benchmarks have reasons of their own.
NOT_AN_INSPECTION = "not an inspection"
NOT_NAMED_LIKE_ONE = "not named like a document"
UNFINISHED = "part of an unfinished inspection folder"
SURPLUS = "not a part of its inspection folder"
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


def is_inspection(data: bytes) -> bool:
    """Whether a file has the keys of an inspection, valid or not.

    Truncated or invalid JSON counts as an inspection if it contains one of these keys anywhere.

    >>> is_inspection(b'{"inspection_id": "inspection-a", "job_logs": [')
    True
    >>> is_inspection(b'{"columns": ["exit_code", "stdout"]}')
    False
    """
    if not _JSON_OBJECT.match(data) or not _KEYS.search(data):
        return False
    try:
        return has_inspection_keys(orjson.loads(data.removeprefix(codecs.BOM_UTF8)))
    except orjson.JSONDecodeError:
        return True


def other_content(data: bytes) -> str:
    """Return why a file that is not an inspection is skipped, such as the benchmark's name."""
    if not data.strip():
        return EMPTY
    system = system_of(data[:HEAD_BYTES])
    return f"result of {system.title}" if system else NOT_AN_INSPECTION


def screened(raw: RawDocument, limits: SourceLimits) -> RawDocument | InvalidDocument | SkippedFile:
    """Return ``raw``, or a skipped file if another benchmark wrote it.

    If another benchmark's file is the whole source, it is refused, because it was named explicitly.
    """
    if not limits.by_content or raw.data is None or is_inspection(raw.data):
        return raw
    system = system_of(raw.data[:HEAD_BYTES])
    if system is None:
        return raw
    if raw.place:
        return SkippedFile(raw.source, raw.place, f"result of {system.title}")
    message = f"a result of {system.title}, which is another benchmark, not an inspection"
    return InvalidDocument(Reason.FOREIGN_BENCHMARK, message)


def recognised(
    stream: BinaryIO, source: str, place: str, limits: SourceLimits
) -> RawDocument | SkippedFile:
    """Recognise a file by its content, and return an inspection or a skipped file.

    :raises InvalidDocument: if a JSON file exceeds the limit of a document
    """
    head = read_up_to(stream, HEAD_BYTES)
    if not _JSON_OBJECT.match(head):
        return SkippedFile(source, place, other_content(head))
    data = read_bounded(stream, place, limits, head)
    if is_inspection(data):
        return RawDocument(source, place, data=data)
    return SkippedFile(source, place, other_content(data))


def skipped_by_name(place: str, *, in_archive: bool = False) -> str | None:
    """Return the reason to skip a file because of its name; ``None`` if the content must decide."""
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
    """Read a file whose name is not that of a document.

    :param opened: opens the file; returns ``None`` if it is not a regular file
    :param errors: errors of opening and reading, after which the file is skipped
    """
    by_name = skipped_by_name(place, in_archive=in_archive)
    if reason := by_name if limits.by_content else NOT_NAMED_LIKE_ONE:
        return SkippedFile(source, place, reason)
    try:
        stream = opened()
        if stream is None:
            return SkippedFile(source, place, NO_REGULAR_FILE)
        with stream:
            return recognised(stream, source, place, limits)
    except InvalidDocument as error:
        return error
    except errors:
        return SkippedFile(source, place, NOT_READABLE)


def or_empty(items: Iterable[SourceItem], place: str, kind: str = "folder") -> Iterator[SourceItem]:
    """Yield ``items``; if no item is a document, refuse the whole folder or archive at the end."""
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
