"""Which files of a tree belong together as one inspection, and which are none of ours."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from typing import BinaryIO, cast

from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.sources.documents import MEBIBYTE, SourceLimits

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
#: Folders within folders beyond which nobody keeps documents.
MAX_DEPTH = 64
#: A file that small is no bomb, however well it was packed.
BOMB_FLOOR_BYTES = 16 * MEBIBYTE
_PIECE_BYTES = 256 * 1024


def inspection_part(path: str) -> tuple[str, str] | None:
    """Inspection folder and path within it, of a file that belongs to one.

    >>> inspection_part("2020/inspection-a/results/3/result")
    ('2020/inspection-a', 'results/3/result')
    >>> inspection_part("2020/notes.txt") is None
    True
    """
    found = _INSPECTION_FILE.match(path)
    return (found["folder"] or "", found["inner"]) if found else None


def is_unfinished_part(path: str) -> bool:
    """Whether a file belongs to an inspection folder that is still being written.

    >>> is_unfinished_part("inspection-a/results/3.part/result")
    True
    """
    return _UNFINISHED_FILE.search(path) is not None


def is_document(name: str) -> bool:
    """Whether a loose file may be a document, by its name."""
    return name.lower().endswith(DOCUMENT_SUFFIXES)


def is_archive(name: str) -> bool:
    """Whether a file is an archive, by its name."""
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def is_lines(name: str, limits: SourceLimits) -> bool:
    """Whether each line of a file is a document, by its name and what was asked for."""
    return limits.lines and name.lower().endswith(LINE_SUFFIXES)


def is_gzipped_document(name: str) -> bool:
    """Whether a file is one packed document."""
    return name.lower().endswith(".json.gz")


def too_large(place: str, size: int | None, limits: SourceLimits) -> InvalidDocument:
    """The refusal of a document over the limit, made before it is read."""
    said = "" if size is None else f"{size / MEBIBYTE:.1f} MiB: "
    return InvalidDocument(
        Reason.FILE_TOO_LARGE,
        f"{said}more than {limits.document_bytes / MEBIBYTE:g} MiB a document",
        place=place,
    )


def unreadable(place: str, error: BaseException | str) -> InvalidDocument:
    """The refusal of what the system does not let us read."""
    cause = error if isinstance(error, str) else cause_of(error)
    return InvalidDocument(Reason.UNREADABLE, cause, place=place)


def empty(place: str, others: Counter[str], what: str = "folder") -> InvalidDocument:
    """The refusal of a folder or archive without a single document.

    :param others: how many files were skipped, by their reason
    """
    counted = ", ".join(f"{reason}: {count}" for reason, count in others.most_common(5))
    files = f", only {others.total()} other files ({counted})" if others else ""
    return InvalidDocument(Reason.EMPTY_FOLDER, f"no documents in this {what}{files}", place=place)


def too_deep(place: str) -> InvalidDocument:
    """The refusal of a folder below too many others."""
    return InvalidDocument(
        Reason.NESTED_TOO_DEEP, f"more than {MAX_DEPTH} folders deep", place=place
    )


def of_part(error: InvalidDocument, place: str, part: str) -> InvalidDocument:
    """The refusal of an inspection folder for one of its files.

    It has the place of the folder, which is the document, and its field names the file.
    """
    return InvalidDocument(error.reason, error.message, field=f"{part}:$", place=place)


def cause_of(error: BaseException) -> str:
    """What the system said, without a URL that it may repeat, or the query of one."""
    strerror = getattr(error, "strerror", None)
    words = [word for word in str(strerror or error).split() if "://" not in word]
    said = re.sub(r"\?\S+", "?…", " ".join(words))
    return said[:300] or type(error).__name__


def read_bounded(stream: BinaryIO, place: str, limits: SourceLimits, head: bytes = b"") -> bytes:
    """The rest of ``stream``, of which little more than a document's limit is ever held.

    :param head: what was read of it before; the result begins with it
    :raises InvalidDocument: if there is more
    """
    data = head + read_up_to(stream, limits.document_bytes - len(head))
    if len(data) > limits.document_bytes:
        raise too_large(place, None, limits)
    return data


def read_up_to(stream: BinaryIO, most: int) -> bytes:
    """The rest of ``stream``, or somewhat more than ``most`` bytes of it.

    Read in pieces, because one large read sets its whole buffer aside first.
    """
    pieces: list[bytes] = []
    held = 0
    while held <= most and (piece := stream.read(_PIECE_BYTES)):
        pieces.append(piece)
        held += len(piece)
    return b"".join(pieces)


def unpack_document(stream: BinaryIO, packed: int, place: str, limits: SourceLimits) -> bytes:
    """Unpack a ``.json.gz``.

    :raises InvalidDocument: broken, too large, or packed beyond belief
    """
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            data = read_up_to(cast(BinaryIO, unpacked), limits.document_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, cause_of(error), place=place) from None
    if len(data) > BOMB_FLOOR_BYTES and len(data) > limits.ratio * packed:
        raise bomb(f"{packed} bytes unpack to {len(data)} and more", place)
    if len(data) > limits.document_bytes:
        raise too_large(place, None, limits)
    return data


def bomb(message: str, place: str) -> InvalidDocument:
    """The refusal of an archive made to fill the machine that opens it."""
    return InvalidDocument(Reason.ARCHIVE_BOMB, message, place=place)
