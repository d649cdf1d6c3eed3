"""Check the provenance of a lock: compare its files with those that indexes serve.

An issue is a problem with the origin of a file, with its level and remedy.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from urllib.parse import unquote, urlsplit

from adviser.projects.project import NonIndexPackage, Project, ProjectIndex, WarningCode
from adviser.reports.note_codes import REPORTS
from adviser.scoring.assessment_types import NoteLevel
from common.formats.locks.entries import LockedFile, LockEntry
from common.formats.locks.readers import reader_of
from model.packages.identity import DEFAULT_INDEX
from model.packages.releases import ReleaseListing
from model.text import counted, first_few


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


_PORTS = {"http": 80, "https": 443, "ftp": 21}


@dataclass(frozen=True, slots=True)
class IndexLocation:
    """Location of an index.

    :param url: URL of the index, without secrets
    :param file_hosts: ``host`` or ``host:port`` that may serve its files
    """

    url: str
    file_hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FileAddress:
    """Parts of a URL without user, query and fragment.

    :param host: in lower case, with the port unless it is the default of the scheme
    """

    scheme: str
    host: str
    path: str


def address_of(url: str) -> FileAddress | None:
    """Parse a URL; ``None`` if it is invalid.

    >>> address_of("HTTPS://me@H.example:443/a%2Bb.whl?x#y")
    FileAddress(scheme='https', host='h.example', path='/a+b.whl')
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not (parts.hostname or parts.path.startswith("/")):
        return None
    own = port is None or port == _PORTS.get(parts.scheme)
    host = parts.hostname or ""
    return FileAddress(parts.scheme, host if own else f"{host}:{port}", unquote(parts.path))


def may_serve(place: IndexLocation, address: FileAddress) -> bool:
    """Whether an index may serve files from an address on its own host or one of its file hosts."""
    index = address_of(place.url)
    if index is None:
        return False
    if address.scheme == "file":
        path = posixpath.normpath(address.path)
        return index.scheme == "file" and path.startswith(f"{index.path.rstrip('/')}/")
    bare = address.host.partition(":")[0]
    hosts = {it.lower() for it in place.file_hosts}
    return index.scheme != "file" and (
        address.host == index.host or bool(hosts & {address.host, bare})
    )


#: Remedy for files on an unknown host; reported once for each host of a package.
_UNKNOWN_HOST = "check with --live, or add the host to PACKAGE_FILE_HOSTS if it is intended"
#: Remedy for files of a mirrored index, because a mirror has other URLs.
_MIRRORED = "check it on a machine that reads the index itself: this one reads a mirror"


def file_issues(
    locked: LockEntry, listings: Sequence[ReleaseListing], served: KnownIndexes
) -> Iterator[ProvenanceIssue]:
    """Issues with the URLs and sizes that a lock gives for its files."""
    named = served.index_of(locked.index)
    ours = [it for it in listings if it.index == named] or list(listings)
    for file in locked.files:
        sizes = {
            it.size_bytes
            for listing in ours
            for it in listing.files
            if file.sha256 and it.sha256 == file.sha256 and it.size_bytes is not None
        }
        if file.size_bytes is not None and sizes and file.size_bytes not in sizes:
            size = f"{file.size_bytes} bytes in the lock, but {max(sizes)} on the index"
            message = f"{file.filename} has {size}"
            yield issue_of(
                IssueId.INVALID_ARTIFACT_SIZE, message, package=locked.name, version=locked.version,
                digest=f"sha256:{file.sha256}" if file.sha256 else None,
            )  # fmt: skip
        if file.url is not None:
            yield from _url_issues(locked, file, file.url, ours, served)


