"""Reads files and lines within limits, and builds the refusals of files that exceed them."""

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from ingest.sources.source_items import MEBIBYTE, RawDocument, SourceLimits
from model.errors import InvalidDocument, Reason

#: Maximum depth at which folders are searched.
MAX_DEPTH = 64
#: A file that unpacks to fewer bytes is accepted whatever its compression ratio.
BOMB_FLOOR_BYTES = 16 * MEBIBYTE
_PIECE_BYTES = 256 * 1024


def too_large(place: str, size: int | None, limits: SourceLimits) -> InvalidDocument:
    """The refusal of a document that is larger than the limit.

    :param size: size in bytes, if known
    """
    prefix = "" if size is None else f"{size / MEBIBYTE:.1f} MiB: "
    return InvalidDocument(
        Reason.FILE_TOO_LARGE,
        f"{prefix}more than {limits.document_bytes / MEBIBYTE:g} MiB a document",
        place=place,
    )


def unreadable(place: str, error: BaseException | str) -> InvalidDocument:
    """The refusal of a file that the operating system does not open or read."""
    cause = error if isinstance(error, str) else cause_of(error)
    return InvalidDocument(Reason.UNREADABLE, cause, place=place)


def empty(place: str, others: Counter[str], what: str = "folder") -> InvalidDocument:
    """The refusal of a folder or an archive without a document.

    :param others: numbers of skipped files by their reason
    """
    counted = ", ".join(f"{reason}: {count}" for reason, count in others.most_common(5))
    files = f", only {others.total()} other files ({counted})" if others else ""
    return InvalidDocument(Reason.EMPTY_FOLDER, f"no documents in this {what}{files}", place=place)


def too_deep(place: str) -> InvalidDocument:
    """The refusal of a folder that is more than :data:`MAX_DEPTH` levels deep."""
    return InvalidDocument(
        Reason.NESTED_TOO_DEEP, f"more than {MAX_DEPTH} folders deep", place=place
    )


def of_part(error: InvalidDocument, place: str, part: str) -> InvalidDocument:
    """The refusal of an inspection folder because of one file; the field names that file."""
    return InvalidDocument(error.reason, error.message, field=f"{part}:$", place=place)


def cause_of(error: BaseException) -> str:
    """Return an error's message without its URLs and queries, which may contain secrets."""
    strerror = getattr(error, "strerror", None)
    parts = [part for part in str(strerror or error).split() if "://" not in part]
    message = re.sub(r"\?\S+", "?…", " ".join(parts))
    return message[:300] or type(error).__name__


def read_bounded(stream: BinaryIO, place: str, limits: SourceLimits, head: bytes = b"") -> bytes:
    """Return ``head`` and the rest of ``stream``.

    :param head: bytes that were already read from the stream
    :raises InvalidDocument: if the sum exceeds the limit of a document
    """
    data = head + read_up_to(stream, limits.document_bytes - len(head))
    if len(data) > limits.document_bytes:
        raise too_large(place, None, limits)
    return data


def read_up_to(stream: BinaryIO, most: int) -> bytes:
    """Return the rest of ``stream``; reading stops shortly after ``most`` bytes.

    The stream is read in pieces, because one large read would first allocate the whole buffer.
    """
    pieces: list[bytes] = []
    held = 0
    while held <= most and (piece := stream.read(_PIECE_BYTES)):
        pieces.append(piece)
        held += len(piece)
    return b"".join(pieces)


def unpack_document(stream: BinaryIO, packed: int, place: str, limits: SourceLimits) -> bytes:
    """Unpack a ``.json.gz``.

    :param packed: size of the packed file in bytes
    :raises InvalidDocument: if the file is broken, too large or a decompression bomb
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
    """The refusal of an archive that unpacks to far more bytes than a real archive."""
    return InvalidDocument(Reason.ARCHIVE_BOMB, message, place=place)


_LINE_BYTES = 64 * 1024


def documents_in_lines(
    opened: Callable[[], BinaryIO], name: str, source: str, place: str, limits: SourceLimits
) -> Iterator[RawDocument | InvalidDocument]:
    """Yield every line that is not blank; its place is a text such as ``dump.jsonl line 17``.

    A line is only refused if it is longer than the limit for a document. If the file is truncated,
    the complete lines are yielded first.

    :param opened: opens the file
    :param place: path of the file in ``source``; empty if it is the source
    """
    number = 0
    try:
        with opened() as packed:
            for number, line in _numbered(packed, name, place, limits):
                at = f"{place} line {number}".lstrip()
                if line is None:
                    yield too_large(at, None, limits)
                elif text := line.strip():
                    yield RawDocument(source, at, data=text)
        if number == 0:
            yield InvalidDocument(Reason.EMPTY_FILE, "the file is empty", place=place)
    except InvalidDocument as error:
        yield error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        message = f"after line {number}: {cause_of(error)}"
        yield InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=place)
    except OSError as error:
        yield unreadable(place, error)


def _numbered(
    packed: BinaryIO, name: str, place: str, limits: SourceLimits
) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number; a line above the limit is ``None``."""
    gzipped = name.lower().endswith(".gz")
    stream = gzip.GzipFile(fileobj=packed) if gzipped else packed
    most = limits.document_bytes
    number = size = 0
    with io.BufferedReader(cast(io.RawIOBase, stream), _LINE_BYTES) as reader:
        while line := reader.readline(most + 1):
            number += 1
            size += len(line)
            whole = len(line) <= most or line.endswith(b"\n")
            yield number, line if whole else None
            while not (whole or line.endswith(b"\n")) and (line := reader.readline(_LINE_BYTES)):
                size += len(line)
            if size > limits.archive_bytes:
                raise bomb(f"more than {limits.archive_bytes} bytes", place)
            if gzipped and size > BOMB_FLOOR_BYTES and size > limits.ratio * packed.tell():
                raise bomb(f"unpacks to {size} bytes and more", place)
