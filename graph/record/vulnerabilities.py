"""Merges advisories into vulnerabilities, and finds vulnerabilities for the API and commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from packaging.utils import canonicalize_name
from sqlalchemy import Connection, Select, any_, func, select

from common.advisories import AdvisoryHead, AffectedPackage, Rating, Severity, VersionLine, worst
from graph.record.affected_versions import stored_package
from graph.record.postgresql import matching, texts
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    PackageVersionRow,
    QuarantinedDocument,
    VulnerabilityRow,
)

#: Prefixes of preferred identifiers, best first.
_PREFERRED = ("CVE-", "GHSA-", "PYSEC-")


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A vulnerability, merged from all advisories about it.

    :param aliases: all its identifiers, its own included, sorted; aliases in withdrawn advisories
        count only if all advisories are withdrawn
    :param withdrawn_at: set if all advisories are withdrawn
    :param document_id: document of the advisory with the preferred identifier
    :param advisory_ids: its advisories, sorted
    """

    vulnerability_id: str
    aliases: tuple[str, ...]
    summary: str | None
    rating: Rating
    published_at: datetime | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: str
    advisory_ids: tuple[str, ...]


def merged(advisories: Collection[AdvisoryHead]) -> list[Vulnerability]:
    """Merge advisories into vulnerabilities; the result does not depend on their order.

    Two advisories belong together if a chain of aliases connects them. A withdrawn advisory does
    not connect other advisories, because wrong aliases may be the reason for its withdrawal. A
    withdrawn advisory joins the group that contains its identifier, otherwise the group that
    contains its preferred alias. Only withdrawn advisories without such a group are connected with
    each other.
    """
    parents: dict[str, str] = {}
    valid = [head for head in advisories if head.withdrawn_at is None]
    _join_all(parents, valid)
    named = {identifier for head in valid for identifier in _identifiers(head)}
    #: For each assigned advisory, an identifier in its group.
    assigned: dict[str, str] = {}
    for head in advisories:
        known = [it for it in head.aliases if it in named]
        if head.withdrawn_at is None or head.advisory_id in named:
            assigned[head.advisory_id] = head.advisory_id
        elif known:
            assigned[head.advisory_id] = min(known, key=preference)
    _join_all(parents, [head for head in advisories if head.advisory_id not in assigned])
    groups: dict[str, list[AdvisoryHead]] = defaultdict(list)
    for head in advisories:
        groups[_root(parents, assigned.get(head.advisory_id, head.advisory_id))].append(head)
    return [_vulnerability(group) for group in groups.values()]


def _identifiers(head: AdvisoryHead) -> tuple[str, ...]:
    return head.advisory_id, *head.aliases


def preference(identifier: str) -> tuple[int, str]:
    """Sort key of identifiers; the identifier that sorts first names the vulnerability.

    >>> sorted(["PYSEC-2021-1", "GHSA-x", "OSV-1", "CVE-2021-9", "CVE-2021-10"], key=preference)
    ['CVE-2021-10', 'CVE-2021-9', 'GHSA-x', 'PYSEC-2021-1', 'OSV-1']
    """
    ranks = (rank for rank, prefix in enumerate(_PREFERRED) if identifier.startswith(prefix))
    return next(ranks, len(_PREFERRED)), identifier


def _root(parents: dict[str, str], identifier: str) -> str:
    root = identifier
    while (above := parents.get(root, root)) != root:
        root = above
    # Path compression keeps long chains cheap (union-find).
    while identifier != root:
        parents[identifier], identifier = root, parents.get(identifier, root)
    return root


def _join_all(parents: dict[str, str], heads: Collection[AdvisoryHead]) -> None:
    for head in heads:
        for alias in head.aliases:
            parents[_root(parents, head.advisory_id)] = _root(parents, alias)


def _vulnerability(group: list[AdvisoryHead]) -> Vulnerability:
    heads = sorted(group, key=lambda head: preference(head.advisory_id))
    valid = [head for head in heads if head.withdrawn_at is None] or heads
    withdrawn = [head.withdrawn_at for head in heads if head.withdrawn_at is not None]
    identifiers = {it for head in valid for it in _identifiers(head)}
    return Vulnerability(
        vulnerability_id=min(identifiers, key=preference),
        aliases=tuple(sorted(identifiers | {head.advisory_id for head in heads})),
        summary=next((head.summary for head in valid if head.summary), None),
        rating=worst(head.rating for head in valid),
        published_at=min((it.published_at for it in valid if it.published_at), default=None),
        modified_at=max(head.modified_at for head in heads),
        withdrawn_at=max(withdrawn) if len(withdrawn) == len(heads) else None,
        document_id=valid[0].document_id,
        advisory_ids=tuple(sorted(head.advisory_id for head in heads)),
    )


