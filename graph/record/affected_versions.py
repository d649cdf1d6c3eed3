"""Which of the versions known here each vulnerability affects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Text,
    any_,
    bindparam,
    select,
    text,
)

from common.advisories import (
    AffectedPackage,
    RangeEvent,
    RangeEventKind,
    VersionLine,
)
from graph.record.bulk import copy_rows
from graph.record.postgresql import AdvisoryLock, lock_transaction, texts
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    OutboxEntry,
    PackageVersionRow,
    table_of,
)

#: A vulnerability and the package URL of a version that it affects.
Pair = tuple[str, str]
#: Package name to version to package URLs; several indexes may serve one version.
_Versions = dict[str, dict[str, list[str]]]
#: A vulnerability and what one of its advisories says of a package.
Claim = tuple[str, AffectedPackage]

_DELETE_PAIRS = text(
    "DELETE FROM affected_versions USING unnest(:ids, :purls) AS gone (id, purl)"
    " WHERE affected_versions.vulnerability_id = gone.id AND affected_versions.purl = gone.purl"
).bindparams(bindparam("ids", type_=ARRAY(Text)), bindparam("purls", type_=ARRAY(Text)))


def share_advisories(connection: Connection) -> None:
    """Keep advisories as they are until this transaction ends; others may add versions too.

    Without it, a version and an advisory that are added at the same time would never
    meet. Called before the first write of a transaction, nobody can wait in a circle;
    called again, it costs a round trip.
    """
    lock_transaction(connection, AdvisoryLock.ADVISORIES, shared=True)


def hold_advisories(connection: Connection) -> None:
    """Nobody else adds advisories or versions until this transaction ends."""
    lock_transaction(connection, AdvisoryLock.ADVISORIES)


def match_versions(connection: Connection, purls: Collection[str]) -> set[str]:
    """Find what affects these versions, whose rows are there; the caller owns the transaction.

    A handful of statements, however many versions. Each that changed is in the outbox
    afterwards; the revisions of their packages are left to the caller.

    :returns: the package URLs of the versions for which something changed
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
    """Find all versions that these vulnerabilities affect; those that are gone affect none.

    :returns: the package URLs of the versions for which something changed
    """
    claims = _claims(connection, AdvisoryRow.vulnerability_id == any_(texts(vulnerability_ids)))
    stored = stored_pairs(connection, vulnerability_ids)
    return _replace(connection, stored, claimed_pairs(connection, claims))


def stored_pairs(connection: Connection, vulnerability_ids: Collection[str]) -> set[Pair]:
    """The versions that some vulnerabilities affect, as they are stored."""
    return _stored(connection, AffectedVersion.vulnerability_id == any_(texts(vulnerability_ids)))


def claimed_pairs(connection: Connection, claims: Collection[Claim]) -> set[Pair]:
    """The versions that vulnerabilities affect, as their advisories say."""
    names = {package.name for _, package in claims}
    versions = _versions(connection, PackageVersionRow.name == any_(texts(names)))
    return _pairs(claims, versions)


def stored_package(
    name: str, ranges: Sequence[Sequence[dict[str, str]]], versions: Sequence[str]
) -> AffectedPackage:
    """A row of ``advisory_packages`` as the domain has it."""
    return AffectedPackage(name, tuple(tuple(_events(it)) for it in ranges), tuple(versions))


def _events(events: Sequence[dict[str, str]]) -> Iterator[RangeEvent]:
    for event in events:
        for kind, version in event.items():
            yield RangeEvent(RangeEventKind(kind), version)


def _versions(connection: Connection, condition: ColumnElement[bool]) -> _Versions:
    row = PackageVersionRow
    found: _Versions = defaultdict(lambda: defaultdict(list))
    for name, version, purl in connection.execute(
        select(row.name, row.version, row.purl).where(condition)
    ):
        found[name][version].append(purl)
    return found


def _claims(connection: Connection, condition: ColumnElement[bool]) -> list[Claim]:
    """What advisories say that are not withdrawn."""
    said = AdvisoryPackage
    rows = connection.execute(
        select(AdvisoryRow.vulnerability_id, said.name, said.ranges, said.versions)
        .join(AdvisoryRow, AdvisoryRow.advisory_id == said.advisory_id)
        .where(AdvisoryRow.withdrawn_at.is_(None), condition)
    )
    return [(row[0], stored_package(row[1], row[2], row[3])) for row in rows]


def _stored(connection: Connection, condition: ColumnElement[bool]) -> set[Pair]:
    query = select(AffectedVersion.vulnerability_id, AffectedVersion.purl).where(condition)
    return {(row[0], row[1]) for row in connection.execute(query)}


def _pairs(claims: Iterable[Claim], versions: _Versions) -> set[Pair]:
    lines = {name: VersionLine(of_package) for name, of_package in versions.items()}
    pairs: set[Pair] = set()
    for vulnerability, package in claims:
        if package.name in lines:
            purls = versions[package.name]
            for version in lines[package.name].affected(package):
                pairs.update((vulnerability, purl) for purl in purls[version])
    return pairs


def _replace(connection: Connection, known: set[Pair], wanted: set[Pair]) -> set[str]:
    """Make ``wanted`` of ``known``, and tell which versions that concerned."""
    gone, new = sorted(known - wanted), sorted(wanted - known)
    if gone:
        ids, purls = zip(*gone, strict=True)
        connection.execute(_DELETE_PAIRS, {"ids": list(ids), "purls": list(purls)})
    if new:
        table = table_of(AffectedVersion)
        copy_rows(connection, table.name, table, new, ("vulnerability_id", "purl"))
    changed = {purl for _, purl in (*gone, *new)}
    if changed:
        outbox = table_of(OutboxEntry)
        entries = [("package_version", purl) for purl in sorted(changed)]
        copy_rows(connection, outbox.name, outbox, entries, ("kind", "key"))
    return changed
