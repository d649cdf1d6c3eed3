"""Merges all deliveries of a release, independently of their order.

A release has parts. Each part comes from the highest-ranking delivery that contains this part;
:class:`Ranks` defines the ranks. The hash of a file is an exception: the first known hash is never
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from model.json_documents import as_json_time, digest
from model.packages.identity import Purl
from model.packages.import_names import ImportSource
from model.packages.releases import (
    SOLVER,
    Release,
    ReleaseFields,
    ReleaseFile,
    ReleaseState,
    Requirement,
    wheel_tags,
)


class Ranks(NamedTuple):
    """For each part, the highest rank of its deliveries; empty if no delivery contains the part.

    A rank is a string that contains the kind of source, the time and the document. Ranks are
    compared as strings. An index always outranks a solver.

    :param listing: document and yank, part of every delivery
    :param metadata: state, problem, requirements, extras and licence; requirements from an index
        outrank those from a solver, which outrank unknown ones
    :param python: ``Requires-Python``, which may be known without requirements
    :param looked: the file from which metadata was read, or could not be read
    :param uploaded: time of upload
    :param files: the last complete list of files; files of later incomplete lists are added and
        have their own ranks
    :param imports: names of all modules outrank declared names, and these outrank some names
    """

    listing: str = ""
    metadata: str = ""
    python: str = ""
    looked: str = ""
    uploaded: str = ""
    files: str = ""
    imports: str = ""


NO_RANKS = Ranks()

#: Fields of each part; files are merged one by one.
PARTS = {
    "listing": ("document_id", "yanked", "yanked_reason"),
    "metadata": (
        "state", "problem", "problem_message", "requirements", "extras", "license",
        "metadata_source",
    ),
    "python": ("requires_python",),
    "looked": ("metadata_file",),
    "uploaded": ("uploaded_at",),
    "imports": ("imports",),
}  # fmt: skip


def rank_of(release: Release, as_of: datetime | None) -> str:
    """The rank of a delivery; an unknown time sorts before all known times."""
    by_index = release.metadata_source != SOLVER
    return f"{by_index:d} {as_json_time(as_of) or ''} {mark_of(release.document_id)}"


def mark_of(document_id: str) -> str:
    """The part of a document identifier that a rank contains."""
    return document_id[-16:]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelease(ReleaseFields):
    """A release in the record.

    :param document_id: the latest release document; ``None`` if only a stack or lock named it
    :param files: files that the index offers, by name
    :param gone: files that it offered before, with their hashes, which must not change
    :param added: ranks of files that differ from the last complete list, by name
    :param as_of: time of the latest answer of an index
    """

    document_id: str | None = None
    problem: str | None = None
    files: dict[str, ReleaseFile] = field(default_factory=dict)
    gone: dict[str, ReleaseFile] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    as_of: datetime | None = None
    ranks: Ranks = NO_RANKS

    def same_content(self, other: KnownRelease) -> bool:
        """Whether this release equals ``other`` except for times and ranks."""
        return other == replace(self, as_of=other.as_of, ranks=other.ranks, added=other.added)

    @property
    def files_complete(self) -> bool:
        """Whether all files of the release are known."""
        return bool(self.ranks.files)

    @property
    def requirements_raw(self) -> tuple[str, ...]:
        """The requirements as they were written, in their order."""
        return tuple(requirement.raw for requirement in self.requirements)

    @property
    def requirements_known(self) -> bool:
        """Whether the requirements were read; a release may have none."""
        return self.state is ReleaseState.SOLVED or bool(self.requirements)

    @property
    def from_solver(self) -> bool:
        """Whether the requirements come from a solver, which sees one environment only."""
        return self.metadata_source == SOLVER

    @property
    def offered(self) -> tuple[ReleaseFile, ...]:
        """The files that are not yanked, or all files if the whole release is yanked."""
        kept = tuple(file for file in self.files.values() if not file.yanked)
        return kept or tuple(replace(file, yanked=False) for file in self.files.values())

    @property
    def wheels(self) -> list[str]:
        """Compressed tag sets of the release's wheels, sorted."""
        return wheel_tags(self.offered)

    @property
    def has_sdist(self) -> bool | None:
        """Whether there is a source distribution; ``None`` if not all files are known."""
        if any(file.kind == "sdist" for file in self.offered):
            return True
        return False if self.files_complete else None

    @property
    def facts(self) -> str | None:
        """Digest of everything that could change advice; ``None`` if nothing was read yet."""
        if self.state is ReleaseState.UNREAD:
            return None
        requirements = {_meaning(requirement) for requirement in self.requirements}
        uploaded = None if self.uploaded_at is None else self.uploaded_at.timestamp()
        return digest(
            [
                self.state, self.problem, self.version, self.requires_python, self.yanked,
                self.yanked_reason, sorted(requirements),
                self.wheels, self.has_sdist, self.files_complete, uploaded, sorted(self.extras),
            ]
        )  # fmt: skip


