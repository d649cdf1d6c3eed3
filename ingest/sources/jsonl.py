"""Streams JSON lines, optionally gzipped: each line of the file is a document.

Only one line is in memory at a time, whatever the size of the file.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from ingest.sources.layout import BOMB_FLOOR_BYTES, bomb, cause_of, too_large, unreadable
from ingest.sources.source_items import RawDocument, SourceLimits
from model.errors import InvalidDocument, Reason

_PIECE_BYTES = 64 * 1024


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
    """Yield each line with its number; a line above the limit is ``None``.

    :raises InvalidDocument: if the file unpacks to more than the limits allow
    """
    gzipped = name.lower().endswith(".gz")
    stream = gzip.GzipFile(fileobj=packed) if gzipped else packed
    most = limits.document_bytes
    number = size = 0
    with io.BufferedReader(cast(io.RawIOBase, stream), _PIECE_BYTES) as reader:
        while line := reader.readline(most + 1):
            number += 1
            size += len(line)
            whole = len(line) <= most or line.endswith(b"\n")
            yield number, line if whole else None
            while not (whole or line.endswith(b"\n")) and (line := reader.readline(_PIECE_BYTES)):
                size += len(line)
            if size > limits.archive_bytes:
                raise bomb(f"more than {limits.archive_bytes} bytes", place)
            if gzipped and size > BOMB_FLOOR_BYTES and size > limits.ratio * packed.tell():
                raise bomb(f"unpacks to {size} bytes and more", place)
