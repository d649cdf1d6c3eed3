"""Finds the known versions that each vulnerability affects, and stores the pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, bindparam, select, text

from graph.record.bulk import copy_rows
from graph.record.postgresql_helpers import AdvisoryLock, lock_transaction, texts
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    OutboxEntry,
    PackageVersionRow,
    VulnerabilityRow,
    table_of,
)
from model.advisories import AffectedPackage, RangeEvent, RangeEventKind, VersionLine
from model.packages.candidates import KnownVulnerability

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
    versions = _versions(connection, PackageVersionRow.purl == any_(wanted))
    claims = _claims(connection, AdvisoryPackage.name == any_(texts(versions)))
    known = _stored(connection, AffectedVersion.purl == any_(wanted))
    return _replace(connection, known, _pairs(claims, versions))


def match_vulnerabilities(connection: Connection, vulnerability_ids: Collection[str]) -> set[str]:
    """Match vulnerabilities with all versions, and remove the pairs of deleted vulnerabilities.

    :returns: package URLs of changed versions
    """
    claims = _claims(connection, AdvisoryRow.vulnerability_id == any_(texts(vulnerability_ids)))
    stored = stored_pairs(connection, vulnerability_ids)
    return _replace(connection, stored, claimed_pairs(connection, claims))


def stored_pairs(connection: Connection, vulnerability_ids: Collection[str]) -> set[Pair]:
    """The stored pairs of these vulnerabilities and their affected versions."""
    return _stored(connection, AffectedVersion.vulnerability_id == any_(texts(vulnerability_ids)))


def claimed_pairs(connection: Connection, claims: Collection[Claim]) -> set[Pair]:
    """The pairs of a vulnerability and an affected version, as the advisories state them."""
    names = {package.name for _, package in claims}
    versions = _versions(connection, PackageVersionRow.name == any_(texts(names)))
    return _pairs(claims, versions)


def vulnerabilities_of_listed(
    connection: Connection, purls: Mapping[str, Mapping[str, str]]
) -> dict[str, list[KnownVulnerability]]:
    """Vulnerabilities of versions, by package URL; the versions need not be in the record.

    :param purls: package URL by package name and version
    """
    claims = _claims(connection, AdvisoryPackage.name == any_(texts(purls)))
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
    return AffectedPackage(name, tuple(tuple(_events(it)) for it in ranges), tuple(versions))


def _events(events: Sequence[dict[str, str]]) -> Iterator[RangeEvent]:
    for event in events:
        for kind, version in event.items():
            yield RangeEvent(RangeEventKind(kind), version)


def _versions(connection: Connection, condition: ColumnElement[bool]) -> _Versions:
    row = PackageVersionRow
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, version, purl in connection.execute(
        select(row.name, row.version, row.purl).where(condition)
    ):
        versions[name][version].append(purl)
    return versions


def _claims(connection: Connection, condition: ColumnElement[bool]) -> list[Claim]:
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