def _url_issues(
    locked: LockEntry,
    file: LockedFile,
    url: str,
    ours: Sequence[ReleaseListing],
    served: KnownIndexes,
) -> Iterator[ProvenanceIssue]:
    issue = partial(issue_of, package=locked.name, version=locked.version)
    address = address_of(url)
    origin = url.partition("://")[0] + "://" + (address.host if address else "")
    if address is not None and address.scheme in ("http", "ftp"):
        message = f"the lock uses files from {origin} without verified HTTPS"
        yield issue(IssueId.INSECURE_SOURCE, message)
    known = [
        (it.index, it.addresses[name])
        for it in ours
        for name in sorted(_names_of(file, it) & it.addresses.keys())
    ]
    if address is not None and any(address_of(it) == address for _, it in known):
        return
    at = tuple(sorted({it.index for it in ours}))
    mirrored = any(_is_mirrored(locked, served.places.get(it)) for it in at)
    if known and not mirrored:
        index, true_url = known[0]
        message = f"the lock uses {url} for {file.filename}, but {index} serves it at {true_url}"
        digest = f"sha256:{file.sha256}" if file.sha256 else None
        yield issue(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at, digest=digest)
    # Packages that no index has are reported elsewhere.
    elif at and (mirrored or not any(_may_serve(it, address, served) for it in ours)):
        message = f"it is unknown whether {served.shown_all(at)} serves files from {origin}"
        unknown = issue(IssueId.UNVERIFIABLE, message, indexes=at, level=NoteLevel.WARNING)
        yield replace(unknown, remedy=_MIRRORED if mirrored else _UNKNOWN_HOST)


def _names_of(file: LockedFile, listing: ReleaseListing) -> set[str]:
    """Names that an index has for a file; a lock may use another name for the same content."""
    same = (it.filename for it in listing.files if it.sha256 and it.sha256 == file.sha256)
    return {file.filename, *same}


def _is_mirrored(locked: LockEntry, place: IndexLocation | None) -> bool:
    """Whether a lock names the URL of an index that this machine reads through a mirror."""
    named, ours = address_of(locked.index or ""), address_of(place.url) if place else None
    return bool(named and ours and named.scheme and named.host != ours.host)


def _may_serve(listing: ReleaseListing, address: FileAddress | None, served: KnownIndexes) -> bool:
    """Whether an index may serve files from this URL, or is known to serve files from its host."""
    if address is None:
        return False
    place = served.places.get(listing.index)
    others = map(address_of, listing.addresses.values())
    known = any(it and (it.scheme, it.host) == (address.scheme, address.host) for it in others)
    return known or (place is not None and may_serve(place, address))


@dataclass(frozen=True, slots=True)
class KnownIndexes:
    """Listings of indexes, and the indexes that packages may come from.

    :param listings: by package name and locked version, one for each index that has it
    :param allowed: names of allowed indexes
    :param called: index name by URL, and by the name in a lock or manifest; indexes that are
        not configured on this machine are never allowed
    :param places: location of each configured index, by name
    :param unread: names and versions for which not every index that may have them was read
    :param barrier: the index that is not configured, so that no later one was asked
    """

    listings: Mapping[tuple[str, str], Sequence[ReleaseListing]]
    allowed: Collection[str] = (DEFAULT_INDEX,)
    called: Mapping[str, str] | None = None
    places: Mapping[str, IndexLocation] = field(default_factory=dict)
    unread: Collection[tuple[str, str]] = ()
    barrier: ProjectIndex | None = None

    def is_unread(self, locked: LockEntry) -> bool:
        """Whether the index that the lock names, or any index, may have the version unread."""
        key, named = (locked.name, locked.version), self.index_of(locked.index)
        listings = self.listings.get(key, ())
        return key in self.unread and not any(named in (None, it.index) for it in listings)

    def index_of(self, name: str | None) -> str | None:
        """This machine's name for the index that a lock names."""
        return None if name is None else (self.called or {}).get(name, name)

    def index_at(self, index: ProjectIndex) -> str:
        """This machine's name for the index with this URL; the name in the project may differ."""
        return (self.called or {}).get(index.url, index.name)

    def shown(self, name: str) -> str:
        """The name of an index with its URL, since two indexes can have the same name."""
        place = self.places.get(name)
        return f"{name} ({place.url})" if place else name

    def shown_all(self, names: Iterable[str]) -> str:
        """The names of several indexes with their URLs, as one text."""
        return ", ".join(map(self.shown, names))

    def as_locked(self, locked: LockEntry) -> str:
        """The name of an index in a lock, followed by its URL unless the name is the URL."""
        named = self.index_of(locked.index) or ""
        address = self.places[named].url if named in self.places else named
        return f"{locked.index} ({address})" if locked.index != address else address


