"""Stores releases from crawls, dumps and solver documents; entry point :func:`add_releases`."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from common.settings import Settings
from graph.record.bulk import copy_rows, update_rows
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.events import EventKind, record_event
from graph.record.known_releases import StoredReleases, stored_releases
from graph.record.packages import add_package_rows, finish_versions
from graph.record.postgresql_helpers import current_time
from graph.record.release_merging import (
    Findings,
    HashAlarm,
    KnownRelease,
    first_known,
    merge_delivery,
    rank_of,
)
from graph.record.vulnerabilities import share_advisories
from graph.tables import (
    Base,
    PackageEvent,
    PackageVersionRow,
    ReleaseFileRow,
    RequirementRow,
    table_of,
)
from model.measurements.inspection import OWN_COLLECTOR
from model.packages.releases import SOLVER, Release, ReleaseFile, Requirement

logger = logging.getLogger(__name__)

#: Columns of a release that have the name of an attribute of :class:`KnownRelease`.
_SAME_COLUMNS = (
    "state", "problem", "problem_message", "requires_python", "extras", "license", "yanked",
    "yanked_reason", "uploaded_at", "metadata_source", "metadata_file", "wheels", "has_sdist",
    "files_complete", "facts", "as_of", "ranks",
)  # fmt: skip
_FACT_COLUMNS = (*_SAME_COLUMNS, "release_document_id", "imports", "imports_source")
_OF_REQUIREMENT, _OF_FILE = (
    tuple(it.name for it in fields(kind)) for kind in (Requirement, ReleaseFile)
)
_REQUIREMENT_COLUMNS = ("purl", "position", *_OF_REQUIREMENT)
_FILE_COLUMNS = ("purl", *_OF_FILE, "listed", "rank")
_same_values, _requirement_values, _file_values = (
    attrgetter(*names) for names in (_SAME_COLUMNS, _OF_REQUIREMENT, _OF_FILE)
)

_UNIQUE_VIOLATION = "23505"
#: Collector of documents with the results of solvers.
_SOLVER = "thoth-solver"

#: Alarms that are known already; they are not stored as events again.
_RAISED = text(
    "SELECT index_name, name, version, detail FROM package_events"
    " WHERE kind = 'changed_hash' AND name = ANY(:names)"
)
#: The primary key finds the newest events, of which a large index has many thousands each week.
_RECENT_ALARMS = text(
    """
    SELECT count(*)
    FROM (
        SELECT kind, occurred_at FROM package_events ORDER BY event_id DESC LIMIT 100000
    ) AS newest
    WHERE kind = 'changed_hash' AND occurred_at > now() - interval '7 days'
    """
)


@dataclass(frozen=True, slots=True)
class ReleaseDelivery:
    """A release with its source and, if known, the time at which the index answered.

    A time that PostgreSQL's clock has not reached is stored as its current time. Otherwise, a
    machine whose clock is ahead would hide all later changes on the index until that time.
    """

    release: Release
    source: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class ReleasesAdded:
    """Result of a batch: package URLs of new and changed releases, and alarms about hashes."""

    new: set[str]
    changed: set[str]
    unchanged: int
    alarms: list[HashAlarm]


def add_releases(
    connection: Connection, settings: Settings, deliveries: Sequence[ReleaseDelivery]
) -> ReleasesAdded:
    """Store the new parts of ``deliveries``; the caller owns the transaction.

    The number of statements does not depend on the number of deliveries. Call this only once in a
    transaction, because rows are locked in an order that avoids deadlocks.

    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    share_advisories(connection)
    now = current_time(connection)
    dated = [
        replace(it, as_of=now) if it.as_of is not None and it.as_of > now else it
        for it in deliveries
    ]
    ordered = sorted(dated, key=lambda it: rank_of(it.release, it.as_of))
    documents = (
        DeliveredDocument(
            delivery.release.document_id,
            "release",
            "release-1",
            delivery.source,
            delivery.release.body,
            _SOLVER if delivery.release.metadata_source == SOLVER else OWN_COLLECTOR,
        )
        for delivery in ordered
    )
    add_documents(connection, settings, documents)
    latest, new, changed, findings = _add_versions(connection, ordered)
    findings.alarms = list(dict.fromkeys(findings.alarms))
    _add_events(connection, findings)
    _project(connection, new, changed)
    unchanged = len(latest) - len(new) - len(changed)
    for alarm in findings.alarms:
        logger.warning(
            "file_hash_changed",
            extra={
                "purl": alarm.purl, "file": alarm.filename,
                "known": alarm.known, "offered": alarm.offered,
            },
        )  # fmt: skip
    return ReleasesAdded(set(new), set(changed), unchanged, findings.alarms)


