"""The canonical JSON form of a snapshot, in which it is stored, sent and compared.

Requirements are few and said by many versions, so they stand once, in a table, and versions
name them by their places. ``docs/reference/snapshot.md`` explains every key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson

from common.environments import Environment
from common.errors import InvalidDocument
from common.formats.json_documents import canonical_json, digest, fault_in
from common.reasons import Reason
from common.releases import as_json_time
from graph.candidates import Candidate, Dependency, Excluded, ExclusionReason, KnownVulnerability

if TYPE_CHECKING:
    from graph.snapshot import Snapshot

#: What a snapshot is made of, and how; part of what its revision is a digest of.
SCHEMA_VERSION = "snapshot-1"

#: Of a candidate, in their order; the name is the key that its list stands under.
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
)


def canonical_form(snapshot: Snapshot) -> bytes:
    """Canonical JSON: sorted keys, no spaces, in tables no member whose value is unset."""
    return canonical_json(
        {
            **_content(snapshot),
            "revision": snapshot.revision,
            "layers": snapshot.layers,
            "revisions": dict(snapshot.revisions),
        }
    )


def revision_of(snapshot: Snapshot) -> str:
    """The digest of all that an answer depends on."""
    return digest(_content(snapshot))


def fields_of_form(data: bytes) -> dict[str, Any]:
    """The fields of the snapshot whose canonical form ``data`` is.

    :raises InvalidDocument: if it is of another schema, or none
    """
    try:
        raw = orjson.loads(data)
        if raw["schema_version"] == SCHEMA_VERSION:
            return _fields(raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a snapshot: {fault_in(error)}") from error
    raise InvalidDocument(
        Reason.UNKNOWN_SCHEMA,
        f"{raw['schema_version']!r} is not {SCHEMA_VERSION!r}",
        field="schema_version",
    )


def _content(snapshot: Snapshot) -> dict[str, Any]:
    table = _table(snapshot)
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


def _table(snapshot: Snapshot) -> dict[Dependency, int]:
    """The place of each requirement; in the order of requirements."""
    candidates = (it for package in snapshot.packages.values() for it in package)
    found = {dependency for candidate in candidates for dependency in candidate.requires}
    ordered = sorted(found, key=lambda it: it.order)
    return {dependency: place for place, dependency in enumerate(ordered)}


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
    if it.uploaded_at is not None:
        row["uploaded_at"] = as_json_time(it.uploaded_at)
    if it.vulnerabilities:
        row["vulnerabilities"] = [_members(known) for known in it.vulnerabilities]
    return row


def _fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    table = [_read_dependency(row) for row in raw["requirements"]]
    packages, excluded, extras = raw["packages"], raw["excluded"], raw["extras"]
    return {
        "revision": raw["revision"],
        "environment": _environment(raw["environment"]),
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


def _environment(raw: Mapping[str, Any]) -> Environment:
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
            "requires": tuple(table[place] for place in raw["requires"]),
            "extras": tuple(raw.get("extras", ())),
            "uploaded_at": None if moment is None else datetime.fromisoformat(moment),
            "vulnerabilities": tuple(
                KnownVulnerability(**known) for known in raw.get("vulnerabilities", ())
            ),
        }
    )


def _read_excluded(raw: Mapping[str, Any]) -> Excluded:
    return Excluded(**{**raw, "reason": ExclusionReason(raw["reason"])})
