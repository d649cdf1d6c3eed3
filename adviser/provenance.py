"""Where the files of a lock come from: each one against what indexes are known to serve."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from urllib.parse import urlsplit

from adviser.projects.project import (
    FromElsewhere,
    LockedPackage,
    Project,
    ProjectIndex,
    WarningCode,
)
from adviser.reports.codes import REPORTS
from adviser.scoring.assessments import Level
from common.packages import DEFAULT_INDEX
from common.releases import ReleaseFile


class IssueId(StrEnum):
    """What may be wrong with a lock; the first eight are those that existing clients know."""

    INVALID_LOCK_HASH = "INVALID-LOCK-HASH"
    SOURCE_NOT_WHITELISTED = "SOURCE-NOT-WHITELISTED"
    INSECURE_SOURCE = "INSECURE-SOURCE"
    MISSING_PACKAGE = "MISSING-PACKAGE"
    INVALID_ARTIFACT_HASH = "INVALID-ARTIFACT-HASH"
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
    IssueId.INSECURE_SOURCE: Level.WARNING,
    IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE: Level.WARNING,
    IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES: Level.WARNING,
    IssueId.ARTIFACT_GONE: Level.WARNING,
    IssueId.YANKED: Level.WARNING,
    IssueId.NOT_ATTESTED: Level.INFO,
    IssueId.FILES_UNKNOWN: Level.WARNING,
}

_REMEDIES = {
    IssueId.INVALID_LOCK_HASH: "lock the project again",
    IssueId.SOURCE_NOT_WHITELISTED: "allow the index with --index, or take the package elsewhere",
    IssueId.INSECURE_SOURCE: "use an https address, and verify its certificate",
    IssueId.MISSING_PACKAGE: "check the name and the version; `thoth packages add` reads an index",
    IssueId.INVALID_ARTIFACT_HASH: "do not install it; find out where the hash comes from",
    IssueId.ARTIFACT_DIFFERENT_SOURCE: "name the index that serves it in the lock, if it is meant",
    IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE: "name the index of the package in the lock",
    IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES: "name the index of the package in the lock",
    IssueId.NO_HASH: "lock it with hashes: `thoth advise --format requirements`",
    IssueId.UNVERIFIABLE: "take it from an index and lock it with a SHA-256, or check it yourself",
    IssueId.ARTIFACT_GONE: "lock again: installing it anew would fail",
    IssueId.YANKED: "choose another version: its publisher took this one back",
    IssueId.NOT_ATTESTED: "nothing need be done; the publisher signs no provenance for it",
    IssueId.FILES_UNKNOWN: "read its index: `thoth packages add`, or check with --live",
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A release as one index serves it.

    :param files: those that it offers
    :param gone: those that it offered once
    :param complete: whether all of them are known
    :param as_of: when the index said so
    """

    index: str
    files: tuple[ReleaseFile, ...]
    gone: tuple[ReleaseFile, ...] = ()
    complete: bool = True
    yanked: bool = False
    yanked_reason: str | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong, or worth knowing.

    :param digest: of the file that it is about
    :param indexes: that it is about, sorted
    """

    id: IssueId
    type: Level
    justification: str
    remedy: str
    package_name: str | None = None
    package_version: str | None = None
    digest: str | None = None
    indexes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """As reports write it: texts and lists of texts only."""
        values = {
            "package_name": self.package_name,
            "package_version": f"=={self.package_version}" if self.package_version else None,
            "digest": self.digest,
            "indexes": list(self.indexes),
        }
        found = {
            "type": self.type.value,
            "id": self.id.value,
            "justification": self.justification,
            "remedy": self.remedy,
            "link": f"{REPORTS}#{self.id.value.lower()}",
        }
        return {**found, **{key: value for key, value in values.items() if value}}


@dataclass(frozen=True, slots=True)
class Served:
    """What indexes serve, and which of them may be used.

    :param listings: by package name and locked version, on each index that has it
    :param allowed: names of indexes that packages may come from
    :param called: the name of an index by its address, and by what a lock or a manifest calls
        it; what stands for no index of this machine is in no case allowed
    """

    listings: Mapping[tuple[str, str], Sequence[Listing]]
    allowed: Collection[str] = (DEFAULT_INDEX,)
    called: Mapping[str, str] | None = None

    def index_of(self, name: str | None) -> str | None:
        """The index that a lock means."""
        return None if name is None else (self.called or {}).get(name, name)

    def index_at(self, index: ProjectIndex) -> str:
        """The one at the address of an index, whatever it is called."""
        return (self.called or {}).get(index.url, index.name)


def check_lock(project: Project, served: Served) -> list[Issue]:
    """What is wrong with the lock of a project: errors first, then by package.

    Every entry of the lock counts, whatever environment or section it is for.
    """
    issues = [*_of_project(project, served)]
    for it in sorted(project.lock_entries, key=lambda it: (it.name, it.version, it.origin)):
        issues += _of_package(it, served.listings.get((it.name, it.version), ()), served)
    for other in project.lock_elsewhere:
        issues.append(_of_elsewhere(other))
    levels = list(reversed(Level))
    # Entries for several environments often name the same files.
    return sorted(
        dict.fromkeys(issues), key=lambda it: (levels.index(it.type), it.package_name or "")
    )


def _of_project(project: Project, served: Served) -> Iterator[Issue]:
    for warning in project.warnings:
        if warning.code is WarningCode.LOCK_OUTDATED:
            yield _issue(IssueId.INVALID_LOCK_HASH, f"{warning.field}: {warning.message}")
        elif warning.code is WarningCode.UNVERIFIED_HOST:
            yield _issue(IssueId.INSECURE_SOURCE, f"{warning.field}: {warning.message}")
    for index in dict.fromkeys((*project.indexes, *project.lock_indexes)):
        name = served.index_at(index)
        if name not in served.allowed:
            message = f"the index {index.name} ({index.url}) is not among those that are allowed"
            yield _issue(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(name,))
        if _is_insecure(index):
            message = f"the index {index.name} ({index.url}) is not reached by verified https"
            yield _issue(IssueId.INSECURE_SOURCE, message, indexes=(name,))


def _is_insecure(index: ProjectIndex) -> bool:
    return urlsplit(index.url).scheme in ("http", "ftp") or not index.verify_ssl


def _of_elsewhere(it: FromElsewhere) -> Issue:
    if it.code is WarningCode.LOCK_INCOMPLETE:
        return _issue(IssueId.UNVERIFIABLE, f"{it.origin}: {it.what} leaves its version open")
    message = f"{it.origin}: {it.what} comes from no index, so nothing is known of it"
    # What lies beside the lock is the project's own.
    return _issue(IssueId.UNVERIFIABLE, message, level=Level.WARNING if it.local else None)


def _of_package(
    locked: LockedPackage, listings: Sequence[Listing], served: Served
) -> Iterator[Issue]:
    name, named = locked.name, served.index_of(locked.index)
    tell = partial(_issue, package=name, version=locked.version)
    if named is not None and named not in served.allowed:
        message = f"it is locked to {locked.index}, which is not allowed"
        yield tell(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(named,))
    if not listings:
        yield tell(IssueId.MISSING_PACKAGE, "no index is known to have it")
        return
    checked = [it for it in locked.hashes if it.startswith("sha256:")]
    if not checked:
        yield tell(IssueId.NO_HASH, "it is locked without a SHA-256, so no file of it is checked")
        if named is not None and all(it.index != named for it in listings):
            at = tuple(sorted(it.index for it in listings))
            message = f"the lock says {locked.index}, and it is on {', '.join(at)} only"
            yield tell(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    for text in checked:
        yield from _of_file(locked, text, listings, named)
    for text in locked.hashes if checked else ():
        if text not in checked:
            # Installers take a file that any one of the hashes fits.
            message = "indexes are known by SHA-256 only, and a file may be taken by this hash"
            yield tell(IssueId.UNVERIFIABLE, message, digest=text)
    ours = [it for it in listings if it.index == named] or list(listings)
    for it in ours:
        if it.yanked:
            why = f": {it.yanked_reason}" if it.yanked_reason else ""
            yield tell(IssueId.YANKED, f"it was taken back{why}", indexes=(it.index,))
    if named is None and len(listings) > 1 and len({_hashes(it) for it in listings}) > 1:
        message = "indexes serve different files under this version, and the lock names none"
        at = tuple(sorted(it.index for it in listings))
        yield tell(IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES, message, indexes=at)


def _of_file(
    locked: LockedPackage, text: str, listings: Sequence[Listing], named: str | None
) -> Iterator[Issue]:
    tell = partial(_issue, package=locked.name, version=locked.version, digest=text)
    wanted = text.removeprefix("sha256:")
    has = [it for it in listings if wanted in _hashes(it)]
    at = tuple(sorted(it.index for it in has))
    if not has:
        had = [it for it in listings if any(file.sha256 == wanted for file in it.gone)]
        unknown = [it for it in listings if not it.complete]
        if had:
            message = f"{had[0].index} offers this file no more"
            yield tell(IssueId.ARTIFACT_GONE, message)
        elif unknown:
            message = f"not all files of it on {unknown[0].index} are known"
            yield tell(IssueId.FILES_UNKNOWN, message)
        else:
            message = "no index serves a file with this hash"
            yield tell(IssueId.INVALID_ARTIFACT_HASH, message)
        return
    if named is not None and named not in at:
        message = f"the lock says {locked.index}, and the file is on {', '.join(at)}"
        yield tell(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    elif named is None and DEFAULT_INDEX not in at:
        message = f"the lock names no index, and the file is on {', '.join(at)} only"
        yield tell(IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE, message, indexes=at)
    files = [file for it in has for file in it.files if file.sha256 == wanted]
    if all(file.attested is False for file in files):
        message = f"{files[0].filename} has no attestation"
        yield tell(IssueId.NOT_ATTESTED, message, indexes=at)


def _hashes(listing: Listing) -> frozenset[str]:
    return frozenset(it.sha256 for it in listing.files if it.sha256)


def _issue(
    issue: IssueId,
    message: str,
    *,
    package: str | None = None,
    version: str | None = None,
    digest: str | None = None,
    indexes: tuple[str, ...] = (),
    level: Level | None = None,
) -> Issue:
    level = level or _TYPES.get(issue, Level.ERROR)
    return Issue(issue, level, message, _REMEDIES[issue], package, version, digest, indexes)
