"""What an index says of one project: its files, by version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version

from common.releases import as_json_time


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of a project, as the index's page names it.

    :param version: normalised by PEP 440, or as in the file's name if it is no version
    :param kind: ``wheel``, ``sdist`` or ``other``, as :func:`common.releases.kind_of_file`
    :param sha256: hexadecimal digits in lower case; ``None`` if the page has no such hash
    :param metadata_sha256: of the metadata file offered beside it; empty text if it is
        offered without a hash, ``None`` if it is not offered (PEP 658)
    :param attested: whether attestations are offered (PEP 740); ``None`` if the page cannot say
    :param url: where it is; may hold a token, so it is neither shown nor stored
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
        """The file as release documents write it."""
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
class ProjectPage:
    """All files of one project, as the index said at ``as_of``.

    :param name: normalised
    :param releases: files by version, in the page's order; a version that is none by PEP 440
        keeps the text it has in file names, and one that is only named (PEP 700) has no files
    :param digest: of what the page says of ``files``, whatever their order and addresses;
        :data:`NO_FILES` if there are none
    :param as_of: when the index said so, or last confirmed it (this machine's clock, UTC)
    :param from_cache: whether the page was not transferred again: it was young enough, or the
        index confirmed it
    :param skipped: names of files that belong to no version of this project, and of entries
        that cannot be read
    :param conflicts: files that are listed with two hashes, of which the first counts: version,
        name, first hash and the other
    """

    name: str
    releases: Mapping[str, tuple[IndexFile, ...]]
    digest: str
    as_of: datetime
    from_cache: bool = False
    skipped: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str, str, str], ...] = ()

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """All files, by version and in the page's order."""
        return tuple(file for files in self.releases.values() for file in files)


def page_of(
    name: str,
    entries: Iterable[IndexFile | str],
    versions: Iterable[str],
    as_of: datetime,
    from_cache: bool = False,
) -> ProjectPage:
    """Put files together by version; the first of two of one name counts.

    :param entries: files, and the names of what cannot be one
    :param versions: as the index writes them, which decides between spellings such as
        ``1.0`` and ``1.0.0``; otherwise the first file does. Those without files come last
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
    return ProjectPage(
        name=name,
        releases={version: tuple(files) for version, files in releases.items()},
        digest=_digest(files.values(), sorted(conflicts)),
        as_of=as_of,
        from_cache=from_cache,
        skipped=tuple(skipped),
        conflicts=tuple(conflicts),
    )


def spelling(version: str) -> tuple[str, str]:
    """What a version is known as, and how it is written: equal ones have one key.

    The key is text, as a page can be full of numbers that hash to the same.
    """
    try:
        known = Version(version)
    except InvalidVersion:
        return version, version
    return canonicalize_version(known), str(known)


def _digest(files: Iterable[IndexFile], conflicts: Iterable[tuple[str, ...]] = ()) -> str:
    described = sorted((it.as_document() for it in files), key=lambda it: str(it["filename"]))
    said = orjson.dumps([*described, *conflicts])
    return f"sha256:{hashlib.sha256(said).hexdigest()}"


#: Digest of a page that lists no file.
NO_FILES = _digest(())
