"""The frozen view of the graph that the adviser works on: everything about one request.

A snapshot holds everything that the resolver needs, and does no I/O. Its revision is a digest of
its content, so it changes exactly if the advice could. Its JSON form is canonical: equal snapshots
have equal bytes. Many versions share few requirements, so the document lists each requirement once
in a table, and versions refer to its rows.
``docs/reference/snapshot.md`` explains every key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any

import orjson

from common.environments import Environment
from common.errors import InvalidDocument
from common.formats.json_documents import canonical_json, digest, fault_in
from common.reasons import Reason
from common.releases import as_json_time
from graph.candidates import Candidate, Dependency, Excluded, ExclusionReason, KnownVulnerability

#: Version of the content and its JSON form; part of the content, and so of the revision.
SCHEMA_VERSION = "snapshot-1"

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
    "requirements_likely",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The closure of a request in an environment.

    Every mapping is sorted by name and contains all packages of the closure except the missing.

    :param revision: digest of the content: environment, roots, candidates, excluded versions
    :param roots: the requirements of the request that apply in the environment, sorted, unique
    :param packages: candidates, newest first; an empty tuple if every version is excluded
    :param excluded: versions that cannot be installed here, newest first, with the reason
    :param missing: required packages without any known version, sorted
    :param extras: extras of each package that the roots or a candidate request, sorted
    :param layers: package names in the order of discovery, sorted within a layer
    :param revisions: revision of every package in the graph, missing packages included;
        ``None`` if nothing is known about it. Not part of the content, see
        :func:`graph.snapshot_reader.is_current`
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

    @property
    def candidate_count(self) -> int:
        """Number of candidates of all packages."""
        return sum(map(len, self.packages.values()))

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


def _read_document(data: bytes) -> dict[str, Any]:
    """The fields of :class:`Snapshot` in a JSON document.

    :raises InvalidDocument: if it is not a snapshot, or of another schema
    """
    try:
        raw = orjson.loads(data)
        if raw["schema_version"] == SCHEMA_VERSION:
            return _read_fields(raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a snapshot: {fault_in(error)}") from error
    raise InvalidDocument(
        Reason.UNKNOWN_SCHEMA,
        f"{raw['schema_version']!r} is not {SCHEMA_VERSION!r}",
        field="schema_version",
    )


def _content(snapshot: Snapshot) -> dict[str, Any]:
    table = _requirement_table(snapshot)
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": asdict(snapshot.environment),
        "roots": [_dependency(it) for it in snapshot.roots],
        "requirements": [_dependency(it) for it in table],
        "packages": {
            name: [_candidate(it, table) for it in candidates]
            for name, candidates in snapshot.packages.items()
        },
        "excluded": {
            name: [_members(it) for it in versions]
            for name, versions in snapshot.excluded.items()
            if versions
        },
        "missing": snapshot.missing,
        "extras": {name: extras for name, extras in snapshot.extras.items() if extras},
    }


def _requirement_table(snapshot: Snapshot) -> dict[Dependency, int]:
    """The row number of each distinct requirement, in the order of requirements."""
    candidates = (it for package in snapshot.packages.values() for it in package)
    distinct = {dependency for candidate in candidates for dependency in candidate.requires}
    ordered = sorted(distinct, key=lambda dependency: dependency.order)
    return {dependency: number for number, dependency in enumerate(ordered)}


def _members(it: Excluded | KnownVulnerability) -> dict[str, Any]:
    return {name: getattr(it, name) for name in it.__slots__}


def _dependency(it: Dependency) -> dict[str, Any]:
    return {name: value for name in it.__slots__ if (value := getattr(it, name))}


def _candidate(it: Candidate, table: Mapping[Dependency, int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: value
        for name in _PLAIN
        if (value := getattr(it, name)) is not None and value is not False and value != ()
    }
    row["requires"] = [table[dependency] for dependency in it.requires]
    if not it.read:
        row["read"] = False
    if it.uploaded_at is not None:
        row["uploaded_at"] = as_json_time(it.uploaded_at)
    if it.vulnerabilities:
        row["vulnerabilities"] = [_members(known) for known in it.vulnerabilities]
    return row


def _read_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    table = [_read_dependency(row) for row in raw["requirements"]]
    packages, excluded, extras = raw["packages"], raw["excluded"], raw["extras"]
    return {
        "revision": raw["revision"],
        "environment": _read_environment(raw["environment"]),
        "roots": tuple(map(_read_dependency, raw["roots"])),
        "packages": MappingProxyType(
            {
                name: tuple(_read_candidate(name, row, table) for row in rows)
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
    moment = raw.get("uploaded_at")
    return Candidate(
        **{
            **raw,
            "name": name,
            "requires": tuple(table[number] for number in raw["requires"]),
            "extras": tuple(raw.get("extras", ())),
            "uploaded_at": None if moment is None else datetime.fromisoformat(moment),
            "vulnerabilities": tuple(
                KnownVulnerability(**known) for known in raw.get("vulnerabilities", ())
            ),
        }
    )


def _read_excluded(raw: Mapping[str, Any]) -> Excluded:
    return Excluded(**{**raw, "reason": ExclusionReason(raw["reason"])})
