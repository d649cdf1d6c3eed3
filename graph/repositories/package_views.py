"""Everything that is known of one package, for a person to look at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from sqlalchemy import Connection, select

from common.packages import version_of
from graph.repositories.known_releases import known_releases
from graph.repositories.merging import KnownRelease
from graph.tables import (
    AffectedVersion,
    IndexProject,
    PackageEvent,
    PackageVersionRow,
    VulnerabilityRow,
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed in an index."""

    kind: str
    index: str
    version: str
    detail: dict[str, Any]
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """What an index said when it was asked for the package.

    :param state: ``known``, ``missing`` or ``failed``, then with its problem and message
    """

    index: str
    state: str
    as_of: datetime | None
    problem: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Harm:
    """A vulnerability that affects a release."""

    vulnerability_id: str
    aliases: tuple[str, ...]
    severity: str | None
    score: float | None
    summary: str | None


@dataclass(frozen=True, slots=True)
class PackageView:
    """A package in all indexes.

    :param releases: newest first; of one version, in the order of the indexes
    :param vulnerabilities: by package URL of the release
    :param events: newest first
    """

    name: str
    releases: tuple[KnownRelease, ...]
    vulnerabilities: dict[str, tuple[Harm, ...]]
    answers: tuple[Answer, ...]
    events: tuple[Event, ...]


def package_view(connection: Connection, name: str, specifier: str = "") -> PackageView | None:
    """What is known of a package; of the releases within ``specifier``, if there is one.

    :returns: ``None`` if nothing is
    """
    version = PackageVersionRow
    indexes = connection.scalars(
        select(version.index_name).where(version.name == name).distinct().order_by("index_name")
    ).all()
    releases = [it for index in indexes for it in known_releases(connection, index, name).values()]
    answers = _answers(connection, name)
    if not (releases or answers):
        return None
    wanted = [it for it in releases if not specifier or _is_within(it.version, specifier)]
    wanted.sort(key=lambda it: (_order(it.version), it.version), reverse=True)
    harms = _vulnerabilities(connection, [it.purl for it in wanted])
    versions = {it.version for it in wanted}
    events = [it for it in _events(connection, name) if not specifier or it.version in versions]
    return PackageView(name, tuple(wanted), harms, tuple(answers), tuple(events))


def _is_within(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _order(version: str) -> tuple[bool, Version]:
    """Versions that are none come last."""
    parsed = version_of(version)
    return (False, Version("0")) if parsed is None else (True, parsed)


def _answers(connection: Connection, name: str) -> list[Answer]:
    project = IndexProject
    rows = connection.execute(
        select(project.index_name, project.state, project.as_of, project.problem, project.message)
        .where(project.name == name)
        .order_by(project.index_name)
    )
    return [Answer(*row) for row in rows]


def _events(connection: Connection, name: str) -> list[Event]:
    event = PackageEvent
    rows = connection.execute(
        select(event.kind, event.index_name, event.version, event.detail, event.occurred_at)
        .where(event.name == name)
        .order_by(event.event_id.desc())
    )
    return [Event(*row) for row in rows]


def _vulnerabilities(connection: Connection, purls: list[str]) -> dict[str, tuple[Harm, ...]]:
    harm, affected = VulnerabilityRow, AffectedVersion
    rows = connection.execute(
        select(
            affected.purl, harm.vulnerability_id, harm.aliases, harm.severity, harm.score,
            harm.summary,
        )
        .join(harm, harm.vulnerability_id == affected.vulnerability_id)
        .where(affected.purl.in_(purls))
        .order_by(affected.purl, harm.vulnerability_id)
    )  # fmt: skip
    found: dict[str, list[Harm]] = {}
    for purl, identifier, aliases, severity, score, summary in rows:
        known = Harm(identifier, tuple(aliases), severity, score, summary)
        found.setdefault(purl, []).append(known)
    return {purl: tuple(harms) for purl, harms in found.items()}
