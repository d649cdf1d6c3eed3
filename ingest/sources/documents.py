"""What sources hand to parsers: the bytes of one document, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.errors import InvalidDocument

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document as it was found, unread.

    Either ``data`` holds a single file, or ``files`` those of an inspection
    folder by their path in it, such as ``results/0/result``.

    :param source: the file, folder, archive or URL that was asked for
    :param place: where inside ``source``; empty if it is the source itself
    """

    source: str
    place: str = ""
    data: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes held."""
        return len(self.data or b"") + sum(map(len, self.files.values()))

    @property
    def folder_name(self) -> str | None:
        """Last part of the path of an inspection folder; ``None`` for a single file."""
        if self.data is not None:
            return None
        return (self.place or self.source).rstrip("/").rpartition("/")[2] or None


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """Something in a source that cannot be taken in; the rest of the batch goes on."""

    source: str
    error: InvalidDocument

    @property
    def place(self) -> str:
        """Where inside the source: the place of the whole document, so that it can be mended."""
        return self.error.place


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file in a source that is not an inspection; nothing of it is taken in.

    :param place: where inside ``source``; the path of a file
    :param reason: why, in words that are the same for all files of the kind
    """

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How much a source may make us read.

    :param document_bytes: of one document; for a folder, of its files together
    :param archive_bytes: of an archive's members together, unpacked
    :param members: of an archive
    :param ratio: unpacked to packed bytes; JSON in gzip stays below 60
    :param allow_http: follow ``http(s)://``: only where a person named the URL
    :param lines: take ``.jsonl`` and the like too, in which each line is a document
    :param by_content: take inspections whatever their file name, and give the files that are
        none as :class:`SkippedFile`; otherwise only the names of files count
    """

    document_bytes: int = 64 * MEBIBYTE
    archive_bytes: int = 16 * 1024 * MEBIBYTE
    members: int = 1_000_000
    ratio: float = 200.0
    allow_http: bool = False
    lines: bool = False
    by_content: bool = False
