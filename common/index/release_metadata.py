"""Reads the metadata of a release from the best of its files, and reports metadata problems.

The metadata of one file of an index is read with the smallest possible transfer.
"""

import asyncio
import hashlib
import io
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, cast
from urllib.parse import urlsplit, urlunsplit

from packaging.utils import canonicalize_name

from common.formats.core_metadata import CoreMetadata, parse_core_metadata
from common.http.fetching import Fetcher, FetchRequest
from common.index.page_parsing import refuse_malformed
from common.index.sdists import Certainty, SdistMetadata, SdistReader, read_sdist, text_of
from common.index.wheel_metadata import (
    MissingSpan,
    SparseFile,
    content_range,
    directory_start,
    entry_in_tail,
    import_names_in,
    wheel_metadata,
)
from model.errors import IndexFault, IndexProblem
from model.packages.environments import Environment
from model.packages.identity import version_of
from model.packages.import_names import ImportNames, declared_names
from model.packages.project_pages import IndexFile
from model.packages.releases import SDIST_LIKELY, ReleaseMetadata, ReleaseProblem
from model.packages.wheels import installed_rank

#: Bytes of a wheel's end that are fetched first: usually METADATA and the table of contents.
TAIL = 16 << 10
#: Maximum number of further range requests.
_ROUNDS = 4
#: Maximum bytes of one range, and so of a table of contents.
_LARGEST_PART = 16 << 20
_IN_MEMORY = 8 << 20
#: Sets how much is received of a file for its metadata.
_SETTING = "INDEX_ARCHIVE_MB"
#: Statuses of servers without support for ranges, or for ranges from the end.
_NO_PARTS = frozenset({400, 405, 416, 501})


@dataclass(frozen=True, slots=True)
class MetadataRead:
    """Metadata of one file.

    :param text: empty if a source distribution has no metadata
    :param source: ``metadata-file``, ``wheel-range``, ``wheel``, ``sdist``,
        :data:`model.packages.releases.SDIST_LIKELY` or :data:`UNKNOWN`
    :param imports: from the wheel's central directory; ``None`` if it was not read
    """

    text: str = field(repr=False)
    source: str
    imports: ImportNames | None = None


#: Source of metadata that leaves the requirements to the build.
UNKNOWN = "sdist-unknown"
_SDIST_SOURCES = {
    Certainty.CERTAIN: "sdist",
    Certainty.LIKELY: SDIST_LIKELY,
    Certainty.UNKNOWN: UNKNOWN,
}


def _of_sdist(metadata: SdistMetadata | None) -> MetadataRead:
    if metadata is None:
        return MetadataRead("", UNKNOWN)
    return MetadataRead(metadata.text, _SDIST_SOURCES[metadata.certainty])


def archive_metadata(file: IndexFile, archive: BinaryIO, limit: int) -> MetadataRead:
    """Metadata inside a complete file.

    :raises IndexProblem: ``malformed``, ``too_large``, or ``not_found`` for other kinds of files
    """
    if file.kind == "wheel":
        text = text_of(wheel_metadata(archive, file.filename, limit))
        return MetadataRead(text, "wheel", import_names_in(archive))
    if file.kind == "sdist":
        return _of_sdist(read_sdist(archive, file.filename, limit))
    raise IndexProblem(
        IndexFault.NOT_FOUND, f"{file.filename}: metadata of such files is not supported"
    )


def check_hash(file: IndexFile, archive: BinaryIO) -> None:
    """Compare a complete file with the hash and size on its page, and rewind the file.

    :raises IndexProblem: ``hash_mismatch``, ``size_mismatch``
    """
    digest = hashlib.sha256()
    while piece := archive.read(1 << 20):
        digest.update(piece)
    size = archive.tell()
    archive.seek(0)
    _check_digest(file, size, digest.hexdigest())


def _check_digest(file: IndexFile, size: int, sha256: str) -> None:
    if file.size_bytes not in (None, size):
        raise _other_size(file, size)
    if file.sha256 not in (None, sha256):
        message = f"{file.filename} has sha256 {sha256}, expected: {file.sha256}"
        raise IndexProblem(IndexFault.HASH_MISMATCH, message)