Versions = dict[str, KnownRelease]


def _add_versions(
    connection: Connection, deliveries: Sequence[ReleaseDelivery]
) -> tuple[Versions, Versions, Versions, Findings]:
    """Merge deliveries into stored releases; return all releases, new ones and changed ones.

    Existing rows are locked first, then new rows are inserted, both in the order of package URLs.
    If another writer inserts one of the new rows first, all locks are released and the merge starts
    again, because locking that row now could lead to a deadlock.
    """
    while True:
        attempt = connection.begin_nested()
        stored = stored_releases(connection, [it.release for it in deliveries])
        latest, findings = _merge(stored, deliveries)
        new = {purl: it for purl, it in latest.items() if purl not in stored.locked}
        try:
            rows = [
                (it.purl, it.name, it.version, it.index, it.document_id, *_facts(it))
                for _, it in sorted(new.items())
            ]
            columns = ("purl", "name", "version", "index_name", "document_id", *_FACT_COLUMNS)
            _copy(connection, PackageVersionRow, rows, columns)
        except IntegrityError as error:
            attempt.rollback()
            if getattr(error.orig, "pgcode", None) != _UNIQUE_VIOLATION:
                raise
            continue
        attempt.commit()
        break
    changed = _update_versions(connection, stored.locked, latest)
    _copy_requirements(connection, new)
    _copy_files(connection, new)
    return latest, new, changed, findings


def _merge(
    stored: StoredReleases, deliveries: Iterable[ReleaseDelivery]
) -> tuple[Versions, Findings]:
    """The releases after merging ``deliveries``, by package URL."""
    findings = Findings()
    latest = dict(stored.locked)
    for delivery in deliveries:
        release = stored.as_known(delivery.release)
        known = latest.get(release.purl)
        latest[release.purl] = (
            first_known(release, delivery.as_of, findings)
            if known is None
            else merge_delivery(known, release, delivery.as_of, findings)
        )
    return latest, findings


def _facts(known: KnownRelease) -> tuple[Any, ...]:
    names = known.imports
    return *_same_values(known), known.document_id, names and names.names, names and names.source


def _update_versions(connection: Connection, stored: Versions, latest: Versions) -> Versions:
    """Overwrite rows that differ; return the releases with changes beyond times and ranks."""
    differing = [
        (before, latest[purl]) for purl, before in stored.items() if before != latest[purl]
    ]
    update_rows(
        connection,
        PackageVersionRow,
        [(it.purl, *_facts(it)) for _, it in differing],
        ("purl", *_FACT_COLUMNS),
    )
    requirements: Versions = {b.purl: b for a, b in differing if a.requirements != b.requirements}
    files: Versions = {b.purl: b for a, b in differing if _files_of(a) != _files_of(b)}
    _delete(connection, "requirements", requirements)
    _delete(connection, "release_files", files)
    _copy_requirements(connection, requirements)
    _copy_files(connection, files)
    return {after.purl: after for before, after in differing if not after.same_content(before)}


def _files_of(known: KnownRelease) -> tuple[Any, ...]:
    return known.files, known.gone, known.added


def restore_releases(connection: Connection, releases: Versions) -> None:
    """Overwrite all rows of ``releases``, which must exist; see :func:`release_rows`."""
    share_advisories(connection)
    rows = [(it.purl, it.name, it.version, it.index, *_facts(it)) for it in releases.values()]
    update_rows(
        connection, PackageVersionRow, rows,
        ("purl", "name", "version", "index_name", *_FACT_COLUMNS),
    )  # fmt: skip
    for table in ("requirements", "release_files"):
        _delete(connection, table, releases)
    _copy_requirements(connection, releases)
    _copy_files(connection, releases)
    _project(connection, {}, releases)


