"""Where the files of a lock come from: each one against what indexes are known to serve."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from adviser.issues import Issue, IssueId, issue_of
from adviser.locked_files import of_files
from adviser.places import Place
from adviser.projects.locks import names_indexes
from adviser.projects.project import FromElsewhere, Project, ProjectIndex, WarningCode
from adviser.scoring.assessments import NoteLevel
from common.formats.locks import LockEntry
from common.packages import DEFAULT_INDEX
from common.releases import ReleaseFile


@dataclass(frozen=True, slots=True)
class Listing:
    """A release as one index serves it.

    :param files: those that it offers
    :param gone: those that it offered once
    :param complete: whether all of them are known
    :param as_of: when the index said so
    :param addresses: of files by file name, without secrets, as far as they are known
    """

    index: str
    files: tuple[ReleaseFile, ...]
    gone: tuple[ReleaseFile, ...] = ()
    complete: bool = True
    yanked: bool = False
    yanked_reason: str | None = None
    as_of: datetime | None = None
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Served:
    """What indexes serve, and which of them may be used.

    :param listings: by package name and locked version, on each index that has it
    :param allowed: names of indexes that packages may come from
    :param called: the name of an index by its address, and by what a lock or a manifest calls
        it; what stands for no index of this machine is in no case allowed
    :param places: of each index, where this machine knows it to be, by name
    """

    listings: Mapping[tuple[str, str], Sequence[Listing]]
    allowed: Collection[str] = (DEFAULT_INDEX,)
    called: Mapping[str, str] | None = None
    places: Mapping[str, Place] = field(default_factory=dict)

    def index_of(self, name: str | None) -> str | None:
        """The index that a lock means."""
        return None if name is None else (self.called or {}).get(name, name)

    def index_at(self, index: ProjectIndex) -> str:
        """The one at the address of an index, whatever it is called."""
        return (self.called or {}).get(index.url, index.name)

    def shown(self, name: str) -> str:
        """An index with its address, as two may have one name."""
        place = self.places.get(name)
        return f"{name} ({place.url})" if place else name

    def shown_all(self, names: Iterable[str]) -> str:
        """Several."""
        return ", ".join(map(self.shown, names))

    def as_locked(self, locked: LockEntry) -> str:
        """The index that a lock names, with the address that it gives it, if another one."""
        named = self.index_of(locked.index) or ""
        address = self.places[named].url if named in self.places else named
        return f"{locked.index} ({address})" if locked.index != address else address


def check_lock(project: Project, served: Served) -> list[Issue]:
    """What is wrong with the lock of a project: errors first, then by package.

    Every entry of the lock counts, whatever environment or section it is for.
    """
    issues = [*_of_project(project, served)]
    names = project.lock_source is None or names_indexes(project.lock_source)
    for it in sorted(project.lock_entries, key=lambda it: (it.name, it.version, it.origin)):
        listings = served.listings.get((it.name, it.version), ())
        issues += _of_package(it, listings, served, names)
        issues += of_files(it, listings, served)
    for other in project.lock_elsewhere:
        issues.append(_of_elsewhere(other))
    levels = list(reversed(NoteLevel))
    # Entries for several environments often name the same files.
    return sorted(
        dict.fromkeys(issues), key=lambda it: (levels.index(it.type), it.package_name or "")
    )


def _of_project(project: Project, served: Served) -> Iterator[Issue]:
    for warning in project.warnings:
        if warning.code is WarningCode.LOCK_OUTDATED:
            yield issue_of(IssueId.INVALID_LOCK_HASH, f"{warning.field}: {warning.message}")
        elif warning.code is WarningCode.UNVERIFIED_HOST:
            yield issue_of(IssueId.INSECURE_SOURCE, f"{warning.field}: {warning.message}")
    for index in dict.fromkeys((*project.indexes, *project.lock_indexes)):
        name = served.index_at(index)
        if name not in served.allowed:
            message = f"the index {index.name} ({index.url}) is not among those that are allowed"
            yield issue_of(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(name,))
        if _is_insecure(index):
            message = f"the index {index.name} ({index.url}) is not reached by verified https"
            yield issue_of(IssueId.INSECURE_SOURCE, message, indexes=(name,))


def _is_insecure(index: ProjectIndex) -> bool:
    return urlsplit(index.url).scheme in ("http", "ftp") or not index.verify_ssl


def _of_elsewhere(it: FromElsewhere) -> Issue:
    if it.code is WarningCode.LOCK_INCOMPLETE:
        return issue_of(IssueId.UNVERIFIABLE, f"{it.origin}: {it.what} leaves its version open")
    message = f"{it.origin}: {it.what} comes from no index, so nothing is known of it"
    # What lies beside the lock is the project's own.
    return issue_of(IssueId.UNVERIFIABLE, message, level=NoteLevel.WARNING if it.local else None)


def _of_package(
    locked: LockEntry, listings: Sequence[Listing], served: Served, names: bool
) -> Iterator[Issue]:
    name, named = locked.name, served.index_of(locked.index)
    tell = partial(issue_of, package=name, version=locked.version)
    if named is not None and named not in served.allowed:
        message = f"it is locked to {served.as_locked(locked)}, which is not allowed"
        yield tell(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(named,))
    if not listings:
        yield tell(IssueId.MISSING_PACKAGE, "no index is known to have it")
        return
    checked = [it for it in locked.hashes if it.startswith("sha256:")]
    if not checked:
        yield tell(IssueId.NO_HASH, "it is locked without a SHA-256, so no file of it is checked")
        if named is not None and all(it.index != named for it in listings):
            at = tuple(sorted(it.index for it in listings))
            where = served.shown_all(at)
            message = f"the lock says {served.as_locked(locked)}, and it is on {where} only"
            yield tell(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    for text in checked:
        yield from _of_file(locked, text, listings, served, names)
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
    locked: LockEntry, text: str, listings: Sequence[Listing], served: Served, names: bool
) -> Iterator[Issue]:
    named = served.index_of(locked.index)
    tell = partial(issue_of, package=locked.name, version=locked.version, digest=text)
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
        message = (
            f"the lock says {served.as_locked(locked)}, and the file is on {served.shown_all(at)}"
        )
        yield tell(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    elif named is None and DEFAULT_INDEX not in at:
        message = f"the lock names no index, and the file is on {served.shown_all(at)} only"
        # Such a lock can name none; its hash lets nothing else be taken.
        level = None if names else NoteLevel.INFO
        yield tell(IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE, message, indexes=at, level=level)
    files = [file for it in has for file in it.files if file.sha256 == wanted]
    if all(file.attested is False for file in files):
        message = f"{files[0].filename} has no attestation"
        yield tell(IssueId.NOT_ATTESTED, message, indexes=at)


def _hashes(listing: Listing) -> frozenset[str]:
    return frozenset(it.sha256 for it in listing.files if it.sha256)
