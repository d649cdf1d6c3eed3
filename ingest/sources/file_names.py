"""Recognises documents, archives and parts of inspections by their file names."""

import re
from collections.abc import Iterable

from ingest.sources.source_items import SourceLimits

_INSPECTION_FILE = re.compile(
    r"(?:(?P<folder>.+)/)?"
    r"(?P<inner>build/(?:specification|log|Dockerfile|status)|results/[0-9]{1,9}/(?:result|hwinfo|log))\Z"
)
_UNFINISHED_FILE = re.compile(
    r"(?:\A|/)(?:build|results/[0-9]{1,9})(?:\.part|\.old)?"
    r"/(?:specification|log|Dockerfile|status|result|hwinfo)\Z"
)
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
DOCUMENT_SUFFIXES = (".json", ".json.gz")
LINE_SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


def inspection_part(path: str) -> tuple[str, str] | None:
    """Split the path of an inspection's file into the inspection folder and the rest.

    >>> inspection_part("2020/inspection-a/results/3/result")
    ('2020/inspection-a', 'results/3/result')
    >>> inspection_part("2020/notes.txt") is None
    True
    """
    match = _INSPECTION_FILE.match(path)
    return (match["folder"] or "", match["inner"]) if match else None


def is_unfinished_part(path: str) -> bool:
    """Whether a file belongs to an inspection folder that is still being written.

    >>> is_unfinished_part("inspection-a/results/3.part/result")
    True
    """
    return _UNFINISHED_FILE.search(path) is not None


def is_document(name: str) -> bool:
    """Whether a file is named like a document."""
    return name.lower().endswith(DOCUMENT_SUFFIXES)


def is_archive(name: str) -> bool:
    """Whether a file is named like an archive."""
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def is_lines(name: str, limits: SourceLimits) -> bool:
    """Whether a file is named like JSON lines, and the limits allow JSON lines."""
    return limits.lines and name.lower().endswith(LINE_SUFFIXES)


def is_gzipped_document(name: str) -> bool:
    """Whether a file is named like a gzipped document."""
    return name.lower().endswith(".json.gz")


def is_inspection_folder(parts: Iterable[str]) -> bool:
    """Whether a folder with these files is an inspection; build logs alone do not make it one.

    :param parts: their paths in the folder
    """
    return any(part == "build/specification" or part.endswith("/result") for part in parts)
