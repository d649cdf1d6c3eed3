"""Provenance issues: problems with the origin of a lock's files, with their level and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adviser.reports.note_codes import REPORTS
from adviser.scoring.assessment_types import NoteLevel


class IssueId(StrEnum):
    """Kinds of issues.

    Existing clients know the kinds up to ``DIFFERENT_ARTIFACTS_ON_SOURCES``, except
    ``INVALID_ARTIFACT_SIZE``.
    """

    INVALID_LOCK_HASH = "INVALID-LOCK-HASH"
    SOURCE_NOT_WHITELISTED = "SOURCE-NOT-WHITELISTED"
    INSECURE_SOURCE = "INSECURE-SOURCE"
    MISSING_PACKAGE = "MISSING-PACKAGE"
    INVALID_ARTIFACT_HASH = "INVALID-ARTIFACT-HASH"
    INVALID_ARTIFACT_SIZE = "INVALID-ARTIFACT-SIZE"
    ARTIFACT_DIFFERENT_SOURCE = "ARTIFACT-DIFFERENT-SOURCE"
    ARTIFACT_POSSIBLE_DIFFERENT_SOURCE = "ARTIFACT-POSSIBLE-DIFFERENT-SOURCE"
    DIFFERENT_ARTIFACTS_ON_SOURCES = "DIFFERENT-ARTIFACTS-ON-SOURCES"
    NO_HASH = "NO-HASH"
    UNVERIFIABLE = "UNVERIFIABLE"
    ARTIFACT_GONE = "ARTIFACT-GONE"
    YANKED = "YANKED"
    NOT_ATTESTED = "NOT-ATTESTED"
    FILES_UNKNOWN = "FILES-UNKNOWN"


_TYPES = {
    IssueId.INSECURE_SOURCE: NoteLevel.WARNING,
    IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE: NoteLevel.WARNING,
    IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES: NoteLevel.WARNING,
    IssueId.ARTIFACT_GONE: NoteLevel.WARNING,
    IssueId.YANKED: NoteLevel.WARNING,
    IssueId.NOT_ATTESTED: NoteLevel.INFO,
    IssueId.FILES_UNKNOWN: NoteLevel.WARNING,
}

_REMEDIES = {
    IssueId.INVALID_LOCK_HASH: "lock the project again",
    IssueId.SOURCE_NOT_WHITELISTED: "allow the index with --index, or take the package elsewhere",
    IssueId.INSECURE_SOURCE: "use an https address, and verify its certificate",
    IssueId.MISSING_PACKAGE: "check name and version; `thoth packages add` fetches a package",
    IssueId.INVALID_ARTIFACT_HASH: "do not install it; find out where the hash comes from",
    IssueId.INVALID_ARTIFACT_SIZE: "lock the project again; installers refuse the file",
    IssueId.ARTIFACT_DIFFERENT_SOURCE: "name the index that serves it in the lock, if intended",
    IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE: "name the index of the package in the lock",
    IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES: "name the index of the package in the lock",
    IssueId.NO_HASH: "lock it with hashes: `thoth advise --format requirements`",
    IssueId.UNVERIFIABLE: "take it from an index and lock it with a SHA-256, or check it yourself",
    IssueId.ARTIFACT_GONE: "lock again: installing it again would fail",
    IssueId.YANKED: "choose another version; its publisher yanked this one",
    IssueId.NOT_ATTESTED: "no action needed; the publisher signs no provenance for it",
    IssueId.FILES_UNKNOWN: "fetch it with `thoth packages add`, or check with --live",
}


@dataclass(frozen=True, slots=True)
class ProvenanceIssue:
    """A problem with the origin of a file, or a remark about it.

    :param digest: digest of the file
    :param indexes: the indexes concerned, sorted
    """

    id: IssueId
    type: NoteLevel
    justification: str
    remedy: str
    package_name: str | None = None
    package_version: str | None = None
    digest: str | None = None
    indexes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """The issue as JSON: strings and lists of strings only."""
        values = {
            "package_name": self.package_name,
            "package_version": f"=={self.package_version}" if self.package_version else None,
            "digest": self.digest,
            "indexes": list(self.indexes),
        }
        fields = {
            "type": self.type.value,
            "id": self.id.value,
            "justification": self.justification,
            "remedy": self.remedy,
            "link": f"{REPORTS}#{self.id.value.lower()}",
        }
        return {**fields, **{key: value for key, value in values.items() if value}}


def issue_of(
    issue: IssueId,
    message: str,
    *,
    package: str | None = None,
    version: str | None = None,
    digest: str | None = None,
    indexes: tuple[str, ...] = (),
    level: NoteLevel | None = None,
) -> ProvenanceIssue:
    """An issue with its kind's remedy, and its kind's level unless ``level`` is given."""
    level = level or _TYPES.get(issue, NoteLevel.ERROR)
    return ProvenanceIssue(
        issue, level, message, _REMEDIES[issue], package, version, digest, indexes
    )
