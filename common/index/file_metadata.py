"""Metadata of one file of an index, read with the smallest possible transfer."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast
from urllib.parse import urlsplit, urlunsplit

from common.errors import IndexFault, IndexProblem
from common.formats.core_metadata import parse_core_metadata
from common.http.fetching import Fetcher, FetchRequest
from common.index.archives import (
    sdist_metadata,
    wheel_metadata,
    wheel_span,
)
from common.index.partial_zip import (
    MissingSpan,
    SparseFile,
    content_range,
    entry_in_tail,
)
from common.index.project_pages import IndexFile, as_malformed

#: Bytes of a wheel's end that are asked for first: its table of contents, before it METADATA.
TAIL = 32 << 10
#: How often a further part is asked for.
_ROUNDS = 4
#: Bytes of one part: the largest table of contents that is read.
_LARGEST_PART = 16 << 20
_IN_MEMORY = 8 << 20
#: What servers answer that give no parts, or none of a file's end.
_NO_PARTS = frozenset({400, 405, 416, 501})


@dataclass(frozen=True, slots=True)
class MetadataRead:
    """Metadata of one file.

    :param text: empty if a source distribution has none
    :param source: ``metadata-file``, ``wheel-range``, ``wheel`` or ``sdist``
    :param static: whether its requirements hold for what is built from the file: always for
        a wheel; for a source distribution only where it says so (PEP 643)
    """

    text: str = field(repr=False)
    source: str
    static: bool = True


def read_as(file: IndexFile, data: bytes | None, source: str) -> MetadataRead:
    """Text of metadata that was found; old files are in other encodings than UTF-8."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        text = (data or b"").decode("latin-1")
    return metadata_of(file, text, source)


def metadata_of(file: IndexFile, text: str, source: str) -> MetadataRead:
    """Whether the text can be relied on depends on the kind of file it is of."""
    static = file.kind == "wheel" or parse_core_metadata(text).is_static
    return MetadataRead(text, source, static)


def archive_metadata(file: IndexFile, archive: BinaryIO, limit: int) -> bytes | None:
    """Metadata inside a whole file.

    :raises IndexProblem: ``malformed``, ``too_large``, or ``not_found`` for other kinds
    """
    if file.kind == "wheel":
        return wheel_metadata(archive, file.filename, limit)
    if file.kind == "sdist":
        return sdist_metadata(archive, file.filename, limit)
    raise IndexProblem(IndexFault.NOT_FOUND, f"{file.filename}: no metadata is read of such a file")


def check_hash(file: IndexFile, archive: BinaryIO) -> None:
    """Compare a whole file with what its page promised, and go back to its beginning.

    :raises IndexProblem: ``hash_mismatch``, ``size_mismatch``
    """
    digest = hashlib.sha256()
    while piece := archive.read(1 << 20):
        digest.update(piece)
    found, size = digest.hexdigest(), archive.tell()
    archive.seek(0)
    if file.size_bytes not in (None, size):
        raise _other_size(file, size)
    if file.sha256 not in (None, found):
        raise IndexProblem(
            IndexFault.HASH_MISMATCH, f"{file.filename} has sha256 {found}, promised: {file.sha256}"
        )


