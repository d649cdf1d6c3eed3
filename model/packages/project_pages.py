"""What one index lists of one project: files by version, and a summary of each version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Protocol

import orjson
from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version

from model.json_documents import as_json_time
from model.packages.releases import first_upload


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of a project, from the index's page.

    :param version: normalised by PEP 440, or as in the file's name if it is no version
    :param kind: ``wheel``, ``sdist`` or ``other``, as :func:`model.packages.releases.kind_of_file`
    :param sha256: hexadecimal digits in lower case; ``None`` if the page has no such hash
    :param metadata_sha256: of the separate metadata file (PEP 658); empty if it has no hash,
        ``None`` if there is no such file
    :param attested: whether attestations exist (PEP 740); ``None`` if unknown
    :param url: may contain a token, so it is neither shown nor stored
    """

    filename: str
    version: str
    kind: str
    sha256: str | None
    size_bytes: int | None = None
    requires_python: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    metadata_sha256: str | None = None
    attested: bool | None = None
    url: str = field(default="", repr=False, compare=False)

    def as_document(self) -> dict[str, Any]:
        """The file as in a release document; the page's digest is computed from these documents."""
        return {
            "filename": self.filename,
            "sha256": self.sha256,
            "size": self.size_bytes,
            "requires_python": self.requires_python,
            "yanked": self.yanked,
            "yanked_reason": self.yanked_reason,
            "upload_time": as_json_time(self.uploaded_at),
            "metadata_sha256": self.metadata_sha256,
            "attested": self.attested,
        }


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """Summary of a version on a page, enough to tell whether it can be installed somewhere.

    :param file_count: 0 for a version that is listed without files (PEP 700)
    :param requires_python: of its files; ``None`` if they differ or have none
    :param yanked: whether all its files are yanked
    :param uploaded_at: of its first file
    :param wheels: tag sets, such as ``py3-none-any``, without yanked wheels unless all files are;
        in the page's order
    """

    version: str
    file_count: int = 0
    requires_python: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    wheels: tuple[str, ...] = ()
    has_sdist: bool = False

    @property
    def installable(self) -> bool:
        """Whether the version has a file that is not yanked."""
        return bool(self.file_count) and not self.yanked


class ProjectState(StrEnum):
    """State of a project (PEP 792); the values are stored and never renamed."""

    ACTIVE = "active"
    #: No further updates are to be expected.
    ARCHIVED = "archived"
    #: Considered unsafe by the index; nothing of it may be installed.
    QUARANTINED = "quarantined"
    #: Obsolete, possibly replaced by another project.
    DEPRECATED = "deprecated"


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """State of a project, and the reason that the index gives, if any."""

    state: ProjectState = ProjectState.ACTIVE
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PageContents:
    """All that a page says about files.

    :param releases: files by version, in the page's order; a version that violates PEP 440 is kept
        as in file names, and one that is only listed (PEP 700) has no files
    :param digest: of the files, independent of their order and URLs; :data:`NO_FILES` if there
        are none
    :param skipped: names of files that belong to no version of this project, and of invalid entries
    :param conflicts: version, name, first and other hash of files that are listed with two hashes;
        the first one counts
    """

    releases: Mapping[str, tuple[IndexFile, ...]]
    digest: str
    skipped: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str, str, str], ...] = ()

    @property
    def fingerprint(self) -> str:
        """The digest."""
        return self.digest

    def listed(self) -> dict[str, ListedVersion]:
        """Summary of each version, in order."""
        return {version: summary_of(version, files) for version, files in self.releases.items()}

    def contents(self) -> PageContents:
        """This object itself."""
        return self

    def files_of(self, version: str) -> tuple[IndexFile, ...]:
        """Files of a version; none if the page does not list it."""
        return self.releases.get(version, ())


class PageSource(Protocol):
    """Reads only the requested parts of a page."""

    @property
    def fingerprint(self) -> str:
        """Equal only for pages that say the same about every file; cheap to compute."""

    def listed(self) -> Mapping[str, ListedVersion]:
        """Summary of each version, in the page's order."""

    def files_of(self, version: str) -> tuple[IndexFile, ...]:
        """Files of a version; none if the page does not list it."""

    def contents(self) -> PageContents:
        """All that the page says about files."""