def check_lock(project: Project, served: KnownIndexes) -> list[ProvenanceIssue]:
    """The issues of a project's lock, errors first, sorted by package.

    Entries for all environments and in all sections are checked.
    """
    issues = [*_project_issues(project, served)]
    names = project.lock_source is None or reader_of(project.lock_source) is not None
    for locked in sorted(project.lock_entries, key=lambda it: (it.name, it.version, it.origin)):
        listings = served.listings.get((locked.name, locked.version), ())
        issues += _package_issues(locked, listings, served, names)
        issues += file_issues(locked, listings, served)
    elsewhere = project.lock_elsewhere
    conda = [it.what for it in elsewhere if it.code is WarningCode.CONDA]
    issues += map(_non_index_issue, (it for it in elsewhere if it.code is not WarningCode.CONDA))
    if conda:
        message = f"{counted(len(conda), 'conda package')} not covered: {first_few(conda, 5)}"
        issues.append(issue_of(IssueId.UNVERIFIABLE, message, level=NoteLevel.WARNING))
    levels = list(reversed(NoteLevel))
    # Entries for different environments often name the same files.
    return sorted(
        dict.fromkeys(issues), key=lambda it: (levels.index(it.type), it.package_name or "")
    )


def _project_issues(project: Project, served: KnownIndexes) -> Iterator[ProvenanceIssue]:
    for warning in project.warnings:
        if warning.code is WarningCode.LOCK_OUTDATED:
            yield issue_of(IssueId.INVALID_LOCK_HASH, f"{warning.field}: {warning.message}")
        elif warning.code is WarningCode.UNVERIFIED_HOST:
            yield issue_of(IssueId.INSECURE_SOURCE, f"{warning.field}: {warning.message}")
    for index in dict.fromkeys((*project.indexes, *project.lock_indexes)):
        name = served.index_at(index)
        if name not in served.allowed:
            message = f"the index {index.name} ({index.url}) is not allowed"
            yield issue_of(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(name,))
        if urlsplit(index.url).scheme in ("http", "ftp") or not index.verify_ssl:
            message = f"the index {index.name} ({index.url}) is used without verified HTTPS"
            yield issue_of(IssueId.INSECURE_SOURCE, message, indexes=(name,))


def _non_index_issue(package: NonIndexPackage) -> ProvenanceIssue:
    subject = f"{package.origin}: {package.what}"
    if package.code is WarningCode.LOCK_INCOMPLETE:
        return issue_of(IssueId.UNVERIFIABLE, f"{subject} leaves its version open")
    message = f"{subject} does not come from an index, so its files are unknown"
    # Files beside the lock belong to the project.
    level = NoteLevel.WARNING if package.local else None
    return issue_of(IssueId.UNVERIFIABLE, message, level=level)