def _meaning(requirement: Requirement) -> tuple[str, ...]:
    """The normalised parts of a requirement, as sortable strings."""
    return (
        requirement.name or f"? {requirement.raw}",
        requirement.specifier,
        requirement.marker or "",
        ",".join(requirement.extras),
        requirement.url or "",
    )


@dataclass(frozen=True, slots=True)
class HashAlarm:
    """A file whose hash differs from its first known hash; the new hash is not stored."""

    purl: Purl
    filename: str
    known: str
    offered: str


@dataclass(slots=True)
class Findings:
    """The events and alarms that a batch of deliveries caused."""

    events: list[tuple[str, KnownRelease, dict[str, Any]]] = field(default_factory=list)
    alarms: list[HashAlarm] = field(default_factory=list)


def first_known(release: Release, as_of: datetime | None, findings: Findings) -> KnownRelease:
    """A release after its first delivery."""
    unread = KnownRelease(
        release.purl, release.name, release.version, release.index, ReleaseState.UNREAD
    )
    return merge_delivery(unread, release, as_of, findings)


def merge_delivery(
    known: KnownRelease, release: Release, as_of: datetime | None, findings: Findings
) -> KnownRelease:
    """Merge a delivery into a release; the order of deliveries does not matter.

    :param as_of: time of the index's answer; ``None`` if unknown
    """
    rank, before = rank_of(release, as_of), known.ranks
    values: dict[str, Any] = {}
    if listing := rank > before.listing:
        values |= part_of(release, "listing")
    knowledge = _knowledge(release)
    if metadata := knowledge + rank > before.metadata:
        values |= part_of(release, "metadata")
    has_python = knowledge == _BY_INDEX or release.requires_python is not None
    if python := has_python and knowledge + rank > before.python:
        values |= part_of(release, "python")
    if looked := release.metadata_file is not None and rank > before.looked:
        values |= part_of(release, "looked")
    if uploaded := release.uploaded_at is not None and rank > before.uploaded:
        values |= part_of(release, "uploaded")
    named = "" if release.imports is None else _NAMED[release.imports.source] + rank
    if imports := named > before.imports:
        values |= part_of(release, "imports")
    ranks = Ranks(
        rank if listing else before.listing,
        knowledge + rank if metadata else before.metadata,
        knowledge + rank if python else before.python,
        rank if looked else before.looked,
        rank if uploaded else before.uploaded,
        max(rank, before.files) if release.files_complete else before.files,
        named if imports else before.imports,
    )
    files, gone, added = _files(known, release, rank, ranks.files, findings)
    values |= {"files": files, "gone": gone, "added": added}
    latest = max(filter(None, (known.as_of, as_of)), default=None)
    after = replace(known, **values, as_of=latest, ranks=ranks)
    _note_changes(known, after, findings)
    return after


def part_of(release: Release, part: str) -> dict[str, Any]:
    """The fields of a part of :data:`PARTS`."""
    return {name: getattr(release, name) for name in PARTS[part]}