@dataclass(frozen=True)
class ProjectPage:
    """All files of one project, as of the time ``as_of``.

    :attr:`listed` and :meth:`files_of` cost little; everything else reads the page completely.
    Versions of a quarantined project have no files, so they are never installed.

    :param name: normalised
    :param as_of: when the index sent or last confirmed the page (this machine's clock, UTC)
    :param from_cache: whether the page was not transferred again, because it was recent enough or
        the index confirmed it
    """

    name: str
    as_of: datetime
    source: PageSource = field(repr=False, compare=False)
    from_cache: bool = False
    status: ProjectStatus = ProjectStatus()

    @property
    def is_quarantined(self) -> bool:
        """Whether the index considers the project unsafe; then the page offers no files."""
        return self.status.state is ProjectState.QUARANTINED

    @cached_property
    def listed(self) -> Mapping[str, ListedVersion]:
        """Summary of each version, in the page's order."""
        listed = self.source.listed()
        return {it: ListedVersion(it) for it in listed} if self.is_quarantined else listed

    def files_of(self, version: str) -> tuple[IndexFile, ...]:
        """Files of a version; none if the page does not list it."""
        return () if self.is_quarantined else self.source.files_of(version)

    @cached_property
    def contents(self) -> PageContents:
        """All that the page says about files."""
        contents = self.source.contents()
        if self.is_quarantined:
            return PageContents(dict.fromkeys(contents.releases, ()), NO_FILES)
        return contents

    @property
    def releases(self) -> Mapping[str, tuple[IndexFile, ...]]:
        """Files by version."""
        return self.contents.releases

    @property
    def digest(self) -> str:
        """Digest of the files, as in :attr:`PageContents.digest`."""
        return self.contents.digest

    @property
    def skipped(self) -> tuple[str, ...]:
        """Entries that are left out, as in :attr:`PageContents.skipped`."""
        return self.contents.skipped

    @property
    def conflicts(self) -> tuple[tuple[str, str, str, str], ...]:
        """Files with two hashes, as in :attr:`PageContents.conflicts`."""
        return self.contents.conflicts

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """All files, by version and in the page's order."""
        return tuple(file for files in self.releases.values() for file in files)


def summary_of(version: str, files: Iterable[IndexFile]) -> ListedVersion:
    """Summary of a version with these files."""
    files = tuple(files)
    installable = [it for it in files if not it.yanked]
    yanked = bool(files) and not installable
    counted = installable or files
    pythons = {it.requires_python or None for it in counted}
    wheels = (wheel_tag_set(it.filename) for it in counted if it.kind == "wheel")
    return ListedVersion(
        version,
        len(files),
        pythons.pop() if len(pythons) == 1 else None,
        yanked,
        next((it.yanked_reason for it in files if it.yanked_reason), None) if yanked else None,
        first_upload(files),
        tuple(dict.fromkeys(wheels)),
        any(it.kind == "sdist" for it in counted),
    )


def wheel_tag_set(filename: str) -> str:
    """Compressed tag set in a wheel's name.

    >>> wheel_tag_set("a-1-1build-cp311-cp311-linux_x86_64.whl")
    'cp311-cp311-linux_x86_64'
    """
    return "-".join(filename.removesuffix(".whl").rsplit("-", 3)[-3:])


def contents_of(entries: Iterable[IndexFile | str], versions: Iterable[str]) -> PageContents:
    """Group files by version; if two files have the same name, the first one counts.

    :param entries: files, and names of invalid entries
    :param versions: listed by the index, whose spelling wins over that of files, such as ``1.0``
        over ``1.0.0``; versions without files come last
    """
    spelled: dict[str, str] = {}
    for version in versions:
        spelled.setdefault(*spelling(version))
    files: dict[str, IndexFile] = {}
    skipped: list[str] = []
    conflicts: dict[tuple[str, str, str, str], None] = {}
    releases: dict[str, list[IndexFile]] = {}
    for entry in entries:
        if isinstance(entry, str):
            skipped.append(entry)
            continue
        first = files.setdefault(entry.filename, entry)
        version = spelled.setdefault(*spelling(entry.version))
        if first is entry:
            releases.setdefault(version, []).append(entry)
            continue
        skipped.append(entry.filename)
        if first.sha256 and entry.sha256 and first.sha256 != entry.sha256:
            conflicts[version, entry.filename, first.sha256, entry.sha256] = None
    for version in spelled.values():
        releases.setdefault(version, [])
    return PageContents(
        releases={version: tuple(files) for version, files in releases.items()},
        digest=_digest(files.values(), sorted(conflicts)),
        skipped=tuple(skipped),
        conflicts=tuple(conflicts),
    )


_PLAIN_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.(?:0|[1-9][0-9]{0,17}))*")


@lru_cache(maxsize=32_768)
def spelling(version: str) -> tuple[str, str]:
    """Key and spelling of a version; equal versions have the same key.

    The key is text, because a hostile page can contain many versions with colliding hashes.

    >>> spelling("1.10.0"), spelling("1.0-RC1"), spelling("nightly")
    (('1.10', '1.10.0'), ('1rc1', '1.0rc1'), ('nightly', 'nightly'))
    """
    if _PLAIN_VERSION.fullmatch(version):
        # Measured: 95 % of all versions, in a tenth of the time.
        key = version
        while key.endswith(".0"):
            key = key[:-2]
        return key, version
    try:
        known = Version(version)
    except InvalidVersion:
        return version, version
    return canonicalize_version(known), str(known)


def _digest(files: Iterable[IndexFile], conflicts: Iterable[tuple[str, ...]] = ()) -> str:
    described = sorted((it.as_document() for it in files), key=lambda it: str(it["filename"]))
    content = orjson.dumps([*described, *conflicts])
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


#: Digest of a page that lists no file.
NO_FILES = _digest(())
