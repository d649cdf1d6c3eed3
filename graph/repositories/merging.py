"""What is known of a release, and how a further delivery about it changes that.

The newest word of an index wins, with two exceptions: requirements that are unknown never
replace known ones, and a file's hash that was seen first is never replaced by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from common.inspection import digest
from common.packages import Purl
from common.releases import Release, ReleaseFile, ReleaseState, Requirement, wheel_tags


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """One release as the record has it.

    :param document_id: of the release document that told this; ``None`` if only a stack or a
        lock named the release
    :param files: those that the index offers, by name
    :param gone: those that it offered once, kept because their hashes may not change
    :param as_of: when the index said so
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
    files_complete: bool = False
    as_of: datetime | None = None

    @property
    def requirements_raw(self) -> tuple[str, ...]:
        """The requirements as they were written, in their order."""
        return tuple(requirement.raw for requirement in self.requirements)

    @property
    def requirements_known(self) -> bool:
        """Whether somebody has read them; a release may well have none."""
        return self.state is ReleaseState.SOLVED or bool(self.requirements)

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


def first_known(release: Release, as_of: datetime, findings: Findings) -> KnownRelease:
    """What is known of a release after its first delivery."""
    nothing = KnownRelease(
        release.purl, release.name, release.version, release.index, ReleaseState.UNREAD
    )
    return merged(nothing, release, as_of, findings)


def merged(
    known: KnownRelease, release: Release, as_of: datetime, findings: Findings
) -> KnownRelease:
    """What is known after one more delivery; the order of those at one time does not matter."""
    newest = known.as_of is None or (as_of, release.document_id) >= (
        known.as_of,
        known.document_id or "",
    )
    files, gone = _files(known, release, newest, findings)
    after = replace(
        known,
        files=files,
        gone=gone,
        files_complete=known.files_complete or release.files_complete,
        uploaded_at=_newest(newest, release.uploaded_at, known.uploaded_at),
        as_of=as_of if newest else known.as_of,
    )
    if newest:
        after = replace(
            after,
            document_id=release.document_id,
            yanked=release.yanked,
            yanked_reason=release.yanked_reason,
        )
    after = _with_metadata(after, release, newest)
    _note_changes(known, after, findings)
    return after


def _newest(newest: bool, offered: Any, stored: Any) -> Any:
    """The newer of two values, unless it is unknown."""
    first, second = (offered, stored) if newest else (stored, offered)
    return second if first is None else first


def _with_metadata(known: KnownRelease, release: Release, newest: bool) -> KnownRelease:
    """State and requirements: together, for one is no use without the other."""
    offered = release.state is ReleaseState.SOLVED or bool(release.requirements)
    better = offered and not known.requirements_known
    if not better and (not newest or known.requirements_known > offered):
        if newest and release.requires_python is not None:
            return replace(known, requires_python=release.requires_python)
        return known
    return replace(
        known,
        state=release.state,
        problem=release.problem,
        problem_message=release.problem_message,
        requires_python=release.requires_python,
        requirements=release.requirements,
        extras=release.extras,
        license=_newest(True, release.license, known.license),
        metadata_source=release.metadata_source,
        metadata_file=release.metadata_file,
        document_id=release.document_id if known.document_id is None else known.document_id,
    )


def _files(
    known: KnownRelease, release: Release, newest: bool, findings: Findings
) -> tuple[dict[str, ReleaseFile], dict[str, ReleaseFile]]:
    """Files that are offered and those that were; a list that is not complete removes none."""
    fresh = {file.filename: file for file in release.files}
    if not known.files and not known.gone and len(fresh) == len(release.files):
        return fresh, {}
    seen = {**known.gone, **known.files}
    for file in release.files:
        seen[file.filename] = _file(known, seen.get(file.filename), file, newest, findings)
    offered = known.files.keys() | fresh.keys()
    if release.files_complete and newest:
        offered = set(fresh)
    elif known.files_complete and not newest:
        offered = set(known.files)
    return (
        {name: file for name, file in seen.items() if name in offered},
        {name: file for name, file in seen.items() if name not in offered},
    )


def _file(
    owner: KnownRelease,
    known: ReleaseFile | None,
    offered: ReleaseFile,
    newest: bool,
    findings: Findings,
) -> ReleaseFile:
    if known is None:
        return offered
    if known.sha256 and offered.sha256 and known.sha256 != offered.sha256:
        alarm = HashAlarm(owner.purl, known.filename, known.sha256, offered.sha256)
        detail = {"file": alarm.filename, "known": alarm.known, "offered": alarm.offered}
        findings.alarms.append(alarm)
        findings.events.append(("changed_hash", owner, detail))
        return known
    values = {
        name: _newest(newest, getattr(offered, name), getattr(known, name))
        for name in ("sha256", "size_bytes", "requires_python", "uploaded_at", "metadata_sha256",
                     "attested")
    }  # fmt: skip
    yanked = offered if newest else known
    return replace(known, **values, yanked=yanked.yanked, yanked_reason=yanked.yanked_reason)


def _note_changes(known: KnownRelease, after: KnownRelease, findings: Findings) -> None:
    """Events: only where an index had told about the release before."""
    if known.as_of is None:
        return
    if known.yanked != after.yanked:
        detail = {"reason": after.yanked_reason} if after.yanked else {}
        findings.events.append(("yanked" if after.yanked else "unyanked", after, detail))
    added = sorted(after.files.keys() - known.files.keys())
    if added and known.files_complete:
        findings.events.append(("new_files", after, {"files": added}))
    if known.requirements_known and _asked(known) != _asked(after):
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
