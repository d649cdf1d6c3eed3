"""Packages: their rows, revisions and outbox entries, and queries for the API and commands.

The revision of a package is a digest that changes whenever advice about the package could change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion
from sqlalchemy import Connection, any_, func, select, text

from graph.record.benchmark_entries import enqueue_software_of
from graph.record.bulk import add_entries, insert_new
from graph.record.freshness import knows_advisories
from graph.record.indexes import IndexAnswer, RecordedEvent, answers_about, events_of
from graph.record.known_releases import known_releases
from graph.record.postgresql_helpers import texts
from graph.record.release_merging import KnownRelease
from graph.record.vulnerabilities import match_versions
from graph.tables import AffectedVersion, PackageRow, PackageVersionRow, VulnerabilityRow
from model.declared_fields import PACKAGE, Field
from model.packages.identity import version_order

#: Locks packages before their versions are read, so that concurrent writers of a package see each
#: other's versions. Sorted by name, to avoid deadlocks.
_LOCK = text(
    'SELECT name FROM packages WHERE name = ANY(:names) ORDER BY name COLLATE "C" FOR NO KEY UPDATE'
)

#: The revision is a digest of the facts of each version, of the vulnerabilities that affect it, and
#: of the states of the project on its indexes, unless it is active.
_REFRESH = text(
    """
    WITH affected AS (
        SELECT purl, string_agg(
            concat_ws(' ', vulnerability_id, severity, score), ',' ORDER BY vulnerability_id
        ) AS known
        FROM package_versions
        JOIN affected_versions USING (purl) JOIN vulnerabilities USING (vulnerability_id)
        WHERE name = ANY(:names)
        GROUP BY purl
    ), inactive AS (
        SELECT name, string_agg(
            concat_ws(' ', index_name, status, status_reason), E'\\n'
            ORDER BY index_name COLLATE "C"
        ) AS statuses
        FROM index_projects WHERE name = ANY(:names) AND status <> 'active'
        GROUP BY name
    ), latest AS (
        SELECT name, 'sha256:' || encode(
            sha256(convert_to(concat_ws(E'\\n', string_agg(
                concat_ws(' ', purl, coalesce(facts, state), known), E'\\n'
                ORDER BY purl COLLATE "C"
            ), min(statuses)), 'UTF8')), 'hex'
        ) AS revision
        FROM package_versions LEFT JOIN affected USING (purl) LEFT JOIN inactive USING (name)
        WHERE name = ANY(:names)
        GROUP BY name
    )
    UPDATE packages SET revision = latest.revision FROM latest
    WHERE packages.name = latest.name AND packages.revision IS DISTINCT FROM latest.revision
    RETURNING packages.name
    """
)


def add_package_rows(connection: Connection, documents: Mapping[str, str]) -> list[str]:
    """Insert new packages; the caller writes their outbox entries.

    :param documents: a document that contains the package, by package name
    :returns: names of new packages
    """
    return insert_new(
        connection, PackageRow, list(documents.items()), ("name", "document_id"), "name"
    )


def add_unread_versions(
    connection: Connection, versions: Iterable[tuple[str, str, str, str, str]]
) -> set[str]:
    """Insert new versions that a document names, but whose metadata is unknown.

    Packages, affected versions, revisions and outbox entries are updated, too.

    :param versions: package URL, name, version, index and identifier of the document
    :returns: package URLs of new versions
    """
    known = {version[0]: version for version in versions}
    new = insert_new(
        connection, PackageVersionRow, list(known.values()),
        ("purl", "name", "version", "index_name", "document_id"), "purl",
    )  # fmt: skip
    if not new:
        return set()
    fresh = [known[purl] for purl in new]
    packages = add_package_rows(connection, {name: document for _, name, _, _, document in fresh})
    finish_versions(connection, set(packages), new, {name for _, name, *_ in fresh})
    return set(new)


def finish_versions(
    connection: Connection,
    packages: set[str],
    new: Iterable[str],
    touched: Iterable[str],
    changed: Iterable[str] = (),
) -> None:
    """Update affected versions, revisions and outbox entries after versions were written.

    :param packages: names of new packages
    :param new: package URLs of new versions
    :param touched: names of the packages of all written versions
    :param changed: package URLs of changed versions
    """
    new = list(new)
    matched = match_versions(connection, new)
    revised = refresh_revisions(connection, touched)
    add_entries(
        connection, {"package": packages - revised, "package_version": {*new, *changed} - matched}
    )
    enqueue_software_of(connection, packages, new)


def refresh_revisions(connection: Connection, names: Iterable[str]) -> set[str]:
    """Update the revisions of packages, and write outbox entries for changed packages.

    Call this after the last change of versions or vulnerabilities, in the same transaction. The
    rows of the packages stay locked until the transaction ends.

    :returns: names of packages whose revision changed
    """
    wanted = sorted(set(names))
    if not wanted:
        return set()
    connection.execute(_LOCK, {"names": wanted})
    changed = set(connection.scalars(_REFRESH, {"names": wanted}))
    add_entries(connection, {"package": changed})
    return changed


@dataclass(frozen=True, slots=True)
class PackageHead:
    """A package with the fields that are shown in lists."""

    name: Annotated[str, PACKAGE]
    versions: Annotated[int, Field("Number of known versions on all indexes.", 6)] = 0
    indexes: Annotated[tuple[str, ...], Field("Indexes that serve the package.", ["pypi"])] = ()


@dataclass(frozen=True, slots=True)
class PackageDetail:
    """A package."""

    name: str
    versions: int
    indexes: tuple[str, ...]
    revision: Annotated[str | None, Field("Digest of the package data that advice depends on.")]
    document_id: Annotated[str, Field("First document that names the package.")]
    answers: tuple[IndexAnswer, ...]


def package_detail(connection: Connection, name: str) -> PackageDetail | None:
    """A package by its normalised name, or ``None``."""
    row = connection.execute(
        select(PackageRow.revision, PackageRow.document_id).where(PackageRow.name == name)
    ).one_or_none()
    if row is None:
        return None
    versions, indexes = _counts(connection, [name]).get(name, (0, ()))
    answers = answers_about(connection, name)
    return PackageDetail(name, versions, indexes, row.revision, row.document_id, answers)


def browse_packages(
    connection: Connection,
    *,
    like: str | None = None,
    index: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[PackageHead]:
    """Packages in the order of their names.

    :param like: part of the name
    :param index: an index that serves a version
    """
    query = select(PackageRow.name)
    if after is not None:
        query = query.where(PackageRow.name > after)
    if like is not None:
        query = query.where(PackageRow.name.contains(like, autoescape=True))
    if index is not None:
        version = PackageVersionRow
        served = select(version.purl).where(
            version.name == PackageRow.name, version.index_name == index
        )
        query = query.where(served.exists())
    names = connection.scalars(query.order_by(PackageRow.name).limit(limit)).all()
    counts = _counts(connection, names)
    return [PackageHead(name, *counts.get(name, (0, ()))) for name in names]


def _counts(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Number of versions and the indexes that serve them, by package."""
    version = PackageVersionRow
    rows = connection.execute(
        select(version.name, version.index_name, func.count())
        .where(version.name == any_(texts(names)))
        .group_by(version.name, version.index_name)
        .order_by(version.name, version.index_name)
    )
    counts: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name, index, count in rows:
        total, indexes = counts.get(name, (0, ()))
        counts[name] = (total + count, (*indexes, index))
    return counts


