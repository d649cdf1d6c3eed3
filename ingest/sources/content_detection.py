"""Tells inspections, results of other benchmarks and other files apart by their content.

Published inspections often have no file extension, and other benchmarks publish ``.json`` too.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

import orjson

from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.benchmarks.systems import HEAD_BYTES, system_of
from ingest.inspections.generations import has_inspection_keys
from ingest.sources.documents import (
    RawDocument,
    SkippedFile,
    SourceLimits,
)
from ingest.sources.layout import is_archive, is_unfinished_part, read_bounded, read_up_to

#: Reasons why a file is skipped; results of other benchmarks have reasons that name these.
NOT_AN_INSPECTION = "not an inspection"
NOT_NAMED_LIKE_ONE = "not named like a document"
UNFINISHED = "part of an unfinished inspection folder"
SURPLUS = "not a part of its inspection folder"
NESTED_ARCHIVE = "archive inside an archive"
NO_REGULAR_FILE = "link that leads elsewhere, pipe or device"
NOT_READABLE = "not readable"
EMPTY = "empty"

_JSON_OBJECT = re.compile(rb"(?:" + re.escape(codecs.BOM_UTF8) + rb")?\s*\{")
#: A file without one of these keys is not an inspection of any generation. Large files of other
#: programs are searched for them and not parsed.
_KEYS = re.compile(
    rb'"(?:job_logs?|inspection_id|build_log|requirements_locked|hwinfo|script_sha256|exit_code)"\s*:'
)


def is_inspection(data: bytes) -> bool:
    """Whether a file has the keys of an inspection; the parser says whether it is a valid one.

    JSON that breaks off or is invalid counts as an inspection if one of the keys with which
    inspections begin occurs anywhere in it.

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
    """Return why a file is skipped that is not an inspection; names the benchmark if known."""
    if not data.strip():
        return EMPTY
    system = system_of(data[:HEAD_BYTES])
    return f"result of {system.title}" if system else NOT_AN_INSPECTION


def screened(raw: RawDocument, limits: SourceLimits) -> RawDocument | InvalidDocument | SkippedFile:
    """Return ``raw``, or a skipped file or a refusal if another benchmark wrote it.

    It is refused if it is the whole source, because a person named it.
    """
    if not limits.by_content or raw.data is None or is_inspection(raw.data):
        return raw
    system = system_of(raw.data[:HEAD_BYTES])
    if system is None:
        return raw
    if raw.place:
        return SkippedFile(raw.source, raw.place, f"result of {system.title}")
    message = f"a result of {system.title}, which is another benchmark and not an inspection"
    return InvalidDocument(Reason.FOREIGN_BENCHMARK, message)


def recognised(
    stream: BinaryIO, source: str, place: str, limits: SourceLimits
) -> RawDocument | SkippedFile:
    """Read a file whose name does not tell what it is; return the inspection or a skipped file.

    :raises InvalidDocument: if a JSON file is larger than the limit of a document
    """
    head = read_up_to(stream, HEAD_BYTES)
    if not _JSON_OBJECT.match(head):
        return SkippedFile(source, place, other_content(head))
    data = read_bounded(stream, place, limits, head)
    if is_inspection(data):
        return RawDocument(source, place, data=data)
    return SkippedFile(source, place, other_content(data))


def skipped_by_name(place: str, *, in_archive: bool = False) -> str | None:
    """Return why a file is skipped because of its name; ``None`` if its content decides."""
    if is_unfinished_part(place):
        return UNFINISHED
    if in_archive and is_archive(place):
        return NESTED_ARCHIVE
    return None
