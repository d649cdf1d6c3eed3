"""Package indexes: their status, their answers to requests, and changes on them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from sqlalchemy import Connection, and_, case, exists, func, select

from graph.record.postgresql_helpers import columns_for, matching
from graph.tables import (
    IndexProject,
    PackageEvent,
    PackageVersionRow,
    QueuedRelease,
    WatchedPackage,
)
from model.declared_fields import Field
from model.packages.project_pages import ProjectState
from model.text import suggestion

#: How many alarms are listed, newest first; all alarms are counted.
_LISTED = 50
#: Events that are alarms: a file got another hash, a page lists two hashes for one file, or a
#: project lost all its files.
_ALARM_KINDS = ("changed_hash", "conflicting_hash", "emptied")


@dataclass(slots=True)
class IndexStatus:
    """Status of an index in the record.

    :param releases: number of releases by state
    :param problems: number of unsolved releases by problem
    :param projects: number of projects by state of the last answer
    :param oldest: earliest of the times at which the index last answered about each project
    :param newest: time of the newest answer
    :param queue: number of unread releases that are ``due``, ``waiting`` for a retry, ``given_up``
    :param given_up: name, version, problem and message of each
    :param alarms: files whose hash changed or is ambiguous, and projects that lost all their files
    :param events: number of recent events by kind
    """

    index: str
    releases: dict[str, int] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    projects: dict[str, int] = field(default_factory=dict)
    oldest: datetime | None = None
    newest: datetime | None = None
    missing: list[str] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    queue: dict[str, int] = field(default_factory=dict)
    given_up: list[dict[str, Any]] = field(default_factory=list)
    alarm_count: int = 0
    alarms: list[dict[str, Any]] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    watched: int = 0


def index_status(connection: Connection, days: int) -> list[IndexStatus]:
    """The status of all known indexes, by name.

    :param days: period of the counted events
    """
    statuses: dict[str, IndexStatus] = {}

    def of(index: str) -> IndexStatus:
        return statuses.setdefault(index, IndexStatus(index))

    for index, state, count, oldest, newest in connection.execute(_RELEASES):
        of(index).releases[state] = count
        _widen(of(index), oldest, newest)
    for index, problem, count in connection.execute(_PROBLEMS):
        of(index).problems[str(problem)] = count
    _add_projects(connection, of)
    for index, due, waiting, given_up in connection.execute(_QUEUE):
        of(index).queue = {"due": due, "waiting": waiting, "given_up": given_up}
    for row in connection.execute(_GIVEN_UP):
        of(row.index_name).given_up.append({it: getattr(row, it) for it in _OF_QUEUED})
    recent = PackageEvent.occurred_at > func.now() - timedelta(days=days)
    for index, kind, count in connection.execute(_EVENTS.where(recent)):
        of(index).events[kind] = count
    for index, count in connection.execute(_ALARM_COUNTS):
        of(index).alarm_count = count
    for row in connection.execute(_ALARMS):
        of(row.index_name).alarms.append(
            {
                "kind": row.kind, "name": row.name, "version": row.version,
                "at": row.occurred_at, **row.detail,
            }
        )  # fmt: skip
    for index, count in connection.execute(_WATCHED):
        of(index).watched = count
    return [statuses[index] for index in sorted(statuses)]


def _add_projects(connection: Connection, of: Callable[[str], IndexStatus]) -> None:
    """Count projects; replace the times of an index's releases by the times of its pages.

    If the last request for a project failed, the time of its last page is used.
    """
    with_pages: set[str] = set()
    for index, state, count, oldest, newest in connection.execute(_PROJECTS):
        status = of(index)
        status.projects[state] = count
        if state != "missing" and newest is not None:
            if index not in with_pages:
                status.oldest = status.newest = None
            with_pages.add(index)
            _widen(status, oldest, newest)
    for row in connection.execute(_PROBLEM_PROJECTS):
        if row.state == "missing":
            of(row.index_name).missing.append(row.name)
        else:
            of(row.index_name).failed.append(
                {"name": row.name, "problem": row.problem, "message": row.message}
            )


def _widen(status: IndexStatus, oldest: datetime | None, newest: datetime | None) -> None:
    moments = [it for it in (status.oldest, status.newest, oldest, newest) if it is not None]
    if moments:
        status.oldest, status.newest = min(moments), max(moments)


_RELEASES = select(
    PackageVersionRow.index_name,
    PackageVersionRow.state,
    func.count(),
    func.min(PackageVersionRow.as_of),
    func.max(PackageVersionRow.as_of),
).group_by(PackageVersionRow.index_name, PackageVersionRow.state)

_PROBLEMS = (
    select(PackageVersionRow.index_name, PackageVersionRow.problem, func.count())
    .where(PackageVersionRow.problem.is_not(None))
    .group_by(PackageVersionRow.index_name, PackageVersionRow.problem)
)

_PROJECTS = select(
    IndexProject.index_name,
    IndexProject.state,
    func.count(),
    func.min(IndexProject.as_of),
    func.max(IndexProject.as_of),
).group_by(IndexProject.index_name, IndexProject.state)

_PROBLEM_PROJECTS = (
    select(
        IndexProject.index_name,
        IndexProject.name,
        IndexProject.state,
        IndexProject.problem,
        IndexProject.message,
    )
    .where(IndexProject.state != "known")
    .order_by(IndexProject.index_name, IndexProject.name)
)

_IS_GIVEN_UP = QueuedRelease.given_up_at.is_not(None)
_IS_DUE = and_(~_IS_GIVEN_UP, QueuedRelease.retry_at <= func.now())
_IS_WAITING = and_(~_IS_GIVEN_UP, QueuedRelease.retry_at > func.now())

_QUEUE = select(
    QueuedRelease.index_name,
    func.count(case((_IS_DUE, 1))),
    func.count(case((_IS_WAITING, 1))),
    func.count(case((_IS_GIVEN_UP, 1))),
).group_by(QueuedRelease.index_name)

#: What is shown of a release that was given up.
_OF_QUEUED = ("name", "version", "problem", "message", "attempts")
_GIVEN_UP = (
    select(QueuedRelease.index_name, *(getattr(QueuedRelease, it) for it in _OF_QUEUED))
    .where(_IS_GIVEN_UP)
    .order_by(QueuedRelease.name, QueuedRelease.version)
)

_EVENTS = select(PackageEvent.index_name, PackageEvent.kind, func.count()).group_by(
    PackageEvent.index_name, PackageEvent.kind
)

_ALARM_COUNTS = (
    select(PackageEvent.index_name, func.count())
    .where(PackageEvent.kind.in_(_ALARM_KINDS))
    .group_by(PackageEvent.index_name)
)

_ALARMS = (
    select(
        PackageEvent.index_name,
        PackageEvent.kind,
        PackageEvent.name,
        PackageEvent.version,
        PackageEvent.detail,
        PackageEvent.occurred_at,
    )
    .where(PackageEvent.kind.in_(_ALARM_KINDS))
    .order_by(PackageEvent.event_id.desc())
    .limit(_LISTED)
)

_WATCHED = select(WatchedPackage.index_name, func.count()).group_by(WatchedPackage.index_name)


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """The last answer of an index to a request for a package."""

    index: Annotated[str, Field("Name of the index.", "pypi")]
    state: Annotated[
        str,
        Field(
            "Whether the index has the package; `failed` without a readable page.",
            values=("known", "missing", "failed"),
        ),
    ]
    as_of: Annotated[
        datetime | None, Field("When the index last answered; null if it never did.")
    ] = None
    problem: Annotated[str | None, Field("Why the request failed, as a code.")] = None
    message: Annotated[str | None, Field("Why the request failed, for people.")] = None
    status: Annotated[
        str | None,
        Field("State of the project on the index (PEP 792); null if unknown.", values=ProjectState),
    ] = None
    status_reason: Annotated[str | None, Field("Reason for that state, from the index.")] = None

    @property
    def failure(self) -> str | None:
        """The failure as text for people; ``None`` if the index did not fail."""
        return f"{self.message} [{self.problem}]" if self.problem else None


def answers_of(
    connection: Connection, names: Collection[str]
) -> dict[tuple[str, str], IndexAnswer]:
    """The last answer of each index about these packages, by index and name."""
    row = IndexProject
    query = select(row.name, *columns_for(IndexAnswer, row, index=row.index_name)).order_by(
        row.name, row.index_name
    )
    rows = connection.execute(query.where(row.name.in_(names)))
    answers = ((name, IndexAnswer(*values)) for name, *values in rows)
    return {(answer.index, name): answer for name, answer in answers}


def are_partly_read(connection: Connection, names: Collection[str]) -> bool:
    """Whether any of these packages was only partly read, by an advice instead of a crawl.

    The page of such a package has no digest (:func:`graph.record.crawls.record_new_pages`).
    """
    row = IndexProject
    partly = row.name.in_(names) & (row.state == "known") & row.page_digest.is_(None)
    return bool(connection.scalar(select(exists().where(partly))))


def without_releases(connection: Connection, names: Collection[str]) -> set[str]:
    """The given packages of which the record has no release, on any index."""
    row = PackageVersionRow
    known = connection.scalars(select(row.name).where(row.name.in_(names)).distinct())
    return set(names) - set(known)


def answers_about(connection: Connection, name: str) -> tuple[IndexAnswer, ...]:
    """The last answers about one package, in the order of the indexes."""
    return tuple(answers_of(connection, [name]).values())


#: Similarity of two names, from 0 to 1, from which one is suggested instead of the other.
_SIMILARITY = 0.75
#: Names that get a suggestion; each is compared with all known names of similar length.
_SUGGESTIONS = 5
#: Stored kinds of events.
KINDS = (
    "new_release", "removed", "yanked", "unyanked", "new_files", "changed_requirements",
    "changed_hash", "conflicting_hash", "emptied",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A change on an index; the version is empty if the change concerns a whole project."""

    event_id: Annotated[int, Field("Identifier; later events have larger ones.", 17)]
    kind: Annotated[str, Field("Kind of event.", values=KINDS)]
    index: Annotated[str, Field("Name of the index.", "pypi")]
    name: Annotated[str, Field("Name of the package.", "flask")]
    version: Annotated[
        str, Field("Version; empty if the event concerns the whole project.", "3.1.2")
    ]
    detail: Annotated[dict[str, Any], Field("Details, depending on the kind.")]
    occurred_at: Annotated[datetime, Field("When the change was noticed.")]


