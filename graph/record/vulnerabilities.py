"""Finds the versions that vulnerabilities affect, and vulnerabilities for the API and commands."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any

from packaging.utils import canonicalize_name
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Text,
    any_,
    bindparam,
    func,
    select,
    text,
)

from graph.record.bulk import copy_rows
from graph.record.postgresql_helpers import (
    AdvisoryLock,
    columns_for,
    lock_transaction,
    matching,
    texts,
)
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    OutboxEntry,
    PackageVersionRow,
    QuarantinedDocument,
    VulnerabilityRow,
    table_of,
)
from model.advisories import AffectedPackage, RangeEvent, RangeEventKind, Severity, VersionLine
from model.declared_fields import INDEX, PACKAGE, PURL, VERSION, Field, public
from model.packages.candidates import KnownVulnerability

#: Withdrawn advisories count only if all of their vulnerability are withdrawn.
_IS_CLAIM = AdvisoryRow.withdrawn_at.is_(None) | VulnerabilityRow.withdrawn_at.is_not(None)


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
    """A vulnerability with the fields that are shown in lists."""

    vulnerability_id: Annotated[str, public("Main identifier.", "CVE-2023-30861")]
    aliases: Annotated[
        tuple[str, ...], public("All identifiers.", ["CVE-2023-30861", "GHSA-m2qf-hxjv-5gpq"])
    ]
    summary: Annotated[str | None, public("Summary in one line.")]
    severity: Annotated[
        str | None, public("Severity; null if no advisory states it.", values=Severity)
    ]
    score: Annotated[float | None, public("CVSS base score, 0 to 10.", 7.5)]
    vector: Annotated[str | None, public("CVSS vector of the score.")]
    published_at: Annotated[datetime | None, public("When it was first published.")]
    modified_at: Annotated[datetime | None, public("When an advisory last changed.")]
    withdrawn_at: Annotated[
        datetime | None,
        public("When its last advisory was withdrawn; null if an advisory still holds."),
    ]
    document_id: Annotated[str, public("Document of the advisory with the main identifier.")]


@dataclass(frozen=True, slots=True)
class PackageVulnerability(VulnerabilityHead):
    """A vulnerability that affects versions of a package.

    :param packages: affected ranges and versions according to its advisories
    :param versions: affected versions in the record
    """

    packages: tuple[AffectedPackage, ...]
    versions: tuple[str, ...]


def advisory_counts(connection: Connection) -> AdvisoryCounts:
    """Count advisories, vulnerabilities and affected versions; takes a few seconds at most."""
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
    claims = _claims(connection, [project]).get(project, {})
    if version is not None:
        claims = _about(claims, version)
    if not claims:
        return []
    versions = _versions(connection, project, list(claims))
    query = select_vulnerabilities().where(VulnerabilityRow.vulnerability_id == any_(texts(claims)))
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


def vulnerabilities_by_version(
    connection: Connection, versions: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[VulnerabilityHead]]:
    """As :func:`vulnerabilities_of` for many names and versions, with two queries in all."""
    projects = {name: canonicalize_name(name) for name, _ in versions}
    claims = _claims(connection, sorted(set(projects.values())))
    affecting = {
        (name, version): _about(claims.get(projects[name], {}), version)
        for name, version in versions
    }
    row, identifiers = VulnerabilityRow, {key for claim in affecting.values() for key in claim}
    query = select_vulnerabilities().where(
        row.vulnerability_id == any_(texts(sorted(identifiers))), row.withdrawn_at.is_(None)
    )
    heads = {it.vulnerability_id: it for it in map(_head, connection.execute(query))}
    return {
        release: sorted((heads[key] for key in claim if key in heads), key=_severity_order)
        for release, claim in affecting.items()
    }


def known_vulnerabilities(
    connection: Connection, versions: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[KnownVulnerability]]:
    """As :func:`vulnerabilities_by_version`, with the fields that snapshots contain."""
    return {
        release: [KnownVulnerability(it.vulnerability_id, it.severity, it.score) for it in heads]
        for release, heads in vulnerabilities_by_version(connection, versions).items()
    }


def _severity_order(vulnerability: VulnerabilityHead) -> tuple[bool, int, float, str]:
    """Sort key: by severity, then by score; unrated vulnerabilities come last."""
    rank = -1 if vulnerability.severity is None else Severity(vulnerability.severity).rank
    return (
        vulnerability.withdrawn_at is not None,
        -rank,
        -(vulnerability.score or 0.0),
        vulnerability.vulnerability_id,
    )


def _about(
    claims: Mapping[str, list[AffectedPackage]], version: str
) -> dict[str, list[AffectedPackage]]:
    """The claims that affect a version."""
    line = VersionLine([version])
    return {
        key: packages
        for key, packages in claims.items()
        if any(line.affected(package) for package in packages)
    }


def _claims(
    connection: Connection, names: Sequence[str]
) -> dict[str, dict[str, list[AffectedPackage]]]:
    """Affected packages by normalised name and vulnerability.

    Withdrawn advisories of a vulnerability count only if it has no others.
    """
    affected = AdvisoryPackage
    rows = connection.execute(
        select(AdvisoryRow.vulnerability_id, affected.name, affected.ranges, affected.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == affected.advisory_id)
        .join(VulnerabilityRow)
        .where(affected.name == any_(texts(names)), _IS_CLAIM)
        .order_by(affected.advisory_id, affected.position)
    )
    claims: dict[str, dict[str, list[AffectedPackage]]] = defaultdict(dict)
    for key, package, ranges, versions in rows:
        packages = claims[package].setdefault(key, [])
        packages.append(stored_package(package, ranges, versions))
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

    advisory_id: Annotated[str, Field("Identifier of the advisory.", "GHSA-m2qf-hxjv-5gpq")]
    summary: Annotated[str | None, Field("Summary in one line.")]
    modified_at: Annotated[datetime, Field("When it last changed.")]
    withdrawn_at: Annotated[datetime | None, Field("When it was withdrawn.")]
    document_id: Annotated[str, Field("Document of the advisory.")]


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A package version with its identifying fields."""

    purl: Annotated[str, PURL]
    name: Annotated[str, PACKAGE]
    version: Annotated[str, VERSION]
    index: Annotated[str, INDEX]