_UNKNOWN, _BY_SOLVER, _BY_INDEX = "1", "2", "3"


#: Source of the names, as the first character of their rank.
_NAMED = {ImportSource.DIRECTORY_END: "1", ImportSource.DECLARED: "2", ImportSource.DIRECTORY: "3"}


def _knowledge(release: Release) -> str:
    """The source of the metadata, as the first character of the metadata's rank."""
    if release.state is not ReleaseState.SOLVED and not release.requirements:
        return _UNKNOWN
    return _BY_SOLVER if release.metadata_source == SOLVER else _BY_INDEX


_Files = dict[str, ReleaseFile]


def _files(
    known: KnownRelease, release: Release, rank: str, complete: str, findings: Findings
) -> tuple[_Files, _Files, dict[str, str]]:
    """Offered files, formerly offered files, and ranks of files that the complete list omits.

    A file counts as offered until a newer, complete list omits it.

    :param complete: rank of the last complete list, including this delivery
    """
    ranks = {name: known.added.get(name, known.ranks.files) for name in known.files}
    merged_files = {**known.gone, **known.files}
    for offered in release.files:
        name, before = offered.filename, merged_files.get(offered.filename)
        is_newest = rank > ranks.get(name, "")
        merged_files[name] = _file(known, before, offered, is_newest, findings)
        ranks[name] = max(rank, ranks.get(name, ""))
    files = {name: merged_files[name] for name, last in ranks.items() if last >= complete}
    return (
        files,
        {
            name: ReleaseFile(file.filename, file.sha256, file.kind)
            for name, file in merged_files.items()
            if name not in files
        },
        {name: ranks[name] for name in files if ranks[name] != complete},
    )


def _file(
    owner: KnownRelease,
    known: ReleaseFile | None,
    offered: ReleaseFile,
    newest: bool,
    findings: Findings,
) -> ReleaseFile:
    """The file as the latest list describes it, but with its first known hash."""
    if known is None:
        return offered
    if known.sha256 and offered.sha256 and known.sha256 != offered.sha256:
        alarm = HashAlarm(owner.purl, known.filename, known.sha256, offered.sha256)
        detail = {"file": alarm.filename, "known": alarm.known, "offered": alarm.offered}
        findings.alarms.append(alarm)
        findings.events.append(("changed_hash", owner, detail))
        return known
    return replace(offered if newest else known, sha256=known.sha256 or offered.sha256)


def _note_changes(known: KnownRelease, after: KnownRelease, findings: Findings) -> None:
    """Add events, unless the release was unknown before."""
    if known.state is ReleaseState.UNREAD:
        return
    if known.yanked != after.yanked:
        detail = {"reason": after.yanked_reason} if after.yanked else {}
        findings.events.append(("yanked" if after.yanked else "unyanked", after, detail))
    added = sorted(after.files.keys() - known.files.keys())
    if added and known.files_complete:
        findings.events.append(("new_files", after, {"files": added}))
    known_before = known.requirements_known and not known.from_solver
    # Wheels of one release may differ in what they require: another file is no change.
    same_file = known.metadata_file not in after.files or after.metadata_file in (
        None, known.metadata_file
    )  # fmt: skip
    if known_before and same_file and _requirements(known) != _requirements(after):
        findings.events.append(("changed_requirements", after, _difference(known, after)))


def _requirements(known: KnownRelease) -> tuple[Any, ...]:
    return known.requires_python, set(map(_meaning, known.requirements))


def _difference(known: KnownRelease, after: KnownRelease) -> dict[str, Any]:
    return {
        "requires_python": [known.requires_python, after.requires_python],
        "removed": _without(known.requirements, after.requirements),
        "added": _without(after.requirements, known.requirements),
    }


def _without(requirements: Iterable[Requirement], others: Iterable[Requirement]) -> list[str]:
    excluded = set(map(_meaning, others))
    return [it.raw for it in requirements if _meaning(it) not in excluded]
