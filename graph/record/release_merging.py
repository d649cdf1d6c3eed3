"""What is known of a release, and how a further delivery about it changes that.

What is known is a function of the set of deliveries, so that their order leaves no trace. A
release has parts, and each is as the delivery of the highest rank tells it that tells it at
all; :class:`Ranks` says how deliveries rank for each. Only the hash of a file is what was
seen first: that one is never replaced by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from common.formats.json_documents import digest
from common.packages import Purl
from common.releases import (
    SOLVER,
    Release,
    ReleaseFile,
    ReleaseState,
    Requirement,
    as_json_time,
    wheel_tags,
)


class Ranks(NamedTuple):
    """The highest rank that told each part of a release, empty for none; ranks sort as texts.

    A rank says whether an index speaks or a solver, when, and in which document. A solver's
    word counts as long as no index told the same, whatever the time.

    :param listing: document and yank; every delivery tells them
    :param metadata: state, problem, requirements, extras and licence. First of all it counts
        what is known: requirements that an index told outrank a solver's, and these unknown ones
    :param python: Requires-Python; unknown requirements may come with a known one
    :param looked: the file that was looked at, also in vain
    :param uploaded: time of upload
    :param files: the last complete list of files. What a later list that is not complete
        names is offered besides, and ranks by itself
    """

    listing: str = ""
    metadata: str = ""
    python: str = ""
    looked: str = ""
    uploaded: str = ""
    files: str = ""


UNTOLD = Ranks()

#: What each part consists of; files are merged one by one.
PARTS = {
    "listing": ("document_id", "yanked", "yanked_reason"),
    "metadata": (
        "state", "problem", "problem_message", "requirements", "extras", "license",
        "metadata_source",
    ),
    "python": ("requires_python",),
    "looked": ("metadata_file",),
    "uploaded": ("uploaded_at",),
}  # fmt: skip


def rank_of(release: Release, as_of: datetime | None) -> str:
    """How a delivery ranks; a time that nobody knows is before all others."""
    by_index = release.metadata_source != SOLVER
    return f"{by_index:d} {as_json_time(as_of) or ''} {mark_of(release.document_id)}"


def mark_of(document_id: str) -> str:
    """What of a document's identifier is in a rank."""
    return document_id[-16:]


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """One release as the record has it.

    :param document_id: of the release document that spoke last; ``None`` if only a stack or a
        lock named the release
    :param metadata_file: the file that was looked at last, also in vain
    :param files: those that the index offers, by name
    :param gone: those that it offered once, with their hashes, which may not change
    :param added: ranks of files that are not as the last complete list has them, by name
    :param as_of: when an index spoke last
    """

    purl: Purl
    name: str
    version: str
    index: str
    state: ReleaseState
    document_id: str | None = None
    problem: str | None = None
    problem_message: str | None = None
    requires_python: str | None = None
    requirements: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()
    license: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    metadata_source: str | None = None
    metadata_file: str | None = None
    files: dict[str, ReleaseFile] = field(default_factory=dict)
    gone: dict[str, ReleaseFile] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    as_of: datetime | None = None
    ranks: Ranks = UNTOLD

    def says_as(self, other: KnownRelease) -> bool:
        """Whether it differs from ``other`` only in when it was said."""
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
        """Whether somebody has read them; a release may well have none."""
        return self.state is ReleaseState.SOLVED or bool(self.requirements)

    @property
    def told_by_solver(self) -> bool:
        """Whether the requirements are those that a solver met in one environment."""
        return self.metadata_source == SOLVER

    @property
    def offered(self) -> tuple[ReleaseFile, ...]:
        """Files that may be installed; of a release that is yanked as a whole, all."""
        kept = tuple(file for file in self.files.values() if not file.yanked)
        return kept or tuple(replace(file, yanked=False) for file in self.files.values())

    @property
    def wheels(self) -> list[str]:
        """Compressed tag sets of its wheels, sorted."""
        return wheel_tags(self.offered)

    @property
    def has_sdist(self) -> bool | None:
        """``None`` as long as a source distribution may be among files that nobody named."""
        if any(file.kind == "sdist" for file in self.offered):
            return True
        return False if self.files_complete else None

    @property
    def facts(self) -> str | None:
        """Digest of all that could change an answer; ``None`` if nothing was read yet."""
        if self.state is ReleaseState.UNREAD:
            return None
        asked = {_meaning(requirement) for requirement in self.requirements}
        uploaded = None if self.uploaded_at is None else self.uploaded_at.timestamp()
        return digest(
            [
                self.state, self.problem, self.version, self.requires_python, self.yanked,
                self.yanked_reason, sorted(asked),
                self.wheels, self.has_sdist, self.files_complete, uploaded, sorted(self.extras),
            ]
        )  # fmt: skip


def _meaning(requirement: Requirement) -> tuple[str, ...]:
    """What a requirement says, however it is spelt; as texts, which can be sorted."""
    return (
        requirement.name or f"? {requirement.raw}",
        requirement.specifier,
        requirement.marker or "",
        ",".join(requirement.extras),
        requirement.url or "",
    )


@dataclass(frozen=True, slots=True)
class HashAlarm:
    """A file whose hash is not the one that was seen first; the new one is not stored."""

    purl: Purl
    filename: str
    known: str
    offered: str


@dataclass(slots=True)
class Findings:
    """What deliveries of a batch changed: events by kind, and alarms."""

    events: list[tuple[str, KnownRelease, dict[str, Any]]] = field(default_factory=list)
    alarms: list[HashAlarm] = field(default_factory=list)


