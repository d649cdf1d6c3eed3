"""Vulnerabilities, page by page, and what each affects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, any_, func, select

from graph.repositories.affected import texts
from graph.tables import AdvisoryRow, AffectedVersion, PackageVersionRow, VulnerabilityRow


@dataclass(frozen=True, slots=True)
class VulnerabilityHead:
    """A vulnerability: what all advisories about it say together.

    :param aliases: every identifier that it is known by, its own included, sorted
    :param score: CVSS base score, 0 to 10
    :param withdrawn_at: set if all of its advisories are withdrawn
    """

    vulnerability_id: str
    aliases: tuple[str, ...]
    summary: str | None
    severity: str | None
    score: float | None
    vector: str | None
    published_at: datetime | None
    modified_at: datetime | None
    withdrawn_at: datetime | None
    document_id: str


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory about a vulnerability."""

    advisory_id: str
    summary: str | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: str


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A release, named."""

    purl: str
    name: str
    version: str
    index: str


@dataclass(frozen=True, slots=True)
class VulnerabilityFilter:
    """Which vulnerabilities are asked for; ``None`` for any.

    :param package: of which a version is affected
    :param purl: of a release that is
    :param alias: an identifier that it is known by
    """

    package: str | None = None
    purl: str | None = None
    alias: str | None = None
    severity: str | None = None
    withdrawn: bool | None = None


def browse_vulnerabilities(
    connection: Connection, wanted: VulnerabilityFilter, *, after: str | None = None, limit: int
) -> list[VulnerabilityHead]:
    """Vulnerabilities in the order of their identifiers."""
    row, affected, version = VulnerabilityRow, AffectedVersion, PackageVersionRow
    query = _select()
    if wanted.package is not None:
        harmed = select(affected.vulnerability_id).join(version, version.purl == affected.purl)
        query = query.where(row.vulnerability_id.in_(harmed.where(version.name == wanted.package)))
    if wanted.purl is not None:
        harmed = select(affected.vulnerability_id).where(affected.purl == wanted.purl)
        query = query.where(row.vulnerability_id.in_(harmed))
    if wanted.alias is not None:
        query = query.where(row.aliases.op("@>")(texts([wanted.alias])))
    if wanted.severity is not None:
        query = query.where(row.severity == wanted.severity)
    if wanted.withdrawn is not None:
        gone = row.withdrawn_at
        query = query.where(gone.is_not(None) if wanted.withdrawn else gone.is_(None))
    if after is not None:
        query = query.where(row.vulnerability_id > after)
    rows = connection.execute(query.order_by(row.vulnerability_id).limit(limit))
    return [_head(it) for it in rows]


def vulnerability_named(connection: Connection, identifier: str) -> VulnerabilityHead | None:
    """A vulnerability by its identifier, else by one of its aliases, or ``None``."""
    row = VulnerabilityRow
    for condition in (
        row.vulnerability_id == identifier,
        row.aliases.op("@>")(texts([identifier])),
    ):
        query = _select().where(condition).order_by(row.vulnerability_id).limit(1)
        if (found := connection.execute(query).one_or_none()) is not None:
            return _head(found)
    return None


def advisories_about(connection: Connection, vulnerability_id: str) -> list[Advisory]:
    """The advisories of a vulnerability, by identifier."""
    row = AdvisoryRow
    rows = connection.execute(
        select(row.advisory_id, row.summary, row.modified_at, row.withdrawn_at, row.document_id)
        .where(row.vulnerability_id == vulnerability_id)
        .order_by(row.advisory_id)
    )
    return [Advisory(*it) for it in rows]


def affected_count(connection: Connection, vulnerability_id: str) -> int:
    """How many of the versions known here a vulnerability affects."""
    query = select(func.count()).where(AffectedVersion.vulnerability_id == vulnerability_id)
    return connection.scalar(query) or 0


def browse_affected(
    connection: Connection, vulnerability_id: str, *, after: str | None = None, limit: int
) -> list[KnownVersion]:
    """The versions that a vulnerability affects, by package URL."""
    row = AffectedVersion
    query = select(row.purl).where(row.vulnerability_id == vulnerability_id)
    if after is not None:
        query = query.where(row.purl > after)
    return known_versions(
        connection, connection.scalars(query.order_by(row.purl).limit(limit)).all()
    )


def known_versions(connection: Connection, purls: Sequence[str]) -> list[KnownVersion]:
    """These releases that are known, by package URL."""
    row = PackageVersionRow
    rows = connection.execute(
        select(row.purl, row.name, row.version, row.index_name)
        .where(row.purl == any_(texts(purls)))
        .order_by(row.purl)
    )
    return [KnownVersion(*it) for it in rows]


def _select() -> Select[*tuple[Any, ...]]:
    row = VulnerabilityRow
    return select(
        row.vulnerability_id, row.aliases, row.summary, row.severity, row.score, row.vector,
        row.published_at, row.modified_at, row.withdrawn_at, row.document_id,
    )  # fmt: skip


def _head(row: Any) -> VulnerabilityHead:
    identifier, aliases, *facts = row
    return VulnerabilityHead(identifier, tuple(aliases), *facts)
