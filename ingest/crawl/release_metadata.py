"""Reads the metadata of a release from one of its files and makes a release document of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from common.errors import IndexFault, IndexProblem, InvalidDocument
from common.formats.core_metadata import CoreMetadata, parse_core_metadata
from common.index.file_metadata import MetadataRead
from common.index.project_pages import IndexFile
from common.packages import version_of
from common.releases import Release, ReleaseFile, ReleaseProblem
from graph.record.release_merging import KnownRelease
from ingest.releases.files import public_reason
from ingest.releases.parsing import ReleaseDraft, checked_release

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReleaseMetadata:
    """Metadata of a release, or the problem that keeps it unknown.

    :param requires_dist: requirement lines as written; ``None`` if they are not known
    :param metadata_file: the file that was read, also if it was broken
    """

    requires_dist: tuple[str, ...] | None = None
    requires_python: str | None = None
    provides_extra: tuple[str, ...] = ()
    license: str | None = None
    metadata_source: str | None = None
    metadata_file: str | None = None
    problem: ReleaseProblem | None = None
    problem_message: str | None = None


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
    )


def metadata_of_record(known: KnownRelease) -> ReleaseMetadata:
    """Return the metadata in the record, without what a solver and not the index said."""
    if known.told_by_solver:
        return ReleaseMetadata(
            metadata_file=known.metadata_file, problem=ReleaseProblem.NOT_RECORDED
        )
    return ReleaseMetadata(
        requires_dist=known.requirements_raw if known.requirements_known else None,
        requires_python=known.requires_python,
        provides_extra=known.extras,
        license=known.license,
        metadata_source=known.metadata_source,
        metadata_file=known.metadata_file,
        problem=None if known.problem is None else ReleaseProblem(known.problem),
        problem_message=known.problem_message,
    )


def broken(file: IndexFile, message: str) -> ReleaseMetadata:
    """Return the metadata of a release whose file is broken."""
    return ReleaseMetadata(
        requires_python=file.requires_python,
        metadata_file=file.filename,
        problem=ReleaseProblem.BROKEN_METADATA,
        problem_message=message,
    )


def release_draft(
    index: str, name: str, version: str, files: Iterable[IndexFile], metadata: ReleaseMetadata
) -> ReleaseDraft:
    """A release with all files that the index lists."""
    return ReleaseDraft(
        name,
        version,
        index,
        requires_dist=metadata.requires_dist,
        requires_python=metadata.requires_python,
        provides_extra=metadata.provides_extra,
        license=metadata.license,
        metadata_source=metadata.metadata_source,
        metadata_file=metadata.metadata_file,
        files=[_release_file(file) for file in files],
        files_complete=True,
        problem=metadata.problem,
        problem_message=metadata.problem_message,
    )


def _release_file(file: IndexFile) -> ReleaseFile:
    return ReleaseFile(
        filename=file.filename,
        sha256=file.sha256,
        kind=file.kind,
        size_bytes=file.size_bytes,
        requires_python=file.requires_python or None,
        yanked=file.yanked,
        yanked_reason=public_reason(file.yanked_reason) if file.yanked else None,
        uploaded_at=file.uploaded_at if file.uploaded_at and file.uploaded_at.year > 1 else None,
        metadata_sha256=file.metadata_sha256,
        attested=file.attested,
    )


def release_from(draft: ReleaseDraft) -> Release | None:
    """The checked release; if it is refused, the release with its problem and nothing else.

    :returns: ``None`` if even its name or version is invalid
    """
    try:
        return checked_release(draft)
    except InvalidDocument as error:
        reason = str(error)
    try:
        return checked_release(refused_draft(draft, reason))
    except InvalidDocument:
        logger.warning("release_refused", extra={"package": draft.name, "cause": reason})
        return None


def refused_draft(draft: ReleaseDraft, reason: str) -> ReleaseDraft:
    """A draft in place of a refused one, so that the release is on record."""
    return ReleaseDraft(
        draft.name,
        draft.version,
        draft.index,
        problem=ReleaseProblem.BROKEN_METADATA,
        problem_message=reason,
    )


def _wrong_with(
    core: CoreMetadata, name: str, version: str, read: MetadataRead
) -> tuple[ReleaseProblem | None, str | None]:
    if core.name is None or core.version is None:
        return ReleaseProblem.BROKEN_METADATA, "the metadata names no release"
    if (canonicalize_name(core.name), version_of(core.version)) != (name, version_of(version)):
        message = f"the metadata is that of {core.name[:100]} {core.version[:100]}"
        return ReleaseProblem.OTHER_METADATA, message
    if not read.static:
        message = "only a source distribution, and its requirements are known once it is built"
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


def metadata_files(files: Iterable[IndexFile]) -> list[IndexFile]:
    """Return the files to read metadata from, in the order in which to try them.

    Wheels come first, because their requirements are final. Among wheels: those that are not
    yanked, those for Linux on x86-64, those with a metadata file, the smallest.
    """
    listed = list(files)
    wheels = sorted((it for it in listed if it.kind == "wheel"), key=_wheel_rank)
    sdists = sorted((it for it in listed if it.kind == "sdist"), key=_sdist_rank)
    return [*wheels[:_WHEELS], *sdists[:_SDISTS]]


def _wheel_rank(file: IndexFile) -> tuple[object, ...]:
    platform = file.filename.removesuffix(".whl").rpartition("-")[2]
    rank = next(
        (at for at, known in enumerate(_PLATFORMS) if known.fullmatch(platform)), len(_PLATFORMS)
    )
    offered = file.metadata_sha256 is not None
    return file.yanked, rank, not offered, file.size_bytes or 0, file.filename


def _sdist_rank(file: IndexFile) -> tuple[object, ...]:
    return file.yanked, not file.filename.endswith(_ARCHIVES), file.filename


#: Faults of a file that will not go away.
_BROKEN = frozenset({IndexFault.MALFORMED, IndexFault.TOO_LARGE})
#: Faults of one file, after which another file of the release is tried.
_OF_FILE = _BROKEN | {
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
) -> ReleaseMetadata:
    """Read the metadata of a release, or the problem that keeps it unknown.

    :param read: such as :meth:`common.index.client.IndexClient.metadata`
    :raises IndexProblem: if the index did not serve the files; try again later
    """
    candidates = metadata_files(files)
    first_problem: ReleaseMetadata | None = None
    problem: IndexProblem | None = None
    for file in candidates:
        try:
            metadata = metadata_of_file(name, version, file, await read(file))
        except IndexProblem as error:
            if error.code not in _OF_FILE:
                raise
            problem = problem or error
            if error.code in _BROKEN:
                first_problem = first_problem or broken(file, error.message)
            continue
        if metadata.problem is None:
            return metadata
        first_problem = first_problem or metadata
    if first_problem is None:
        assert problem is not None  # noqa: S101 - a release without candidates is not read
        raise problem
    # The first choice is named: the release is read again only when the first choice changes.
    return replace(first_problem, metadata_file=candidates[0].filename)
