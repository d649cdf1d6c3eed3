"""Sources, the parts of their URLs that may be stored, and the types between sources and parsers.

These types are documents, refusals, skipped files and limits.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fsspec

from model.errors import InvalidArgument, InvalidDocument, Reason
from model.redaction import absolute_source

#: Protocols whose URLs stand for local paths.
LOCAL = ("file", "local")
#: ``abfs://container@account/…`` names no user.
_CONTAINERS = ("abfs", "az")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[^@:\[\]]*)(?::[0-9]*)?\Z")
_CONTAINER = re.compile(r"[^@:]*@[^@:]*\Z")
_NOT_KEPT = "…"


def local_path(source: str) -> str | None:
    """Return the local path of a source; ``None`` for a remote source.

    >>> local_path("/data/inspections"), local_path("file:///data/inspections")
    ('/data/inspections', '/data/inspections')
    >>> local_path("s3://bucket/prefix") is None
    True
    """
    protocol, separator, _ = source.partition("://")
    if not separator:
        return source
    return str(fsspec.core.strip_protocol(source)) if protocol in LOCAL else None


def source_argument(source: str) -> str:
    """Check a source from the command line, and return it; a local path becomes absolute.

    :raises InvalidArgument: if it is empty, or a local path that does not exist
    """
    if not source.strip():
        raise InvalidArgument("the path is empty; `.` names the current directory")
    absolute = absolute_source(source)
    path = local_path(absolute)
    if path is not None and not os.path.lexists(path):
        raise InvalidArgument(f"{source}: no such file or folder")
    return absolute


def stored_source(source: str) -> str:
    """Return ``source`` without possible secrets, in a form that may be stored and shown.

    >>> stored_source("https://host.example/a.json?signature=0a1b")
    'https://host.example/a.json?…'
    >>> stored_source("https://jo:secret@host.example/a.json")
    'https://…'
    """
    if local_path(source) is not None:
        return source
    if has_credentials(source):
        return source.partition("://")[0] + "://" + _NOT_KEPT
    kept, question, _ = source.partition("?")
    return kept + question + _NOT_KEPT if question else kept


def has_credentials(source: str) -> bool:
    """Whether a URL contains a user name, even if its password contains ``/`` or ``?``."""
    protocol, _, rest = source.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if protocol in _CONTAINERS and _CONTAINER.match(authority):
        return False
    return not _HOST.match(authority)


def check_url(source: str) -> None:
    """Refuse a URL that must not be read; the message does not repeat the URL.

    :raises InvalidDocument: if it contains credentials, or ``…`` in place of its query
    """
    if has_credentials(source):
        raise InvalidDocument(
            Reason.UNREADABLE,
            "a URL with credentials is refused; pass credentials in the environment",
        )
    if source.endswith(_NOT_KEPT):
        raise InvalidDocument(
            Reason.UNREADABLE, "the query of this URL was not stored; enter the full URL again"
        )


MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RawDocument:
    """The bytes of one document, before it is parsed.

    The content of a single file is in ``data``. The contents of an inspection folder are in
    ``files``, by path in the folder, such as ``results/0/result``.

    :param source: the file, folder, archive or URL that the user named
    :param place: path inside ``source``; empty if the document is the source itself
    :param value: parsed ``data``, if it was parsed to recognise an inspection
    """

    source: str
    place: str = ""
    data: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    value: Any = field(default=None, compare=False, repr=False)

    @property
    def size_bytes(self) -> int:
        """Size of the document in memory."""
        return len(self.data or b"") + sum(map(len, self.files.values()))

    @property
    def folder_name(self) -> str | None:
        """Last part of the path of an inspection folder; ``None`` for a single file."""
        if self.data is not None:
            return None
        return (self.place or self.source).rstrip("/").rpartition("/")[2] or None


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A refused document; the rest of its source is still read."""

    source: str
    error: InvalidDocument

    @property
    def place(self) -> str:
        """Path of the document inside the source."""
        return self.error.place


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not an inspection, found in a source.

    :param place: path of the file inside ``source``
    :param reason: why the file is skipped; files are counted by this text, which is equal for files
        of one kind
    """

    source: str
    place: str
    reason: str


#: An item of a source: a document, a skipped file, or an error in place of a refused document.
SourceItem = RawDocument | InvalidDocument | SkippedFile


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits and options for reading a source.

    :param document_bytes: size of the largest document; for an inspection folder, of all its files
        together
    :param archive_bytes: largest unpacked size of all members of an archive
    :param members: largest number of members of an archive
    :param ratio: largest ratio of unpacked to packed bytes; JSON in gzip stays below 60
    :param allow_http: read ``http(s)://``; set it only for URLs that the operator named
    :param lines: read ``.jsonl`` and ``.ndjson`` too, in which each line is a document
    :param by_content: recognise inspections by content and report other files as
        :class:`SkippedFile`; otherwise file names decide
    """

    document_bytes: int = 64 * MEBIBYTE
    archive_bytes: int = 16 * 1024 * MEBIBYTE
    members: int = 1_000_000
    ratio: float = 200.0
    allow_http: bool = False
    lines: bool = False
    by_content: bool = False