async def fetch_metadata(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    """Read the metadata file if there is one, else parts of a wheel, else the whole file.

    :raises IndexProblem: also for what its parsers did not foresee
    """
    with as_malformed(f"the metadata of {file.filename}"):
        return await _fetch_metadata(fetcher, file)


async def _fetch_metadata(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    if file.metadata_sha256 is not None:
        try:
            return await _metadata_file(fetcher, file)
        except IndexProblem as problem:
            if problem.code is not IndexFault.NOT_FOUND:
                raise
    if file.kind == "wheel":
        try:
            return await _by_parts(fetcher, file)
        except IndexProblem as problem:
            if problem.status not in _NO_PARTS:
                raise
    return await _whole(fetcher, file)


async def _metadata_file(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    parts = urlsplit(file.url)
    url = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}.metadata", parts.query, ""))
    body = io.BytesIO()
    what = f"the metadata of {file.filename}"
    limits = {200: fetcher.limits.metadata_bytes}
    await fetcher.fetch(FetchRequest(url, what, limits, body, {"Accept-Encoding": "gzip"}))
    found = hashlib.sha256(body.getvalue()).hexdigest()
    if file.metadata_sha256 not in ("", found):
        message = f"{what} has sha256 {found}, promised: {file.metadata_sha256}"
        raise IndexProblem(IndexFault.HASH_MISMATCH, message)
    return read_as(file, body.getvalue(), "metadata-file")


async def _by_parts(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    """Ask for the wheel's end, then for what was missing in it."""
    with _temporary() as body:
        # Some servers refuse to count from the end; most pages say how large a file is.
        size = file.size_bytes
        asked = f"bytes=-{TAIL}" if not size else f"bytes={max(0, size - TAIL)}-{size - 1}"
        limits = {200: fetcher.limits.archive_bytes, 206: TAIL}
        wanted = FetchRequest(file.url, file.filename, limits, body, {"Range": asked})
        answer = await _or_no_range(fetcher, wanted)
        if answer is None:
            return await asyncio.to_thread(_read_whole, file, body, fetcher.limits.metadata_bytes)
        first, size = content_range(answer, _length(body), file.filename)
        if file.size_bytes not in (None, size):
            raise _other_size(file, size)
        tail = body.read()
    if first + len(tail) != size:
        message = f"{file.filename}: another part than the end that was asked for"
        raise IndexProblem(IndexFault.MALFORMED, message)
    sparse = SparseFile(size)
    sparse.add(first, tail)
    if first == 0:
        check_hash(file, cast(BinaryIO, sparse))
    data = await _by_entry(fetcher, file, sparse, tail)
    if data is None:
        data = await _complete(fetcher, file, sparse)
    return read_as(file, data, "wheel-range")


async def _by_entry(
    fetcher: Fetcher, file: IndexFile, sparse: SparseFile, tail: bytes
) -> bytes | None:
    """METADATA without the rest of a large table of contents, where that can be done."""
    limit = fetcher.limits.metadata_bytes
    entry = entry_in_tail(tail, sparse.size, file.filename, limit)
    if entry is None:
        return None
    try:
        sparse.need(entry.start, entry.end)
    except MissingSpan as missing:
        await _add(fetcher, file, sparse, missing)
    sparse.seek(entry.start)
    try:
        return entry.read(sparse.read(entry.end - entry.start), file.filename, limit)
    except MissingSpan:
        # A server may give less than it was asked for; the rest is asked for part by part.
        return None
    except IndexProblem as problem:
        if problem.code is not IndexFault.MALFORMED:
            raise
        return None


async def _or_no_range(fetcher: Fetcher, wanted: FetchRequest) -> str | None:
    """The header that says which part came, or ``None`` if the whole file did."""
    try:
        answer = await fetcher.fetch(wanted)
    except IndexProblem as problem:
        if problem.code is not IndexFault.TOO_LARGE:
            raise
        message = f"{wanted.what} is large, and the server gives no parts of it"
        raise IndexProblem(IndexFault.NO_RANGE, message) from None
    return answer.headers.get("content-range", "") if answer.status == 206 else None


async def _complete(fetcher: Fetcher, file: IndexFile, sparse: SparseFile) -> bytes:
    """Read METADATA, asking for each part that turns out to be missing."""
    limit = fetcher.limits.metadata_bytes

    def attempt() -> bytes:
        archive = cast(BinaryIO, sparse)
        sparse.need(*wheel_span(archive, file.filename, limit))
        return wheel_metadata(archive, file.filename, limit)

    for _ in range(_ROUNDS):
        try:
            return await asyncio.to_thread(attempt)
        except MissingSpan as missing:
            await _add(fetcher, file, sparse, missing)
    raise IndexProblem(IndexFault.MALFORMED, f"{file.filename} leads from part to part")


async def _add(fetcher: Fetcher, file: IndexFile, sparse: SparseFile, missing: MissingSpan) -> None:
    length = missing.end - missing.start
    if length > _LARGEST_PART:
        message = f"{file.filename} is not read by {length:,} bytes"
        raise IndexProblem(IndexFault.TOO_LARGE, message)
    body = io.BytesIO()
    asked = {"Range": f"bytes={missing.start}-{missing.end - 1}"}
    wanted = FetchRequest(file.url, file.filename, {206: length}, body, asked)
    answer = await fetcher.fetch(wanted)
    header = answer.headers.get("content-range", "")
    first, size = content_range(header, len(body.getvalue()), file.filename)
    if (first, size) != (missing.start, sparse.size):
        raise IndexProblem(IndexFault.MALFORMED, f"{file.filename} changes while it is read")
    sparse.add(first, body.getvalue())


async def _whole(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    with _temporary() as body:
        limits = {200: fetcher.limits.archive_bytes}
        await fetcher.fetch(FetchRequest(file.url, file.filename, limits, body))
        return await asyncio.to_thread(_read_whole, file, body, fetcher.limits.metadata_bytes)


def _read_whole(file: IndexFile, body: BinaryIO, limit: int) -> MetadataRead:
    check_hash(file, body)
    return read_as(file, archive_metadata(file, body, limit), file.kind)


def _temporary() -> BinaryIO:
    made: Callable[[int], object] = tempfile.SpooledTemporaryFile
    return cast(BinaryIO, made(_IN_MEMORY))


def _length(file: BinaryIO) -> int:
    length = file.seek(0, io.SEEK_END)
    file.seek(0)
    return length


def _other_size(file: IndexFile, size: int) -> IndexProblem:
    return IndexProblem(
        IndexFault.SIZE_MISMATCH,
        f"{file.filename} has {size:,} bytes, promised: {file.size_bytes:,}",
    )