def browse_events(
    connection: Connection,
    *,
    package: str | None = None,
    index: str | None = None,
    kind: str | None = None,
    after: int | None = None,
    limit: int,
) -> list[RecordedEvent]:
    """Events, the newest first; ``after`` is the last identifier on the previous page."""
    row = PackageEvent
    values = {row.name: package, row.index_name: index, row.kind: kind}
    query = _RECORDED_EVENTS.where(*matching(values))
    if after is not None:
        query = query.where(row.event_id < after)
    return [RecordedEvent(*it) for it in connection.execute(query.limit(limit))]


def events_of(connection: Connection, name: str) -> list[RecordedEvent]:
    """All events of a package, the newest first."""
    rows = connection.execute(_RECORDED_EVENTS.where(PackageEvent.name == name))
    return [RecordedEvent(*row) for row in rows]


_RECORDED_EVENTS = select(
    *columns_for(RecordedEvent, PackageEvent, index=PackageEvent.index_name)
).order_by(PackageEvent.event_id.desc())


def with_suggestions(
    connection: Connection, reasons: Mapping[str, str], unknown: Collection[str]
) -> dict[str, str]:
    """Reasons by package, with the most similar known name for names that no index has.

    Only names of which an index gave a page are suggested, and only for the first few names.

    :param unknown: the names that no index has
    """
    row, suggested = IndexProject, dict(reasons)
    for name in sorted(reasons.keys() & unknown)[:_SUGGESTIONS]:
        similar_length = func.length(row.name).between(len(name) - 2, len(name) + 2)
        query = select(row.name).where(row.state == "known", similar_length).distinct()
        known = sorted(connection.scalars(query))
        # Another index may have this very name; then no other one is meant.
        if name not in known:
            suggested[name] += suggestion(name, known, _SIMILARITY)
    return suggested
