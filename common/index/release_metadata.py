"""Reads the metadata of a release from the best of its files, and reports metadata problems."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from common.formats.core_metadata import CoreMetadata, parse_core_metadata
from common.index.file_metadata import UNKNOWN, MetadataRead
from model.errors import IndexFault, IndexProblem
from model.packages.environments import Environment
from model.packages.identity import version_of
from model.packages.import_names import ImportNames, declared_names
from model.packages.project_pages import IndexFile
from model.packages.releases import ReleaseMetadata, ReleaseProblem
from model.packages.wheels import installed_rank

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
