"""State of crawls: projects on indexes, watched packages, and the queue of releases to read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, not_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from graph.record.packages import refresh_revisions
from graph.record.postgresql_helpers import current_time
from graph.tables import IndexProject, PackageEvent, PackageRow, QueuedRelease, WatchedPackage
from model.packages.project_pages import ProjectState, ProjectStatus


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """The last answer of an index about a project; ``page_digest`` is ``None`` without a page."""

    name: str
    state: str
    page_digest: str | None = None
    listed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queued release, whose metadata must still be read."""

    version: str
    attempts: int = 0
    retry_at: datetime | None = None
    given_up: bool = False

    def is_due(self, now: datetime) -> bool:
        """Whether the release may be read now."""
        return not self.given_up and (self.retry_at is None or self.retry_at <= now)


@dataclass(frozen=True, slots=True)
class FailedRead:
    """A failed attempt to read the metadata of a release.

    :param pause: time until the next attempt; ``None`` to give up
    """

    name: str
    version: str
    problem: str
    message: str
    attempts: int
    pause: timedelta | None


@dataclass(frozen=True, slots=True)
class IndexEvent:
    """A change on an index."""

    kind: str
    index: str
    name: str
    version: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WatchedProject:
    """A watched package with the bounds of its crawls."""

    index: str
    name: str
    max_versions: int | None = None
    newer_than: datetime | None = None
    extras: tuple[str, ...] = ()
    prereleases: bool = False


def project_row(connection: Connection, index: str, name: str) -> ProjectRow | None:
    """The last answer of an index about a project; ``None`` if it was never requested."""
    row = connection.execute(
        select(IndexProject).where(IndexProject.index_name == index, IndexProject.name == name)
    ).one_or_none()
    if row is None:
        return None
    return ProjectRow(row.name, row.state, row.page_digest, frozenset(row.listed))


def known_projects(connection: Connection) -> dict[str, list[str]]:
    """Names of the requested projects, by index.

    Projects that never existed on an index are left out, because their names may be misspelt. If a
    release requires such a project, the index is queried for it again.
    """
    never_existed = and_(IndexProject.state == "missing", IndexProject.page_digest.is_(None))
    rows = connection.execute(
        select(IndexProject.index_name, IndexProject.name)
        .where(not_(never_existed))
        .order_by(IndexProject.index_name, IndexProject.name)
    )
    projects: dict[str, list[str]] = {}
    for index, name in rows:
        projects.setdefault(index, []).append(name)
    return projects


def is_following(connection: Connection) -> bool:
    """Whether any package was ever requested from an index."""
    return connection.scalar(select(IndexProject.name).limit(1)) is not None


def unfollowed_packages(connection: Connection) -> int:
    """Number of packages with releases that no index was asked for, such as imported ones."""
    requested = exists().where(IndexProject.name == PackageRow.name)
    packages = select(func.count()).where(PackageRow.revision.is_not(None), not_(requested))
    return connection.scalar(packages) or 0


def record_page(
    connection: Connection,
    index: str,
    name: str,
    page_digest: str,
    listed: Collection[str],
    as_of: datetime,
    status: ProjectStatus,
) -> None:
    """Store the versions that an index lists for a project, and the state of the project."""
    values = {
        "status": status.state.value,
        "status_reason": status.reason,
        "state": "known",
        "problem": None,
        "message": None,
        "page_digest": page_digest,
        "listed": sorted(listed),
        "as_of": min(as_of, current_time(connection)),
    }
    before = _inactive_projects(connection, index, [name])
    _record_project(connection, index, name, values)
    if before or status.state is not ProjectState.ACTIVE:
        refresh_revisions(connection, [name])


def record_new_pages(
    connection: Connection,
    index: str,
    pages: Sequence[tuple[str, Sequence[str], datetime, ProjectStatus]],
) -> None:
    """Store pages without a digest for projects that have no page in the record.

    The state of each project is stored, unless the record has a later page for it.

    :param pages: name of the project, versions with files, time and state of each page
    """
    if not pages:
        return
    latest = current_time(connection)
    rows = [
        {
            "index_name": index, "name": name, "state": "known", "listed": listed,
            "as_of": min(as_of, latest), "asked_at": min(as_of, latest),
            "status": status.state.value, "status_reason": status.reason,
        }
        for name, listed, as_of, status in sorted(pages, key=lambda page: page[0])
    ]  # fmt: skip
    names = [name for name, *_ in pages]
    inactive = _inactive_projects(connection, index, names)
    statement = insert(IndexProject)
    new, table = statement.excluded, IndexProject
    later = statement.on_conflict_do_update(
        index_elements=["index_name", "name"],
        set_={"status": new.status, "status_reason": new.status_reason},
        where=func.coalesce(table.as_of <= new.as_of, True)
        & tuple_(table.status, table.status_reason).is_distinct_from(
            tuple_(new.status, new.status_reason)
        ),
    )
    connection.execute(later, rows)
    inactive |= {name for name, _, _, status in pages if status.state is not ProjectState.ACTIVE}
    refresh_revisions(connection, inactive)