def version_count(connection: Connection, names: Iterable[str]) -> int:
    """Number of known versions of packages."""
    query = select(func.count()).where(PackageVersionRow.name == any_(texts(names)))
    return connection.scalar(query) or 0


@dataclass(frozen=True, slots=True)
class ReleaseVulnerability:
    """A vulnerability that affects a release."""

    vulnerability_id: str
    aliases: tuple[str, ...]
    severity: str | None
    score: float | None
    summary: str | None


@dataclass(frozen=True, slots=True)
class PackageView:
    """A package on all indexes.

    :param releases: newest first; equal versions in the order of the indexes
    :param vulnerabilities: by package URL of the release; ``None`` if no advisories were read
    :param events: newest first
    """

    name: str
    releases: tuple[KnownRelease, ...]
    vulnerabilities: dict[str, tuple[ReleaseVulnerability, ...]] | None
    answers: tuple[IndexAnswer, ...]
    events: tuple[RecordedEvent, ...]


def package_view(connection: Connection, name: str, specifier: str = "") -> PackageView | None:
    """A package with all releases, vulnerabilities, answers of indexes and events.

    :param specifier: limits releases and events
    :returns: ``None`` if the package is unknown
    """
    version = PackageVersionRow
    indexes = connection.scalars(
        select(version.index_name).where(version.name == name).distinct().order_by("index_name")
    ).all()
    releases = [it for index in indexes for it in known_releases(connection, index, name).values()]
    answers = answers_about(connection, name)
    if not (releases or answers):
        return None
    matching = [it for it in releases if not specifier or _is_within(it.version, specifier)]
    matching.sort(key=lambda it: version_order(it.version), reverse=True)
    vulnerabilities = None
    if knows_advisories(connection):
        vulnerabilities = _vulnerabilities(connection, [it.purl for it in matching])
    versions = {it.version for it in matching}
    events = [it for it in events_of(connection, name) if not specifier or it.version in versions]
    return PackageView(name, tuple(matching), vulnerabilities, answers, tuple(events))


def _is_within(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _vulnerabilities(
    connection: Connection, purls: list[str]
) -> dict[str, tuple[ReleaseVulnerability, ...]]:
    row, affected = VulnerabilityRow, AffectedVersion
    rows = connection.execute(
        select(
            affected.purl, row.vulnerability_id, row.aliases, row.severity, row.score, row.summary
        )
        .join(row, row.vulnerability_id == affected.vulnerability_id)
        .where(affected.purl.in_(purls))
        .order_by(affected.purl, row.vulnerability_id)
    )
    by_purl: dict[str, list[ReleaseVulnerability]] = {}
    for purl, identifier, aliases, severity, score, summary in rows:
        known = ReleaseVulnerability(identifier, tuple(aliases), severity, score, summary)
        by_purl.setdefault(purl, []).append(known)
    return {purl: tuple(vulnerabilities) for purl, vulnerabilities in by_purl.items()}
