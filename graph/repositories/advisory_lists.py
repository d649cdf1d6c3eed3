"""What the record knows of vulnerabilities, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from packaging.utils import canonicalize_name
from sqlalchemy import Connection, any_, func, select

from common.advisories import AffectedPackage, Severity, VersionLine
from graph.repositories.affected import stored_package, texts
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    PackageVersionRow,
    QuarantinedDocument,
    VulnerabilityRow,
)


@dataclass(frozen=True, slots=True)
class AdvisoryCounts:
    """How much is known.

    :param vulnerabilities: those not withdrawn, by severity, ``unknown`` where nobody said
    :param versions: affected by at least one of them, of those known here
    """

    advisories: int
    withdrawn: int
    vulnerabilities: dict[str, int]
    packages: int
    versions: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class KnownVulnerability:
    """A vulnerability of a package.

    :param packages: what its advisories say of the package
    :param versions: those known here that it affects
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
    packages: tuple[AffectedPackage, ...]
    versions: tuple[str, ...]


def advisory_counts(connection: Connection) -> AdvisoryCounts:
    """Counts over the whole record; seconds at most."""
    row = VulnerabilityRow
    severities = connection.execute(
        select(func.coalesce(row.severity, "unknown"), func.count())
        .where(row.withdrawn_at.is_(None))
        .group_by(row.severity)
    )
    affected = select(
        func.count(PackageVersionRow.name.distinct()), func.count(PackageVersionRow.purl.distinct())
    ).join(AffectedVersion, AffectedVersion.purl == PackageVersionRow.purl)
    packages, versions = connection.execute(affected).one()
    refused = select(func.count()).where(
        QuarantinedDocument.kind == "advisory", QuarantinedDocument.resolved_at.is_(None)
    )
    return AdvisoryCounts(
        advisories=connection.scalar(select(func.count(AdvisoryRow.advisory_id))) or 0,
        withdrawn=connection.scalar(select(func.count(row.withdrawn_at))) or 0,
        vulnerabilities={found[0]: found[1] for found in severities},
        packages=packages,
        versions=versions,
        quarantined=connection.scalar(refused) or 0,
    )


def vulnerabilities_of(
    connection: Connection, name: str, version: str | None = None
) -> list[KnownVulnerability]:
    """Vulnerabilities of a package, the worst first; withdrawn ones last.

    :param version: only those that affect it, whether or not it is known here; such
        a list leaves out withdrawn ones
    """
    project = canonicalize_name(name)
    claims = _claims(connection, project)
    if version is not None:
        line = VersionLine([version])
        claims = {
            key: packages
            for key, packages in claims.items()
            if any(line.affected(package) for package in packages)
        }
    versions = _versions(connection, project, list(claims))
    row = VulnerabilityRow
    rows = connection.execute(
        select(
            row.vulnerability_id, row.aliases, row.summary, row.severity, row.score, row.vector,
            row.published_at, row.modified_at, row.withdrawn_at,
        )
        .where(row.vulnerability_id == any_(texts(claims)))
    )  # fmt: skip
    found = [
        KnownVulnerability(
            it[0], tuple(it[1]), *it[2:], packages=tuple(claims[it[0]]),
            versions=tuple(versions.get(it[0], ())),
        )
        for it in rows
        if version is None or it.withdrawn_at is None
    ]  # fmt: skip
    return sorted(found, key=_place)


def _place(it: KnownVulnerability) -> tuple[bool, int, float, str]:
    """By what is said of it in words first: a score may be missing where the words are not."""
    rank = -1 if it.severity is None else Severity(it.severity).rank
    return it.withdrawn_at is not None, -rank, -(it.score or 0.0), it.vulnerability_id


def _claims(connection: Connection, name: str) -> dict[str, list[AffectedPackage]]:
    """By vulnerability, what its advisories say; withdrawn ones only if it is withdrawn itself."""
    said = AdvisoryPackage
    rows = connection.execute(
        select(AdvisoryRow.vulnerability_id, said.name, said.ranges, said.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == said.advisory_id)
        .join(VulnerabilityRow)
        .where(
            said.name == name,
            AdvisoryRow.withdrawn_at.is_(None) | VulnerabilityRow.withdrawn_at.is_not(None),
        )
        .order_by(said.advisory_id, said.position)
    )
    claims: dict[str, list[AffectedPackage]] = {}
    for key, package, ranges, versions in rows:
        claims.setdefault(key, []).append(stored_package(package, ranges, versions))
    return claims


def _versions(
    connection: Connection, name: str, vulnerability_ids: Sequence[str]
) -> dict[str, list[str]]:
    query = (
        select(AffectedVersion.vulnerability_id, PackageVersionRow.version)
        .join(PackageVersionRow, PackageVersionRow.purl == AffectedVersion.purl)
        .where(
            PackageVersionRow.name == name,
            AffectedVersion.vulnerability_id == any_(texts(vulnerability_ids)),
        )
        .distinct()
    )
    found: dict[str, list[str]] = {}
    for key, version in connection.execute(query):
        found.setdefault(key, []).append(version)
    return {key: VersionLine(versions).ordered for key, versions in found.items()}