def _package_issues(
    locked: LockEntry, listings: Sequence[ReleaseListing], served: KnownIndexes, names: bool
) -> Iterator[ProvenanceIssue]:
    name, named = locked.name, served.index_of(locked.index)
    issue = partial(issue_of, package=name, version=locked.version)
    if named is not None and named not in served.allowed:
        message = f"the lock names {served.as_locked(locked)}, which is not allowed"
        yield issue(IssueId.SOURCE_NOT_WHITELISTED, message, indexes=(named,))
        if not listings:
            return
    if served.is_unread(locked):
        yield _unread_issue(locked, served)
        return
    if not listings:
        yield issue(IssueId.MISSING_PACKAGE, "no configured index has this version")
        return
    checked = [it for it in locked.hashes if it.startswith("sha256:")]
    if not checked:
        yield issue(IssueId.NO_HASH, "the lock has no SHA-256 for it, so its files are not checked")
        if named is not None and all(it.index != named for it in listings):
            at = tuple(sorted(it.index for it in listings))
            where = served.shown_all(at)
            message = f"the lock names {served.as_locked(locked)}, but only {where} has it"
            yield issue(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    for text in checked:
        yield from _hash_issues(locked, text, listings, served, names)
    for text in locked.hashes if checked else ():
        if text not in checked:
            # Installers accept a file that matches any one of the hashes.
            message = "this hash is not a SHA-256 and cannot be checked, but installers accept it"
            yield issue(IssueId.UNVERIFIABLE, message, digest=text)
    ours = [it for it in listings if it.index == named] or list(listings)
    for listing in ours:
        if listing.yanked:
            why = f": {listing.yanked_reason}" if listing.yanked_reason else ""
            yield issue(IssueId.YANKED, f"it was yanked{why}", indexes=(listing.index,))
    if named is None and len(listings) > 1 and len({_hashes(it) for it in listings}) > 1:
        message = "indexes serve different files of this version, and the lock names no index"
        at = tuple(sorted(it.index for it in listings))
        yield issue(IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES, message, indexes=at)


def _unread_issue(locked: LockEntry, served: KnownIndexes) -> ProvenanceIssue:
    where = "any index" if locked.index is None else served.as_locked(locked)
    message = f"this version was not read from {where}, so its files are unknown"
    remedy, barrier = None, served.barrier
    if barrier is not None:
        message += f": the index {barrier.name} ({barrier.url}) comes first and is not configured"
        remedy = "configure it in PACKAGE_INDEXES, or allow it with --index-from-project"
    issue = issue_of(
        IssueId.FILES_UNKNOWN, message,
        package=locked.name, version=locked.version, level=NoteLevel.ERROR,
    )  # fmt: skip
    return replace(issue, remedy=remedy or issue.remedy)


def _hash_issues(
    locked: LockEntry,
    text: str,
    listings: Sequence[ReleaseListing],
    served: KnownIndexes,
    names: bool,
) -> Iterator[ProvenanceIssue]:
    named = served.index_of(locked.index)
    issue = partial(issue_of, package=locked.name, version=locked.version, digest=text)
    wanted = text.removeprefix("sha256:")
    has = [it for it in listings if wanted in _hashes(it)]
    at = tuple(sorted(it.index for it in has))
    if not has:
        had = [it for it in listings if any(file.sha256 == wanted for file in it.gone)]
        unknown = [it for it in listings if not it.complete]
        if had:
            message = f"{had[0].index} no longer offers this file"
            yield issue(IssueId.ARTIFACT_GONE, message)
        elif unknown:
            message = f"not all of its files on {unknown[0].index} are known"
            yield issue(IssueId.FILES_UNKNOWN, message)
        else:
            read = " that was read" if (locked.name, locked.version) in served.unread else ""
            message = f"no index{read} serves a file with this hash"
            yield issue(IssueId.INVALID_ARTIFACT_HASH, message)
        return
    if named is not None and named not in at:
        message = (
            f"the lock names {served.as_locked(locked)}, but the file is on {served.shown_all(at)}"
        )
        yield issue(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at)
    elif named is None and DEFAULT_INDEX not in at:
        message = f"the lock names no index, and only {served.shown_all(at)} has the file"
        # Locks of this format cannot name an index; the hash excludes other files.
        level = None if names else NoteLevel.INFO
        yield issue(IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE, message, indexes=at, level=level)
    files = [file for it in has for file in it.files if file.sha256 == wanted]
    if all(file.attested is False for file in files):
        message = f"{files[0].filename} has no attestation"
        yield issue(IssueId.NOT_ATTESTED, message, indexes=at)


def _hashes(listing: ReleaseListing) -> frozenset[str]:
    return frozenset(it.sha256 for it in listing.files if it.sha256)