def release_rows(known: KnownRelease) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row of a release, by column; without ``ranks``, which no single document determines.

    Rows of an earlier version have fewer ranks, so these could not be compared with a new row.
    """
    facts = dict(zip(_FACT_COLUMNS, _facts(known), strict=True))
    del facts["ranks"]
    yield PackageVersionRow, {
        "purl": known.purl, "name": known.name, "version": known.version,
        "index_name": known.index, **facts,
    }  # fmt: skip
    for row in _requirement_rows({known.purl: known}):
        yield RequirementRow, dict(zip(_REQUIREMENT_COLUMNS, row, strict=True))
    for row in _file_rows({known.purl: known}):
        yield ReleaseFileRow, dict(zip(_FILE_COLUMNS, row, strict=True))


def _delete(connection: Connection, table: str, versions: Versions) -> None:
    if versions:
        statement = text(f"DELETE FROM {table} WHERE purl = ANY(:purls)")
        connection.execute(statement, {"purls": list(versions)})


def _copy_requirements(connection: Connection, versions: Versions) -> None:
    _copy(connection, RequirementRow, _requirement_rows(versions), _REQUIREMENT_COLUMNS)


def _requirement_rows(versions: Versions) -> Iterator[tuple[Any, ...]]:
    return (
        (purl, position, *_requirement_values(it))
        for purl, known in versions.items()
        for position, it in enumerate(known.requirements)
    )


def _copy_files(connection: Connection, versions: Versions) -> None:
    _copy(connection, ReleaseFileRow, _file_rows(versions), _FILE_COLUMNS)


def _file_rows(versions: Versions) -> Iterator[tuple[Any, ...]]:
    return (
        (purl, *_file_values(file), listed, known.added.get(file.filename))
        for purl, known in versions.items()
        for listed, files in ((True, known.files), (False, known.gone))
        for file in files.values()
    )


def _copy(
    connection: Connection, model: type[Base], rows: Iterable[Sequence[Any]], columns: Sequence[str]
) -> None:
    table = table_of(model)
    copy_rows(connection, table.name, table, rows, columns)


def recent_hash_alarms(connection: Connection) -> int:
    """Number of alarms of the last 7 days, among the newest 100,000 events, for monitoring."""
    return connection.scalar(_RECENT_ALARMS) or 0


def _add_events(connection: Connection, findings: Findings) -> None:
    rows = [(kind, it.index, it.name, it.version, detail) for kind, it, detail in findings.events]
    new = _without_known_alarms(connection, rows)
    _copy(connection, PackageEvent, new, ("kind", "index_name", "name", "version", "detail"))
    changed: dict[str, list[dict[str, str]]] = {}
    for kind, index, name, version, detail in new:
        if kind == "changed_hash":
            changed.setdefault(index, []).append({"name": name, "version": version, **detail})
    for index, files in changed.items():
        record_event(connection, EventKind.HASH_CHANGED, index, {"files": files})


def _without_known_alarms(
    connection: Connection, rows: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    names = sorted({row[2] for row in rows if row[0] == "changed_hash"})
    if not names:
        return rows
    raised = {_alarm(*row) for row in connection.execute(_RAISED, {"names": names})}
    new = []
    for kind, *alarm in rows:
        if kind == "changed_hash":
            if _alarm(*alarm) in raised:
                continue
            raised.add(_alarm(*alarm))
        new.append((kind, *alarm))
    return new


def _alarm(index: str, name: str, version: str, detail: Mapping[str, str]) -> tuple[Any, ...]:
    return index, name, version, *sorted(detail.items())


def _project(connection: Connection, new: Versions, changed: Versions) -> None:
    """Add the packages that releases name, refresh revisions, and write outbox entries."""
    documents: dict[str, str] = {}
    for known in (*new.values(), *changed.values()):
        for name in (known.name, *(it.name for it in known.requirements if it.name)):
            documents.setdefault(name, str(known.document_id))
    packages = set(add_package_rows(connection, documents))
    touched = {known.name for known in (*new.values(), *changed.values())}
    finish_versions(connection, packages, new, touched, changed)