async def fetch_metadata(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    """Read the metadata file or, without one, parts of a wheel; failing that, the complete file.

    :raises IndexProblem: also for unexpected errors of the parsers
    """
    with refuse_malformed(f"the metadata of {file.filename}"):
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
    if file.kind == "sdist" and not file.filename.endswith(".zip"):
        return await _first_members(fetcher, file)
    return await _whole(fetcher, file)


async def _first_members(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    """Receive a source distribution until its metadata is known."""
    reader = SdistReader(file.filename, fetcher.limits.metadata_bytes)
    into = cast(BinaryIO, reader)
    limits = {200: fetcher.limits.archive_bytes}
    response = await fetcher.fetch(
        FetchRequest(file.url, file.filename, limits, into, setting=_SETTING, may_stop=True)
    )
    size, sha256 = reader.digest
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and file.size_bytes not in (None, int(length)):
        raise _other_size(file, int(length))
    if str(size) == length or size == file.size_bytes:
        # The hash of a part is unknown, as that of a wheel's end is.
        _check_digest(file, size, sha256)
    return _of_sdist(reader.result())


async def _metadata_file(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    parts = urlsplit(file.url)
    url = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}.metadata", parts.query, ""))
    body = io.BytesIO()
    what = f"the metadata of {file.filename}"
    limits = {200: fetcher.limits.metadata_bytes}
    await fetcher.fetch(FetchRequest(url, what, limits, body, {"Accept-Encoding": "gzip"}))
    sha256 = hashlib.sha256(body.getvalue()).hexdigest()
    if file.metadata_sha256 not in ("", sha256):
        message = f"{what} has sha256 {sha256}, expected: {file.metadata_sha256}"
        raise IndexProblem(IndexFault.HASH_MISMATCH, message)
    return MetadataRead(text_of(body.getvalue()), "metadata-file")


async def _by_parts(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    """Fetch the wheel's end, then the parts that are missing."""
    with _temporary() as body:
        # Some servers refuse ranges from the end; most pages have the size of a file.
        size = file.size_bytes
        tail_range = f"bytes=-{TAIL}" if not size else f"bytes={max(0, size - TAIL)}-{size - 1}"
        limits = {200: fetcher.limits.archive_bytes, 206: TAIL}
        request = FetchRequest(file.url, file.filename, limits, body, {"Range": tail_range})
        header = await _or_no_range(fetcher, request)
        if header is None:
            return await asyncio.to_thread(_read_whole, file, body, fetcher.limits.metadata_bytes)
        first, size = content_range(header, _length(body), file.filename)
        if file.size_bytes not in (None, size):
            raise _other_size(file, size)
        tail = body.read()
    if first + len(tail) != size:
        message = f"{file.filename}: the server sent other bytes than its end"
        raise IndexProblem(IndexFault.MALFORMED, message)
    sparse = SparseFile(size)
    sparse.add(first, tail)
    if first == 0:
        check_hash(file, cast(BinaryIO, sparse))
    data = await _by_entry(fetcher, file, sparse, tail)
    if data is None:
        data = await _complete(fetcher, file, sparse)
    return MetadataRead(text_of(data), "wheel-range", import_names_in(cast(BinaryIO, sparse)))


async def _by_entry(
    fetcher: Fetcher, file: IndexFile, sparse: SparseFile, tail: bytes
) -> bytes | None:
    """METADATA, read with a part of a large table of contents; ``None`` if that is impossible."""
    limit, first = fetcher.limits.metadata_bytes, sparse.size - len(tail)
    table = directory_start(tail, sparse.size)
    if table is None or table >= first:
        # The whole table of contents is known, or something is unusual.
        return None
    entry = entry_in_tail(tail, sparse.size, file.filename, limit)
    if entry is None:
        # Searching the whole table takes a hundredth of the time of parsing it.
        await _add(fetcher, file, sparse, MissingSpan(table, first))
        sparse.seek(table)
        with suppress(MissingSpan):  # the server sent less than requested
            entry = entry_in_tail(sparse.read(), sparse.size, file.filename, limit)
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
        # The server sent less than requested; the rest is fetched part by part.
        return None
    except IndexProblem as problem:
        if problem.code is not IndexFault.MALFORMED:
            raise
        return None


async def _or_no_range(fetcher: Fetcher, request: FetchRequest) -> str | None:
    """The header ``Content-Range``, or ``None`` if the complete file was sent."""
    try:
        response = await fetcher.fetch(request)
    except IndexProblem as problem:
        if problem.code is not IndexFault.TOO_LARGE:
            raise
        message = f"{request.what} is large, and the server does not support ranges"
        raise IndexProblem(IndexFault.NO_RANGE, message) from None
    return response.headers.get("content-range", "") if response.status == 206 else None


async def _complete(fetcher: Fetcher, file: IndexFile, sparse: SparseFile) -> bytes:
    """Read METADATA, and fetch each part that is missing."""
    limit = fetcher.limits.metadata_bytes

    def attempt() -> bytes:
        return wheel_metadata(cast(BinaryIO, sparse), file.filename, limit, sparse.need)

    for turn in range(_ROUNDS):
        try:
            # At first, no more than the wheel's end is known, and a thread would take longer.
            return await asyncio.to_thread(attempt) if turn else attempt()
        except MissingSpan as missing:
            await _add(fetcher, file, sparse, missing)
    raise IndexProblem(
        IndexFault.MALFORMED, f"{file.filename} needs more than {_ROUNDS} range requests"
    )


async def _add(fetcher: Fetcher, file: IndexFile, sparse: SparseFile, missing: MissingSpan) -> None:
    length = missing.end - missing.start
    if length > _LARGEST_PART:
        message = f"{file.filename} needs a range of {length:,} bytes"
        raise IndexProblem(IndexFault.TOO_LARGE, message)
    body = io.BytesIO()
    headers = {"Range": f"bytes={missing.start}-{missing.end - 1}"}
    request = FetchRequest(file.url, file.filename, {206: length}, body, headers)
    response = await fetcher.fetch(request)
    header = response.headers.get("content-range", "")
    first, size = content_range(header, len(body.getvalue()), file.filename)
    if (first, size) != (missing.start, sparse.size):
        raise IndexProblem(IndexFault.MALFORMED, f"{file.filename} changed between two requests")
    sparse.add(first, body.getvalue())


async def _whole(fetcher: Fetcher, file: IndexFile) -> MetadataRead:
    with _temporary() as body:
        limits = {200: fetcher.limits.archive_bytes}
        request = FetchRequest(file.url, file.filename, limits, body, setting=_SETTING)
        await fetcher.fetch(request)
        return await asyncio.to_thread(_read_whole, file, body, fetcher.limits.metadata_bytes)


def _read_whole(file: IndexFile, body: BinaryIO, limit: int) -> MetadataRead:
    check_hash(file, body)
    return archive_metadata(file, body, limit)


def _temporary() -> BinaryIO:
    temporary_file: Callable[[int], object] = tempfile.SpooledTemporaryFile
    return cast(BinaryIO, temporary_file(_IN_MEMORY))


def _length(file: BinaryIO) -> int:
    length = file.seek(0, io.SEEK_END)
    file.seek(0)
    return length


def _other_size(file: IndexFile, size: int) -> IndexProblem:
    return IndexProblem(
        IndexFault.SIZE_MISMATCH,
        f"{file.filename} has {size:,} bytes, expected: {file.size_bytes:,}",
    )


NO_FILES = ReleaseMetadata(
    problem=ReleaseProblem.NO_FILES, problem_message="neither a wheel nor a source distribution"
)

INVALID_VERSION = ReleaseMetadata(problem=ReleaseProblem.INVALID_VERSION)


def metadata_of_file(
    name: str, version: str, file: IndexFile, read: MetadataRead
) -> ReleaseMetadata:
    """Parse the metadata of a file of release ``version`` of ``name``."""
    core = parse_core_metadata(read.text)
    problem, message = _wrong_with(core, name, version, read)
    return ReleaseMetadata(
        requires_dist=None if problem else core.requires_dist,
        requires_python=core.requires_python or file.requires_python,
        provides_extra=core.provides_extra,
        license=core.license,
        metadata_source=read.source,
        metadata_file=file.filename,
        problem=problem,
        problem_message=message,
        imports=None if problem else _imports(core, read),
    )


def _imports(core: CoreMetadata, read: MetadataRead) -> ImportNames | None:
    """Names from all files of a wheel are best; next comes a declaration, then some files."""
    if (read.imports is None or not read.imports.complete) and core.import_names is not None:
        return declared_names(core.import_names, core.import_namespaces)
    return read.imports


def broken(
    file: IndexFile, message: str, problem: ReleaseProblem = ReleaseProblem.BROKEN_METADATA
) -> ReleaseMetadata:
    """The metadata of a release whose file is broken or has another permanent problem."""
    return ReleaseMetadata(
        requires_python=file.requires_python,
        metadata_file=file.filename,
        problem=problem,
        problem_message=message,
    )


def _wrong_with(
    core: CoreMetadata, name: str, version: str, read: MetadataRead
) -> tuple[ReleaseProblem | None, str | None]:
    if not read.text:
        return ReleaseProblem.BROKEN_METADATA, "it contains no metadata"
    if core.name is None or core.version is None:
        return ReleaseProblem.BROKEN_METADATA, "the metadata names no release"
    if (canonicalize_name(core.name), version_of(core.version)) != (name, version_of(version)):
        message = f"the metadata is that of {core.name[:100]} {core.version[:100]}"
        return ReleaseProblem.OTHER_METADATA, message
    if read.source == UNKNOWN:
        message = "it has only a source distribution, and a build decides its requirements"
        return ReleaseProblem.DYNAMIC_METADATA, message
    return None, None


#: Files of each kind that are tried before a release counts as broken.
_WHEELS, _SDISTS = 2, 1

#: The first platform that matches is preferred, if wheels of a release differ in what they require.
_PLATFORMS = (
    re.compile(r"any"),
    re.compile(r"(?:many)?linux.*_x86_64"),
    re.compile(r"(?:many|musl)?linux.*"),
    re.compile(r"win.*"),
)
_ARCHIVES = (".tar.gz", ".zip")


def metadata_files(
    files: Iterable[IndexFile], environment: Environment | None = None
) -> list[IndexFile]:
    """Return the files to read metadata from, in the order in which to try them.

    Wheels come first, because their requirements are final. The order prefers wheels that are not
    yanked, then the wheel that an installer would choose in the environment, then wheels for Linux
    on x86-64, then wheels with a metadata file, and then small wheels.

    :param environment: ``None`` if the release is read for all environments
    """
    listed = list(files)
    wheels = sorted(
        (it for it in listed if it.kind == "wheel"), key=lambda it: _wheel_rank(it, environment)
    )
    sdists = sorted((it for it in listed if it.kind == "sdist"), key=_sdist_rank)
    return [*wheels[:_WHEELS], *sdists[:_SDISTS]]


def _wheel_rank(file: IndexFile, environment: Environment | None) -> tuple[object, ...]:
    platform = file.filename.removesuffix(".whl").rpartition("-")[2]
    fit = installed_rank(file.filename, environment) if environment else ()
    rank = next(
        (at for at, known in enumerate(_PLATFORMS) if known.fullmatch(platform)), len(_PLATFORMS)
    )
    offered = file.metadata_sha256 is not None
    return file.yanked, fit, rank, not offered, file.size_bytes or 0, file.filename


def _sdist_rank(file: IndexFile) -> tuple[object, ...]:
    return file.yanked, not file.filename.endswith(_ARCHIVES), file.filename


#: Faults of a file that will not go away.
_LASTING_PROBLEMS = {
    IndexFault.MALFORMED: ReleaseProblem.BROKEN_METADATA,
    IndexFault.TOO_LARGE: ReleaseProblem.TOO_LARGE,
}
#: Faults of one file, after which another file of the release is tried.
_OF_FILE = _LASTING_PROBLEMS.keys() | {
    IndexFault.NOT_FOUND,
    IndexFault.HASH_MISMATCH,
    IndexFault.SIZE_MISMATCH,
    IndexFault.NO_RANGE,
}


async def read_release(
    read: Callable[[IndexFile], Awaitable[MetadataRead]],
    name: str,
    version: str,
    files: Sequence[IndexFile],
    environment: Environment | None = None,
) -> ReleaseMetadata:
    """Read the metadata of a release, or return the problem that prevents reading it.

    :param read: such as :meth:`common.index.client.IndexClient.metadata`
    :param environment: in which the release would be installed
    :raises IndexProblem: if the index did not serve the files; try again later
    """
    candidates = metadata_files(files, environment)
    if not candidates:
        return NO_FILES
    first_problem: ReleaseMetadata | None = None
    problem: IndexProblem | None = None
    for file in candidates:
        try:
            metadata = metadata_of_file(name, version, file, await read(file))
        except IndexProblem as error:
            if error.code not in _OF_FILE:
                raise
            problem = problem or error
            if error.code in _LASTING_PROBLEMS:
                lasting = _LASTING_PROBLEMS[error.code]
                first_problem = first_problem or broken(file, error.message, lasting)
            continue
        if metadata.problem is None:
            return metadata
        first_problem = first_problem or metadata
    if first_problem is None:
        assert problem is not None  # noqa: S101 - each file gave one or the other
        raise problem
    # The first choice is named: the release is read again only when the first choice changes.
    return replace(first_problem, metadata_file=candidates[0].filename)
