"""The adviser's frozen view of the graph, with everything about one request.

A snapshot holds everything that the resolver needs, and does no I/O. The revision is a digest of
the content, so it changes if and only if the advice could change. Its JSON form is canonical: equal
snapshots have equal bytes. Many versions share the same few requirements. The document therefore
lists each requirement once in a table, and versions refer to the rows of this table.
``docs/reference/snapshot.md`` explains every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import orjson

from model.errors import InvalidDocument, Reason
from model.json_documents import as_json_time, canonical_json, digest, fault_in
from model.packages.candidates import (
    Absence,
    AbsenceReason,
    Candidate,
    Dependency,
    Excluded,
    ExclusionReason,
    KnownVulnerability,
    newest_first,
)
from model.packages.environments import Environment
from model.packages.identity import DEFAULT_INDEX, Purl
from model.packages.project_pages import ProjectState, ProjectStatus

#: Version of the content and its JSON form; part of the content, and so of the revision.
SCHEMA_VERSION = "snapshot-1"
#: The same if some candidates are unread. These are lists of the values of :data:`_LISTED`.
LISTED_SCHEMA_VERSION = "snapshot-2"

#: Fields of a candidate that are written unchanged; its name is the key of its list.
_PLAIN = (
    "purl",
    "version",
    "index",
    "requires_python",
    "extras",
    "wheel_rank",
    "prerelease",
    "yanked",
    "yanked_reason",
    "sdist_only",
    "wheel_mismatch",
    "compiled",
    "requirements_likely",
    "requirements_built",
)

#: Values of an unread candidate, in order; ``None`` at the end of a list is left out. Most of ten
#: thousand versions are unread, so their names are not repeated.
_LISTED = (
    "version",
    "flags",
    "uploaded_at_us",
    "wheel_rank",
    "requires_python",
    "index",
    "purl",
    "yanked_reason",
    "vulnerabilities",
)
_PRERELEASE, _YANKED, _SDIST_ONLY = 1, 2, 4
#: The flags of an unread candidate also hold a place in this tuple, times :data:`_MISMATCH`.
_MISMATCHES = (
    None,
    ExclusionReason.LIBC_TOO_OLD,
    ExclusionReason.PLATFORM_TAG,
    ExclusionReason.ABI_TAG,
    ExclusionReason.PYTHON_TAG,
    ExclusionReason.SDIST_TOO_OLD,
)
_MISMATCH = 8
_COMPILED = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class CandidateTuple(tuple[Candidate, ...]):
    """Candidates that several snapshots share; the rows of unread ones are written once."""

    @cached_property
    def pieces(self) -> tuple[Candidate | orjson.Fragment, ...]:
        """The read candidates, and the canonical JSON of the unread ones before and after each.

        Consecutive rows are one text: a text of its own for each row takes 4 KiB of memory.
        """
        pieces: list[Candidate | orjson.Fragment] = []
        for read, group in groupby(self, key=attrgetter("read")):
            if read:
                pieces += group
            else:
                rows = canonical_json([_listed(it) for it in group])
                pieces.append(orjson.Fragment(rows[1:-1]))
        return tuple(pieces)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The closure of a request in an environment.

    Every mapping is sorted by name and contains all listed packages of the closure.

    :param revision: digest of the content: environment, roots, candidates, excluded versions,
        missing packages
    :param roots: the requirements of the request that apply in the environment, sorted, unique
    :param packages: candidates, newest first; an empty tuple if every version is excluded
    :param excluded: versions that cannot be installed here, newest first, with the reason
    :param missing: required packages without any known version, sorted. A required package that is
        neither here nor in ``packages`` is *unlisted*: nobody has read its index page
    :param extras: extras of each package that the roots or a candidate request, sorted
    :param layers: package names in the order of discovery, sorted within a layer
    :param revisions: revision of every package in the graph, missing packages included;
        ``None`` if nothing is known about it. Not part of the content, see
        :func:`graph.snapshot_reader.is_current`
    :param absences: by name of a package without a page, the answers of the indexes; empty if they
        were not asked
    :param statuses: by name and index, the state of each project that its index calls archived or
        deprecated (PEP 792); other projects are active, or their state is unknown
    """

    revision: str
    environment: Environment
    roots: tuple[Dependency, ...]
    packages: Mapping[str, tuple[Candidate, ...]]
    excluded: Mapping[str, tuple[Excluded, ...]]
    missing: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    layers: tuple[tuple[str, ...], ...]
    revisions: Mapping[str, str | None]
    absences: Mapping[str, Absence] = field(default_factory=dict)
    statuses: Mapping[str, Mapping[str, ProjectStatus]] = field(default_factory=dict)

    @property
    def candidate_count(self) -> int:
        """Number of candidates of all packages."""
        return sum(map(len, self.packages.values()))

    @property
    def unread_count(self) -> int:
        """Number of candidates that are listed but unread."""
        return sum(not it.read for candidates in self.packages.values() for it in candidates)

    def unread_texts(self, names: Iterable[str] = ()) -> tuple[str, ...]:
        """What was not read, with the reason, sorted; if there is any, no proof covers it.

        :param names: packages of which an index page or a version must have been read; of others,
            only what an index did not give counts
        """
        absent = [
            f"{name}: {it.message}"
            for name, it in self.absences.items()
            if it.reason is not AbsenceReason.NOT_FOUND
        ]
        absent += [
            f"{name} {it.version}: {it.message}"
            for name, excluded in self.excluded.items()
            for it in excluded
            if it.reason is ExclusionReason.UNAVAILABLE
        ]
        never_read = filter(self._was_never_read, {*names} - self.absences.keys())
        return tuple(sorted((*absent, *(f"{it}: no version of it was read" for it in never_read))))

    def _was_never_read(self, name: str) -> bool:
        excluded = self.excluded.get(name)
        return name in self.missing or bool(
            excluded
            and not self.packages[name]
            and all(it.reason is ExclusionReason.UNREAD for it in excluded)
        )

    @property
    def old_sdists(self) -> frozenset[str]:
        """Packages whose source distributions are older than this Python: the last resort.

        A source distribution counts only if the snapshot lists all packages that it requires.
        """
        return frozenset(
            name for name, them in self.excluded.items() if any(map(self._is_last_resort, them))
        )

    def with_old_sdists(self, names: Iterable[str]) -> Snapshot:
        """The snapshot with the :attr:`old_sdists` of these packages as candidates.

        Returns the snapshot itself if there are none.
        """
        packages, excluded = dict(self.packages), dict(self.excluded)
        admitted = self.old_sdists.intersection(names)
        if not admitted:
            return self
        for name in admitted:
            old = [it.last_resort for it in excluded[name] if self._is_last_resort(it)]
            packages[name] = tuple(newest_first([*packages[name], *filter(None, old)]))
            excluded[name] = tuple(it for it in excluded[name] if not self._is_last_resort(it))
        snapshot = replace(
            self, packages=MappingProxyType(packages), excluded=MappingProxyType(excluded)
        )
        return with_revision(snapshot) if self.revision else snapshot

    def _is_last_resort(self, version: Excluded) -> bool:
        return version.last_resort is not None and all(
            it.url is not None
            or it.name in self.missing
            or (it.name in self.packages and {*it.extras} <= {*self.extras[it.name]})
            for it in version.last_resort.requires
        )

    @property
    def likely_count(self) -> int:
        """Number of candidates whose requirements a build may change."""
        return sum(it.requirements_likely for them in self.packages.values() for it in them)

    def to_json(self) -> bytes:
        """The canonical JSON form; equal snapshots have equal bytes."""
        return canonical_json(
            {
                **_content(self),
                "revision": self.revision,
                "layers": self.layers,
                "revisions": dict(self.revisions),
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> Snapshot:
        """Read the output of :meth:`to_json`.

        :raises InvalidDocument: if the schema is unknown, or the revision does not match the
            content
        """
        snapshot = cls(**_read_document(data))
        if snapshot.revision != revision_of(snapshot):
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS, "it does not match the content", field="revision"
            )
        return snapshot

    def __reduce__(self) -> tuple[Callable[[bytes], Snapshot], tuple[bytes]]:
        """Pickle the canonical JSON, because read-only mappings cannot be pickled."""
        return Snapshot.from_json, (self.to_json(),)


def revision_of(snapshot: Snapshot) -> str:
    """The digest of everything that advice depends on."""
    return digest(_content(snapshot))


def with_revision(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the revision of its content."""
    return replace(snapshot, revision=revision_of(snapshot))


def with_absences(snapshot: Snapshot, absences: Mapping[str, Absence]) -> Snapshot:
    """The snapshot with what indexes answered about its packages, and a new revision.

    What an index does not have is omitted if another source has it.
    """
    answered = {
        name: it
        for name, it in absences.items()
        if name in snapshot.missing
        or (name in snapshot.packages and it.reason is AbsenceReason.UNAVAILABLE)
    }
    return with_revision(replace(snapshot, absences=answered))


def _read_document(data: bytes) -> dict[str, Any]:
    """The fields of :class:`Snapshot` in a JSON document.

    :raises InvalidDocument: if it is not a snapshot, or of another schema
    """
    try:
        raw = orjson.loads(data)
        if raw["schema_version"] in (SCHEMA_VERSION, LISTED_SCHEMA_VERSION):
            return _read_fields(raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a snapshot: {fault_in(error)}") from error
    raise InvalidDocument(
        Reason.UNKNOWN_SCHEMA,
        f"{raw['schema_version']!r} is not {SCHEMA_VERSION!r}",
        field="schema_version",
    )


def _content(snapshot: Snapshot) -> dict[str, Any]:
    # The row number of each distinct requirement, in the order of requirements.
    candidates = (it for package in snapshot.packages.values() for it in package)
    distinct = {dependency for candidate in candidates for dependency in candidate.requires}
    ordered = sorted(distinct, key=lambda dependency: dependency.order)
    table = {dependency: number for number, dependency in enumerate(ordered)}
    # Snapshots of earlier versions had no absences; their revisions stay.
    absences = {name: _members(it) for name, it in sorted(snapshot.absences.items())}
    statuses = {
        name: {index: [it.state.value, it.reason] for index, it in sorted(by_index.items())}
        for name, by_index in sorted(snapshot.statuses.items())
    }
    return {
        "schema_version": LISTED_SCHEMA_VERSION if snapshot.unread_count else SCHEMA_VERSION,
        "environment": asdict(snapshot.environment),
        "roots": [_dependency(it) for it in snapshot.roots],
        "requirements": [_dependency(it) for it in table],
        "packages": {name: _package(several, table) for name, several in snapshot.packages.items()},
        "excluded": {
            name: [_members(it) for it in versions]
            for name, versions in snapshot.excluded.items()
            if versions
        },
        "missing": snapshot.missing,
        **({"absences": absences} if absences else {}),
        **({"statuses": statuses} if statuses else {}),
        "extras": {name: extras for name, extras in snapshot.extras.items() if extras},
    }


def _package(candidates: Sequence[Candidate], table: Mapping[Dependency, int]) -> list[Any]:
    """The rows of a package; those of unread candidates do not depend on other packages."""
    if isinstance(candidates, CandidateTuple):
        return [
            _candidate(it, table) if isinstance(it, Candidate) else it for it in candidates.pieces
        ]
    return [_candidate(it, table) if it.read else _listed(it) for it in candidates]


def _members(it: Excluded | KnownVulnerability | Absence) -> dict[str, Any]:
    return {name: getattr(it, name) for name in it.__slots__ if name != "last_resort"}


def _dependency(it: Dependency) -> dict[str, Any]:
    return {name: value for name in it.__slots__ if (value := getattr(it, name))}


def _candidate(candidate: Candidate, table: Mapping[Dependency, int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: value
        for name in _PLAIN
        if (value := getattr(candidate, name)) is not None and value is not False and value != ()
    }
    row["requires"] = [table[dependency] for dependency in candidate.requires]
    if candidate.uploaded_at is not None:
        row["uploaded_at"] = as_json_time(candidate.uploaded_at)
    if candidate.vulnerabilities:
        row["vulnerabilities"] = [_members(known) for known in candidate.vulnerabilities]
    return row


def _listed(candidate: Candidate) -> list[Any]:
    """The row of an unread candidate."""
    usual = candidate.purl == f"pkg:pypi/{candidate.name}@{candidate.version}"
    row: list[Any] = [
        candidate.version,
        _flags(candidate),
        None if candidate.uploaded_at is None else (candidate.uploaded_at - _EPOCH) // _MICROSECOND,
        candidate.wheel_rank,
        candidate.requires_python,
        None if candidate.index == DEFAULT_INDEX else candidate.index,
        None if usual else candidate.purl,
        candidate.yanked_reason,
        [_members(known) for known in candidate.vulnerabilities] or None,
    ]
    while row[-1] is None:
        row.pop()
    return row


def _flags(candidate: Candidate) -> int:
    flags = (
        _PRERELEASE * candidate.prerelease
        + _YANKED * candidate.yanked
        + _SDIST_ONLY * candidate.sdist_only
        + _COMPILED * candidate.compiled
    )
    return flags + _MISMATCH * _MISMATCHES.index(candidate.wheel_mismatch)


def _read_listed(name: str, row: Sequence[Any]) -> Candidate:
    padded = [*row, *[None] * (len(_LISTED) - len(row))]
    version, flags, moment, rank, requires_python, index, purl, reason, vulnerabilities = padded
    return Candidate(
        purl=purl or Purl(f"pkg:pypi/{name}@{version}"),
        name=name,
        version=version,
        index=index or DEFAULT_INDEX,
        requires_python=requires_python,
        wheel_rank=rank,
        prerelease=bool(flags & _PRERELEASE),
        yanked=bool(flags & _YANKED),
        sdist_only=bool(flags & _SDIST_ONLY),
        wheel_mismatch=_MISMATCHES[flags % _COMPILED // _MISMATCH],
        compiled=bool(flags & _COMPILED),
        yanked_reason=reason,
        uploaded_at=None if moment is None else _EPOCH + moment * _MICROSECOND,
        vulnerabilities=tuple(KnownVulnerability(**known) for known in vulnerabilities or ()),
        read=False,
    )


def _read_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    table = [_read_dependency(row) for row in raw["requirements"]]
    packages, excluded, extras = raw["packages"], raw["excluded"], raw["extras"]
    return {
        "revision": raw["revision"],
        "environment": _read_environment(raw["environment"]),
        "roots": tuple(map(_read_dependency, raw["roots"])),
        "packages": MappingProxyType(
            {
                name: tuple(
                    _read_listed(name, row)
                    if isinstance(row, list)
                    else _read_candidate(name, row, table)
                    for row in rows
                )
                for name, rows in packages.items()
            }
        ),
        "excluded": MappingProxyType(
            {name: tuple(map(_read_excluded, excluded.get(name, ()))) for name in packages}
        ),
        "missing": tuple(raw["missing"]),
        "extras": MappingProxyType({name: tuple(extras.get(name, ())) for name in packages}),
        "layers": tuple(map(tuple, raw["layers"])),
        "revisions": MappingProxyType(raw["revisions"]),
        "absences": {
            name: Absence(AbsenceReason(row["reason"]), row["message"])
            for name, row in raw.get("absences", {}).items()
        },
        "statuses": {
            name: {
                index: ProjectStatus(ProjectState(state), reason)
                for index, (state, reason) in by_index.items()
            }
            for name, by_index in raw.get("statuses", {}).items()
        },
    }


def _read_environment(raw: Mapping[str, Any]) -> Environment:
    libc, macos = raw["libc"], raw["macos"]
    values = {field.name: raw[field.name] for field in fields(Environment)}
    values["libc"] = None if libc is None else (libc[0], tuple(libc[1]))
    values["macos"] = None if macos is None else tuple(macos)
    return Environment(**values)


def _read_dependency(raw: Mapping[str, Any]) -> Dependency:
    return Dependency(**{**raw, "extras": tuple(raw.get("extras", ()))})


def _read_candidate(name: str, raw: Mapping[str, Any], table: Sequence[Dependency]) -> Candidate:
    moment, mismatch = raw.get("uploaded_at"), raw.get("wheel_mismatch")
    return Candidate(
        **{
            **raw,
            "name": name,
            "requires": tuple(table[number] for number in raw["requires"]),
            "extras": tuple(raw.get("extras", ())),
            "uploaded_at": None if moment is None else datetime.fromisoformat(moment),
            "wheel_mismatch": None if mismatch is None else ExclusionReason(mismatch),
            "vulnerabilities": tuple(
                KnownVulnerability(**known) for known in raw.get("vulnerabilities", ())
            ),
        }
    )


def _read_excluded(raw: Mapping[str, Any]) -> Excluded:
    return Excluded(**{**raw, "reason": ExclusionReason(raw["reason"])})