@dataclass(frozen=True, slots=True)
class VulnerabilityFilter:
    """Filter for vulnerabilities; a field that is ``None`` matches all vulnerabilities.

    :param purl: package URL of an affected version
    """

    package: Annotated[
        str | None, Field("Name of a package with an affected release.", "flask")
    ] = None
    purl: str | None = None
    alias: Annotated[
        str | None, Field("Any identifier of the vulnerability.", "CVE-2023-30861")
    ] = None
    severity: Annotated[str | None, Field("Severity.", values=Severity)] = None
    withdrawn: Annotated[bool | None, Field("Whether all of its advisories are withdrawn.")] = None


def browse_vulnerabilities(
    connection: Connection, wanted: VulnerabilityFilter, *, after: str | None = None, limit: int
) -> list[VulnerabilityHead]:
    """Vulnerabilities in the order of their identifiers."""
    row, affected, version = VulnerabilityRow, AffectedVersion, PackageVersionRow
    query = select_vulnerabilities().where(*matching({row.severity: wanted.severity}))
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
    """The vulnerability with this identifier, or else with this alias; ``None`` without either."""
    row = VulnerabilityRow
    for condition in (
        row.vulnerability_id == identifier,
        row.aliases.op("@>")(texts([identifier])),
    ):
        query = select_vulnerabilities().where(condition).order_by(row.vulnerability_id).limit(1)
        if (match := connection.execute(query).one_or_none()) is not None:
            return _head(match)
    return None


def advisories_about(connection: Connection, vulnerability_id: str) -> list[AdvisorySummary]:
    """The advisories of a vulnerability, by identifier."""
    row = AdvisoryRow
    rows = connection.execute(
        select(*columns_for(AdvisorySummary, row))
        .where(row.vulnerability_id == vulnerability_id)
        .order_by(row.advisory_id)
    )
    return [AdvisorySummary(*it) for it in rows]