def first_known(release: Release, as_of: datetime | None, findings: Findings) -> KnownRelease:
    """What is known of a release after its first delivery."""
    nothing = KnownRelease(
        release.purl, release.name, release.version, release.index, ReleaseState.UNREAD
    )
    return merged(nothing, release, as_of, findings)


def merged(
    known: KnownRelease, release: Release, as_of: datetime | None, findings: Findings
) -> KnownRelease:
    """What is known after one more delivery; their order does not matter.

    :param as_of: when the index said so; ``None`` if nobody knows
    """
    rank, before = rank_of(release, as_of), known.ranks
    told: dict[str, Any] = {}
    if listing := rank > before.listing:
        told |= part_of(release, "listing")
    knowledge = _knowledge(release)
    if metadata := knowledge + rank > before.metadata:
        told |= part_of(release, "metadata")
    says_python = knowledge == _BY_INDEX or release.requires_python is not None
    if python := says_python and knowledge + rank > before.python:
        told |= part_of(release, "python")
    if looked := release.metadata_file is not None and rank > before.looked:
        told |= part_of(release, "looked")
    if uploaded := release.uploaded_at is not None and rank > before.uploaded:
        told |= part_of(release, "uploaded")
    ranks = Ranks(
        rank if listing else before.listing,
        knowledge + rank if metadata else before.metadata,
        knowledge + rank if python else before.python,
        rank if looked else before.looked,
        rank if uploaded else before.uploaded,
        max(rank, before.files) if release.files_complete else before.files,
    )
    told["files"], told["gone"], told["added"] = _files(known, release, rank, ranks.files, findings)
    after = replace(known, **told, as_of=_later(known.as_of, as_of), ranks=ranks)
    _note_changes(known, after, findings)
    return after


def part_of(release: Release, part: str) -> dict[str, Any]:
    """What a release says in one of :data:`PARTS`, by field."""
    return {name: getattr(release, name) for name in PARTS[part]}


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((it for it in (one, other) if it is not None), default=None)


_UNKNOWN, _BY_SOLVER, _BY_INDEX = "1", "2", "3"


def _knowledge(release: Release) -> str:
    """What comes first in the rank of metadata."""
    if release.state is not ReleaseState.SOLVED and not release.requirements:
        return _UNKNOWN
    return _BY_SOLVER if release.metadata_source == SOLVER else _BY_INDEX


_Files = dict[str, ReleaseFile]


def _files(
    known: KnownRelease, release: Release, rank: str, complete: str, findings: Findings
) -> tuple[_Files, _Files, dict[str, str]]:
    """Files that are offered, those that were, and ranks of those beside the complete list.

    A file is offered if no complete list is newer than the last list that names it.

    :param complete: rank of the last complete list, this one included
    """
    ranks = {name: known.added.get(name, known.ranks.files) for name in known.files}
    seen = {**known.gone, **known.files}
    for offered in release.files:
        name = offered.filename
        seen[name] = _file(known, seen.get(name), offered, rank > ranks.get(name, ""), findings)
        ranks[name] = max(rank, ranks.get(name, ""))
    files = {name: seen[name] for name, last in ranks.items() if last >= complete}
    return (
        files,
        {name: _bare(file) for name, file in seen.items() if name not in files},
        {name: ranks[name] for name in files if ranks[name] != complete},
    )


def _file(
    owner: KnownRelease,
    known: ReleaseFile | None,
    offered: ReleaseFile,
    newest: bool,
    findings: Findings,
) -> ReleaseFile:
    """The file as the last list has it, with the hash that was seen first."""
    if known is None:
        return offered
    if known.sha256 and offered.sha256 and known.sha256 != offered.sha256:
        alarm = HashAlarm(owner.purl, known.filename, known.sha256, offered.sha256)
        detail = {"file": alarm.filename, "known": alarm.known, "offered": alarm.offered}
        findings.alarms.append(alarm)
        findings.events.append(("changed_hash", owner, detail))
        return known
    return replace(offered if newest else known, sha256=known.sha256 or offered.sha256)


def _bare(file: ReleaseFile) -> ReleaseFile:
    """What matters of a file that is gone."""
    return ReleaseFile(file.filename, file.sha256, file.kind)


def _note_changes(known: KnownRelease, after: KnownRelease, findings: Findings) -> None:
    """Events: only where somebody had told about the release before."""
    if known.state is ReleaseState.UNREAD:
        return
    if known.yanked != after.yanked:
        detail = {"reason": after.yanked_reason} if after.yanked else {}
        findings.events.append(("yanked" if after.yanked else "unyanked", after, detail))
    added = sorted(after.files.keys() - known.files.keys())
    if added and known.files_complete:
        findings.events.append(("new_files", after, {"files": added}))
    known_before = known.requirements_known and not known.told_by_solver
    if known_before and _asked(known) != _asked(after):
        findings.events.append(("changed_requirements", after, _difference(known, after)))


def _asked(known: KnownRelease) -> tuple[Any, ...]:
    return known.requires_python, set(map(_meaning, known.requirements))


def _difference(known: KnownRelease, after: KnownRelease) -> dict[str, Any]:
    return {
        "requires_python": [known.requires_python, after.requires_python],
        "removed": _without(known.requirements, after.requirements),
        "added": _without(after.requirements, known.requirements),
    }


def _without(some: Iterable[Requirement], others: Iterable[Requirement]) -> list[str]:
    meant = set(map(_meaning, others))
    return [requirement.raw for requirement in some if _meaning(requirement) not in meant]