def _inactive_projects(connection: Connection, index: str, names: Sequence[str]) -> set[str]:
    """The projects that are known to be inactive."""
    table = IndexProject
    query = select(table.name).where(
        table.index_name == index, table.name.in_(names), table.status != ProjectState.ACTIVE.value
    )
    return set(connection.scalars(query))


def record_no_page(
    connection: Connection, index: str, name: str, state: str, problem: str, message: str
) -> ProjectRow | None:
    """Store that an index does not have a project (``missing``) or returned no page (``failed``).

    The versions of earlier pages are kept.

    :returns: the previous answer
    """
    before = project_row(connection, index, name)
    values = {"state": state, "problem": problem, "message": message}
    _record_project(connection, index, name, values)
    return before


def _record_project(
    connection: Connection, index: str, name: str, values: Mapping[str, Any]
) -> None:
    values = {**values, "asked_at": func.clock_timestamp()}
    statement = insert(IndexProject).values(index_name=index, name=name, **values)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["index_name", "name"], set_=values)
    )


def queued_releases(connection: Connection, index: str, name: str) -> dict[str, QueueRow]:
    """Queued releases of a project, by version."""
    rows = connection.execute(
        select(QueuedRelease).where(QueuedRelease.index_name == index, QueuedRelease.name == name)
    )
    return {
        row.version: QueueRow(row.version, row.attempts, row.retry_at, row.given_up_at is not None)
        for row in rows
    }


def queue_releases(connection: Connection, index: str, name: str, versions: Iterable[str]) -> None:
    """Add releases to the queue, unless they are queued already."""
    rows = [{"index_name": index, "name": name, "version": it} for it in sorted(versions)]
    if rows:
        connection.execute(insert(QueuedRelease).values(rows).on_conflict_do_nothing())


def take_off_queue(
    connection: Connection, index: str, releases: Collection[tuple[str, str]]
) -> None:
    """Remove from the queue releases that were read or do not exist any more.

    :param releases: name and version of each
    """
    if releases:
        connection.execute(
            delete(QueuedRelease).where(
                QueuedRelease.index_name == index,
                tuple_(QueuedRelease.name, QueuedRelease.version).in_(sorted(releases)),
            )
        )


def record_failures(connection: Connection, index: str, failures: Iterable[FailedRead]) -> None:
    """Store failed attempts, each with the time of the next attempt."""
    for failure in failures:
        connection.execute(
            update(QueuedRelease)
            .where(
                QueuedRelease.index_name == index,
                QueuedRelease.name == failure.name,
                QueuedRelease.version == failure.version,
            )
            .values(
                attempts=failure.attempts,
                problem=failure.problem,
                message=failure.message,
                retry_at=QueuedRelease.retry_at
                if failure.pause is None
                else func.clock_timestamp() + failure.pause,
                given_up_at=func.clock_timestamp() if failure.pause is None else None,
            )
        )


def retry_all(connection: Connection, index: str) -> int:
    """Mark all queued releases with a failed attempt as due now; return how many there are."""
    changed = connection.execute(
        update(QueuedRelease)
        .where(QueuedRelease.index_name == index, QueuedRelease.attempts > 0)
        .values(attempts=0, retry_at=func.now(), given_up_at=None)
    )
    return changed.rowcount


def add_events(connection: Connection, events: Iterable[IndexEvent]) -> None:
    """Store changes on indexes."""
    rows = [
        {
            "kind": event.kind,
            "index_name": event.index,
            "name": event.name,
            "version": event.version,
            "detail": dict(event.detail),
        }
        for event in events
    ]
    if rows:
        connection.execute(insert(PackageEvent).values(rows))


def watch(connection: Connection, packages: Iterable[WatchedProject]) -> None:
    """Watch packages; new bounds replace the bounds of packages that are watched already."""
    for package in packages:
        values = {
            "max_versions": package.max_versions,
            "newer_than": package.newer_than,
            "extras": list(package.extras),
            "prereleases": package.prereleases,
        }
        statement = insert(WatchedPackage).values(
            index_name=package.index, name=package.name, **values
        )
        connection.execute(
            statement.on_conflict_do_update(index_elements=["index_name", "name"], set_=values)
        )


def unwatch(connection: Connection, index: str, names: Collection[str]) -> set[str]:
    """Stop watching packages; return the names that were watched."""
    return set(
        connection.scalars(
            delete(WatchedPackage)
            .where(WatchedPackage.index_name == index, WatchedPackage.name.in_(names))
            .returning(WatchedPackage.name)
        )
    )


def watched_packages(connection: Connection) -> list[WatchedProject]:
    """The watched packages, by index and name."""
    rows = connection.execute(
        select(WatchedPackage).order_by(WatchedPackage.index_name, WatchedPackage.name)
    )
    return [
        WatchedProject(
            row.index_name, row.name, row.max_versions, row.newer_than, tuple(row.extras),
            row.prereleases,
        )
        for row in rows
    ]  # fmt: skip