@dataclass(frozen=True, slots=True)
class AdvisoryCounts:
    """Counts over the whole record.

    :param vulnerabilities: not withdrawn, by severity; ``unknown`` if no advisory has one
    :param packages: with an affected version
    :param versions: known versions with at least one vulnerability
    """

    advisories: int
    withdrawn: int
    vulnerabilities: dict[str, int]
    packages: int
    versions: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class VulnerabilityHead:
    """A vulnerability with the fields that are shown in lists.

    :param aliases: all its identifiers, its own included, sorted
    :param score: CVSS base score, 0 to 10
    :param withdrawn_at: set if all advisories are withdrawn
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
class PackageVulnerability(VulnerabilityHead):
    """A vulnerability that affects versions of a package.

    :param packages: affected ranges and versions according to its advisories
    :param versions: affected versions in the record
    """

    packages: tuple[AffectedPackage, ...]
    versions: tuple[str, ...]


def advisory_counts(connection: Connection) -> AdvisoryCounts:
    """Count advisories, vulnerabilities and affected versions, which takes some seconds at most."""
    row = VulnerabilityRow
    severities = connection.execute(
        select(row.severity, func.count()).where(row.withdrawn_at.is_(None)).group_by(row.severity)
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
        vulnerabilities={severity or "unknown": count for severity, count in severities},
        packages=packages,
        versions=versions,
        quarantined=connection.scalar(refused) or 0,
    )


def vulnerabilities_of(
    connection: Connection, name: str, version: str | None = None
) -> list[PackageVulnerability]:
    """Vulnerabilities of a package, worst first, withdrawn ones last.

    :param version: only vulnerabilities of this version, which may be unknown to the record;
        withdrawn ones are left out then
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
    query = _select().where(VulnerabilityRow.vulnerability_id == any_(texts(claims)))
    vulnerabilities = [
        PackageVulnerability(
            **asdict(head),
            packages=tuple(claims[head.vulnerability_id]),
            versions=tuple(versions.get(head.vulnerability_id, ())),
        )
        for head in map(_head, connection.execute(query))
        if version is None or head.withdrawn_at is None
    ]
    return sorted(vulnerabilities, key=_severity_order)


def _severity_order(it: PackageVulnerability) -> tuple[bool, int, float, str]:
    """Sort key: by severity, then by score; unrated vulnerabilities come last."""
    rank = -1 if it.severity is None else Severity(it.severity).rank
    return it.withdrawn_at is not None, -rank, -(it.score or 0.0), it.vulnerability_id


def _claims(connection: Connection, name: str) -> dict[str, list[AffectedPackage]]:
    """Affected packages by vulnerability, from withdrawn advisories only if there are no others."""
    affected = AdvisoryPackage
    rows = connection.execute(
        select(AdvisoryRow.vulnerability_id, affected.name, affected.ranges, affected.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == affected.advisory_id)
        .join(VulnerabilityRow)
        .where(
            affected.name == name,
            AdvisoryRow.withdrawn_at.is_(None) | VulnerabilityRow.withdrawn_at.is_not(None),
        )
        .order_by(affected.advisory_id, affected.position)
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
    affected: dict[str, list[str]] = {}
    for key, version in connection.execute(query):
        affected.setdefault(key, []).append(version)
    return {key: VersionLine(versions).ordered for key, versions in affected.items()}


@dataclass(frozen=True, slots=True)
class AdvisorySummary:
    """One advisory about a vulnerability."""

    advisory_id: str
    summary: str | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: str


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A package version with its identifying fields."""

    purl: str
    name: str
    version: str
    index: str


@dataclass(frozen=True, slots=True)
class VulnerabilityFilter:
    """Filter for vulnerabilities; a field that is ``None`` matches all vulnerabilities.

    :param package: a package with an affected version
    :param purl: package URL of an affected version
    :param alias: one of its identifiers
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
    query = _select().where(*matching({row.severity: wanted.severity}))
    if wanted.package is not None:
        harmed = select(affected.vulnerability_id).join(version, version.purl == affected.purl)
        query = query.where(row.vulnerability_id.in_(harmed.where(version.name == wanted.package)))
    if wanted.purl is not None:
        harmed = select(affected.vulnerability_id).where(affected.purl == wanted.purl)
        query = query.where(row.vulnerability_id.in_(harmed))
    if wanted.alias is not None:
        query = query.where(row.aliases.op("@>")(texts([wanted.alias])))
    if wanted.withdrawn is not None:
        gone = row.withdrawn_at
        query = query.where(gone.is_not(None) if wanted.withdrawn else gone.is_(None))
    if after is not None:
        query = query.where(row.vulnerability_id > after)
    rows = connection.execute(query.order_by(row.vulnerability_id).limit(limit))
    return [_head(it) for it in rows]


def vulnerability_named(connection: Connection, identifier: str) -> VulnerabilityHead | None:
    """The vulnerability with this identifier, otherwise the one with this alias, or ``None``."""
    row = VulnerabilityRow
    for condition in (
        row.vulnerability_id == identifier,
        row.aliases.op("@>")(texts([identifier])),
    ):
        query = _select().where(condition).order_by(row.vulnerability_id).limit(1)
        if (match := connection.execute(query).one_or_none()) is not None:
            return _head(match)
    return None


def advisories_about(connection: Connection, vulnerability_id: str) -> list[AdvisorySummary]:
    """The advisories of a vulnerability, by identifier."""
    row = AdvisoryRow
    rows = connection.execute(
        select(row.advisory_id, row.summary, row.modified_at, row.withdrawn_at, row.document_id)
        .where(row.vulnerability_id == vulnerability_id)
        .order_by(row.advisory_id)
    )
    return [AdvisorySummary(*it) for it in rows]


def affected_count(connection: Connection, vulnerability_id: str) -> int:
    """Number of known versions that a vulnerability affects."""
    query = select(func.count()).where(AffectedVersion.vulnerability_id == vulnerability_id)
    return connection.scalar(query) or 0


def browse_affected(
    connection: Connection, vulnerability_id: str, *, after: str | None = None, limit: int
) -> list[KnownVersion]:
    """Versions that a vulnerability affects, by package URL."""
    row = AffectedVersion
    query = select(row.purl).where(row.vulnerability_id == vulnerability_id)
    if after is not None:
        query = query.where(row.purl > after)
    return known_versions(
        connection, connection.scalars(query.order_by(row.purl).limit(limit)).all()
    )


def known_versions(connection: Connection, purls: Sequence[str]) -> list[KnownVersion]:
    """Known versions among ``purls``, by package URL."""
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
