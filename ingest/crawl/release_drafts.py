"""Drafts of release documents, from the page of an index and metadata."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import fields

from graph.record.release_merging import KnownRelease
from ingest.releases.files import public_reason
from ingest.releases.parsing import ReleaseDraft, checked_release
from model.errors import InvalidDocument
from model.packages.project_pages import IndexFile
from model.packages.releases import Release, ReleaseFile, ReleaseMetadata, ReleaseProblem

logger = logging.getLogger(__name__)


def metadata_of_record(known: KnownRelease) -> ReleaseMetadata:
    """Return the metadata in the record; metadata from a solver counts as unknown."""
    if known.from_solver:
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
        imports=known.imports,
    )


def release_draft(
    index: str, name: str, version: str, files: Iterable[IndexFile], metadata: ReleaseMetadata
) -> ReleaseDraft:
    """A release with all files that the index lists."""
    listed = [_release_file(file) for file in files]
    return ReleaseDraft(name, version, index, metadata, listed, files_complete=True)


def _release_file(file: IndexFile) -> ReleaseFile:
    values = {it.name: getattr(file, it.name) for it in fields(ReleaseFile)} | {
        "requires_python": file.requires_python or None,
        "yanked_reason": public_reason(file.yanked_reason) if file.yanked else None,
        "uploaded_at": file.uploaded_at if file.uploaded_at and file.uploaded_at.year > 1 else None,
    }
    return ReleaseFile(**values)


def release_from(draft: ReleaseDraft) -> Release | None:
    """The checked release; if it is refused, a release that contains only the problem.

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
    """A draft that replaces a refused one, so that the record contains the release."""
    problem = ReleaseMetadata(problem=ReleaseProblem.BROKEN_METADATA, problem_message=reason)
    return ReleaseDraft(draft.name, draft.version, draft.index, problem)
