"""Release documents of what an index lists and what was read of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from common.errors import InvalidDocument
from common.formats.core_metadata import CoreMetadata, parse_core_metadata
from common.index.file_metadata import MetadataRead
from common.index.project_pages import IndexFile
from common.packages import version_of
from common.releases import Release, ReleaseProblem
from graph.record.release_merging import KnownRelease
from ingest.parsers.releases import release_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """What the metadata of a release says, or why it says nothing.

    :param requires_dist: lines as they were written; ``None`` if they are not known
    :param metadata_file: the file that was looked at, also in vain
    """

    requires_dist: tuple[str, ...] | None = None
    requires_python: str | None = None
    provides_extra: tuple[str, ...] = ()
    license: str | None = None
    metadata_source: str | None = None
    metadata_file: str | None = None
    problem: ReleaseProblem | None = None
    problem_message: str | None = None


NO_FILES = Told(
    problem=ReleaseProblem.NO_FILES, problem_message="neither a wheel nor a source distribution"
)

INVALID_VERSION = Told(problem=ReleaseProblem.INVALID_VERSION)


def told_by_file(name: str, version: str, file: IndexFile, read: MetadataRead) -> Told:
    """What a file's metadata says of release ``version`` of ``name``."""
    core = parse_core_metadata(read.text)
    problem, message = _wrong_with(core, name, version, read)
    return Told(
        requires_dist=None if problem else core.requires_dist,
        requires_python=core.requires_python or file.requires_python,
        provides_extra=core.provides_extra,
        license=core.license,
        metadata_source=read.source,
        metadata_file=file.filename,
        problem=problem,
        problem_message=message,
    )


def told_by_record(known: KnownRelease) -> Told:
    """What the record knows already, less what only a solver told: that is no index's word."""
    if known.told_by_solver:
        return Told(metadata_file=known.metadata_file, problem=ReleaseProblem.NOT_RECORDED)
    return Told(
        requires_dist=known.requirements_raw if known.requirements_known else None,
        requires_python=known.requires_python,
        provides_extra=known.extras,
        license=known.license,
        metadata_source=known.metadata_source,
        metadata_file=known.metadata_file,
        problem=None if known.problem is None else ReleaseProblem(known.problem),
        problem_message=known.problem_message,
    )


def broken(file: IndexFile, message: str) -> Told:
    """Nothing, as the file, or what it holds, is broken."""
    return Told(
        requires_python=file.requires_python,
        metadata_file=file.filename,
        problem=ReleaseProblem.BROKEN_METADATA,
        problem_message=message,
    )


def release_document(
    index: str, name: str, version: str, files: Iterable[IndexFile], told: Told
) -> dict[str, Any]:
    """The document of one release: all its files as the index lists them, and what was told."""
    return {
        "index": index,
        "name": name,
        "version": version,
        "files": [file.as_document() for file in files],
        "files_complete": True,
        "requires_dist": None if told.requires_dist is None else list(told.requires_dist),
        "requires_python": told.requires_python,
        "provides_extra": list(told.provides_extra),
        "license": told.license,
        "metadata_source": told.metadata_source,
        "metadata_file": told.metadata_file,
        "problem": told.problem,
        "problem_message": told.problem_message,
    }


def release_from(document: dict[str, Any]) -> Release | None:
    """The release of a document; without what its metadata says if that is refused.

    :returns: ``None`` if not even its name and version can be taken in
    """
    try:
        return release_of(document)
    except InvalidDocument as error:
        reason = str(error)
    try:
        return release_of(refused(document, reason))
    except InvalidDocument:
        logger.warning("release_refused", extra={"package": document["name"], "cause": reason})
        return None


def refused(document: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """A document in place of one that cannot be taken in, so that the release is on record."""
    identity = {key: document[key] for key in ("index", "name", "version")}
    return {
        **identity,
        "requires_dist": None,
        "problem": ReleaseProblem.BROKEN_METADATA,
        "problem_message": reason,
    }


def _wrong_with(
    core: CoreMetadata, name: str, version: str, read: MetadataRead
) -> tuple[ReleaseProblem | None, str | None]:
    if core.name is None or core.version is None:
        return ReleaseProblem.BROKEN_METADATA, "the metadata names no release"
    if (canonicalize_name(core.name), version_of(core.version)) != (name, version_of(version)):
        words = f"the metadata is that of {core.name[:100]} {core.version[:100]}"
        return ReleaseProblem.OTHER_METADATA, words
    if not read.static:
        words = "only a source distribution, and its requirements are known once it is built"
        return ReleaseProblem.DYNAMIC_METADATA, words
    return None, None