def packages_affected_by(connection: Connection, vulnerability_id: str) -> list[AffectedPackage]:
    """Affected ranges and versions by package name, merged from all advisories that still hold.

    If all advisories are withdrawn, all count.
    """
    affected = AdvisoryPackage
    rows = connection.execute(
        select(affected.name, affected.ranges, affected.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == affected.advisory_id)
        .join(VulnerabilityRow)
        .where(AdvisoryRow.vulnerability_id == vulnerability_id, _IS_CLAIM)
        .order_by(affected.name, affected.advisory_id, affected.position)
    )
    claims = [stored_package(*row) for row in rows]
    return [
        AffectedPackage(
            name,
            tuple(dict.fromkeys(events for it in of_package for events in it.ranges)),
            tuple(VersionLine(version for it in of_package for version in it.versions).ordered),
        )
        for name, of_package in (
            (name, list(group)) for name, group in groupby(claims, lambda it: it.name)
        )
    ]


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


def select_vulnerabilities() -> Select[*tuple[Any, ...]]:
    """The fields of :class:`VulnerabilityHead`."""
    return select(*columns_for(VulnerabilityHead, VulnerabilityRow))


def _head(row: Any) -> VulnerabilityHead:
    identifier, aliases, *facts = row
    return VulnerabilityHead(identifier, tuple(aliases), *facts)


#: A vulnerability and the package URL of a version that it affects.
Pair = tuple[str, str]
#: Package URLs by package name and version; several indexes may serve a version.
_Versions = Mapping[str, Mapping[str, list[str]]]
#: A vulnerability and the affected package of one of its advisories.
Claim = tuple[str, AffectedPackage]

_DELETE_PAIRS = text(
    "DELETE FROM affected_versions USING unnest(:ids, :purls) AS gone (id, purl)"
    " WHERE affected_versions.vulnerability_id = gone.id AND affected_versions.purl = gone.purl"
).bindparams(bindparam("ids", type_=ARRAY(Text)), bindparam("purls", type_=ARRAY(Text)))


def share_advisories(connection: Connection) -> None:
    """Block writers of advisories until this transaction ends, but not writers of versions.

    Without the lock, a version and an advisory that are added concurrently would not be matched.
    To avoid deadlocks, call this before the first write of a transaction.
    """
    lock_transaction(connection, AdvisoryLock.ADVISORIES, shared=True)


def hold_advisories(connection: Connection) -> None:
    """Block all other writers of advisories or versions until this transaction ends."""
    lock_transaction(connection, AdvisoryLock.ADVISORIES)


def match_versions(connection: Connection, purls: Collection[str]) -> set[str]:
    """Match stored versions with all advisories; the caller owns the transaction.

    The number of statements does not depend on the number of versions. Writes outbox entries for
    changed versions; the caller refreshes the revisions of their packages.

    :returns: package URLs of changed versions
    """
    if not purls:
        return set()
    share_advisories(connection)
    wanted = texts(purls)
    versions = _versions_where(connection, PackageVersionRow.purl == any_(wanted))
    claims = _valid_claims(connection, AdvisoryPackage.name == any_(texts(versions)))
    known = _stored(connection, AffectedVersion.purl == any_(wanted))
    return _replace(connection, known, _pairs(claims, versions))


def match_vulnerabilities(connection: Connection, vulnerability_ids: Collection[str]) -> set[str]:
    """Match vulnerabilities with all versions, and remove the pairs of deleted vulnerabilities.

    :returns: package URLs of changed versions
    """
    claims = _valid_claims(
        connection, AdvisoryRow.vulnerability_id == any_(texts(vulnerability_ids))
    )
    stored = stored_pairs(connection, vulnerability_ids)
    return _replace(connection, stored, claimed_pairs(connection, claims))


def stored_pairs(connection: Connection, vulnerability_ids: Collection[str]) -> set[Pair]:
    """The stored pairs of these vulnerabilities and their affected versions."""
    return _stored(connection, AffectedVersion.vulnerability_id == any_(texts(vulnerability_ids)))


