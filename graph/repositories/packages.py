"""Packages: their names, and the revision that changes when an answer about them could."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, text

from graph.repositories.affected import match_versions
from graph.repositories.bulk import copy_rows, insert_new
from graph.tables import OutboxEntry, PackageRow, PackageVersionRow, table_of

#: Taken before the versions are read, so that two writers of one package do not each miss
#: what the other adds; in name order, so that they never deadlock.
_LOCK = text(
    'SELECT name FROM packages WHERE name = ANY(:names) ORDER BY name COLLATE "C" FOR NO KEY UPDATE'
)

#: A digest of digests: each version's facts, and what affects it as far as answers tell it.
_REFRESH = text(
    """
    WITH harm AS (
        SELECT purl, string_agg(
            concat_ws(' ', vulnerability_id, severity, score), ',' ORDER BY vulnerability_id
        ) AS known
        FROM package_versions
        JOIN affected_versions USING (purl) JOIN vulnerabilities USING (vulnerability_id)
        WHERE name = ANY(:names)
        GROUP BY purl
    ), latest AS (
        SELECT name, 'sha256:' || encode(
            sha256(convert_to(string_agg(
                concat_ws(' ', purl, coalesce(facts, state), known), E'\\n'
                ORDER BY purl COLLATE "C"
            ), 'UTF8')), 'hex'
        ) AS revision
        FROM package_versions LEFT JOIN harm USING (purl)
        WHERE name = ANY(:names)
        GROUP BY name
    )
    UPDATE packages SET revision = latest.revision FROM latest
    WHERE packages.name = latest.name AND packages.revision IS DISTINCT FROM latest.revision
    RETURNING packages.name
    """
)


def add_packages(connection: Connection, documents: Mapping[str, str]) -> list[str]:
    """Insert the packages that are not there yet; the caller writes their outbox entries.

    :param documents: by the name of a package, the document that names it
    :returns: the names that were new
    """
    return insert_new(
        connection, PackageRow, list(documents.items()), ("name", "document_id"), "name"
    )


def add_unread_versions(
    connection: Connection, versions: Iterable[tuple[str, str, str, str, str]]
) -> set[str]:
    """Insert versions that something names and nobody has read, unless they are there.

    All that belongs to it is done: packages, what affects them, revisions, outbox entries.

    :param versions: package URL, name, version, index and the document that names it
    :returns: the package URLs that were new
    """
    known = {version[0]: version for version in versions}
    new = insert_new(
        connection, PackageVersionRow, list(known.values()),
        ("purl", "name", "version", "index_name", "document_id"), "purl",
    )  # fmt: skip
    if not new:
        return set()
    fresh = [known[purl] for purl in new]
    packages = add_packages(connection, {name: document for _, name, _, _, document in fresh})
    finish_versions(connection, set(packages), new, {name for _, name, *_ in fresh})
    return set(new)


def finish_versions(
    connection: Connection,
    packages: set[str],
    new: Iterable[str],
    touched: Iterable[str],
    changed: Iterable[str] = (),
) -> None:
    """What follows the writing of versions: what affects them, revisions, outbox entries.

    :param packages: names that were new
    :param new: package URLs of new versions; ``changed`` of those that were there
    :param touched: names of the packages of both
    """
    matched = match_versions(connection, list(new))
    revised = refresh_revisions(connection, touched)
    add_entries(
        connection, {"package": packages - revised, "package_version": {*new, *changed} - matched}
    )


def refresh_revisions(connection: Connection, names: Iterable[str]) -> set[str]:
    """Bring the revisions of packages up to date, with outbox entries for those that changed.

    To be called after the last change of versions, or of what affects them, in the same
    transaction. A package's row stays locked until its end.

    :returns: names of the packages whose revision changed
    """
    wanted = sorted(set(names))
    if not wanted:
        return set()
    connection.execute(_LOCK, {"names": wanted})
    changed = set(connection.scalars(_REFRESH, {"names": wanted}))
    add_entries(connection, {"package": changed})
    return changed


def add_entries(connection: Connection, keys: Mapping[str, Iterable[str]]) -> None:
    """Write outbox entries: keys by kind, in the order of the kinds."""
    rows = [(kind, key) for kind, some in keys.items() for key in sorted(some)]
    if rows:
        outbox = table_of(OutboxEntry)
        copy_rows(connection, outbox.name, outbox, rows, ("kind", "key"))