def claimed_pairs(connection: Connection, claims: Collection[Claim]) -> set[Pair]:
    """The pairs of a vulnerability and an affected version, as the advisories state them."""
    names = {package.name for _, package in claims}
    versions = _versions_where(connection, PackageVersionRow.name == any_(texts(names)))
    return _pairs(claims, versions)


def vulnerabilities_of_listed(
    connection: Connection, purls: Mapping[str, Mapping[str, str]]
) -> dict[str, list[KnownVulnerability]]:
    """Vulnerabilities of versions, by package URL; the versions need not be in the record.

    :param purls: package URL by package name and version
    """
    claims = _valid_claims(connection, AdvisoryPackage.name == any_(texts(purls)))
    versions = {
        name: {version: [purl] for version, purl in of_package.items()}
        for name, of_package in purls.items()
    }
    pairs = sorted(_pairs(claims, versions))
    if not pairs:
        return {}
    row = VulnerabilityRow
    query = select(row.vulnerability_id, row.severity, row.score).where(
        row.vulnerability_id == any_(texts({it for it, _ in pairs}))
    )
    known = {it[0]: KnownVulnerability(*it) for it in connection.execute(query)}
    vulnerabilities: dict[str, list[KnownVulnerability]] = defaultdict(list)
    for vulnerability, purl in pairs:
        vulnerabilities[purl].append(known[vulnerability])
    return vulnerabilities


def stored_package(
    name: str, ranges: Sequence[Sequence[dict[str, str]]], versions: Sequence[str]
) -> AffectedPackage:
    """A row of ``advisory_packages`` as an object."""
    events = (
        tuple(RangeEvent(RangeEventKind(kind), it) for event in part for kind, it in event.items())
        for part in ranges
    )
    return AffectedPackage(name, tuple(events), tuple(versions))


def _versions_where(connection: Connection, condition: ColumnElement[bool]) -> _Versions:
    row = PackageVersionRow
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, version, purl in connection.execute(
        select(row.name, row.version, row.purl).where(condition)
    ):
        versions[name][version].append(purl)
    return versions


def _valid_claims(connection: Connection, condition: ColumnElement[bool]) -> list[Claim]:
    """The advisories' statements about affected packages; withdrawn advisories are left out."""
    package = AdvisoryPackage
    rows = connection.execute(
        select(AdvisoryRow.vulnerability_id, package.name, package.ranges, package.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == package.advisory_id)
        .where(AdvisoryRow.withdrawn_at.is_(None), condition)
    )
    return [(row[0], stored_package(row[1], row[2], row[3])) for row in rows]


def _stored(connection: Connection, condition: ColumnElement[bool]) -> set[Pair]:
    query = select(AffectedVersion.vulnerability_id, AffectedVersion.purl).where(condition)
    return {(row[0], row[1]) for row in connection.execute(query)}


def _pairs(claims: Collection[Claim], versions: _Versions) -> set[Pair]:
    claimed = {package.name for _, package in claims}
    lines = {name: VersionLine(it) for name, it in versions.items() if name in claimed}
    pairs: set[Pair] = set()
    for vulnerability, package in claims:
        if package.name in lines:
            purls = versions[package.name]
            for version in lines[package.name].affected(package):
                pairs.update((vulnerability, purl) for purl in purls[version])
    return pairs


def _replace(connection: Connection, known: set[Pair], wanted: set[Pair]) -> set[str]:
    """Replace the pairs ``known`` with ``wanted``; return the package URLs of changed versions."""
    removed, new = sorted(known - wanted), sorted(wanted - known)
    if removed:
        ids, purls = zip(*removed, strict=True)
        connection.execute(_DELETE_PAIRS, {"ids": list(ids), "purls": list(purls)})
    if new:
        table = table_of(AffectedVersion)
        copy_rows(connection, table.name, table, new, ("vulnerability_id", "purl"))
    changed = {purl for _, purl in (*removed, *new)}
    if changed:
        outbox = table_of(OutboxEntry)
        entries = [("package_version", purl) for purl in sorted(changed)]
        copy_rows(connection, outbox.name, outbox, entries, ("kind", "key"))
    return changed
