"""Watches: the projects and packages whose advice the nightly loop keeps up to date."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from graph.record.events import EventKind, record_event
from graph.record.loop import LoopState
from graph.tables import LoopBatchRow, WatchRow
from model.json_documents import digest

#: How long a request of the service counts, in days.
WEIGHED_DAYS = 30


class WatchKind(StrEnum):
    """Kinds of watched objects; stored values are never renamed."""

    PROJECT = "project"
    PACKAGE = "package"


class WatchSource(StrEnum):
    """Who watches; stored values are never renamed."""

    PERSON = "person"
    #: Clients of the service asked for advice on the project.
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class AdviceWatch:
    """A watched project or package.

    :param request: the request for advice, as JSON values
    :param weight: number of requests of the last :data:`WEIGHED_DAYS` days; 1 if a person watches
    :param closure: names of the packages that an answer can contain
    :param measured_jobs: finished jobs of the measurement in progress; ``planned_jobs`` has all
    :param versions: versions of the last advice by name; ``None`` before the first advice
    """

    watch_id: str
    kind: WatchKind
    name: str
    source: WatchSource
    weight: float
    enabled: bool
    request: Mapping[str, Any]
    closure: tuple[str, ...]
    state: LoopState
    reason: str | None
    measured_jobs: int
    planned_jobs: int
    advice_id: str | None
    versions: Mapping[str, str] | None
    added_at: datetime
    state_at: datetime


@dataclass(frozen=True, slots=True)
class NewWatch:
    """A project or package to watch."""

    kind: WatchKind
    name: str
    request: Mapping[str, Any]
    source: WatchSource = WatchSource.PERSON
    weight: float = 1.0

    @property
    def watch_id(self) -> str:
        """Digest of kind and name; for a project of the service, of its request."""
        if self.source is WatchSource.SERVICE:
            return digest({"request": dict(self.request)})
        return digest({"kind": self.kind.value, "name": self.name})


@dataclass(frozen=True, slots=True)
class WeighedRequest:
    """A request for advice that clients of the service sent.

    :param document_id: the request
    :param requests: how often it was sent within :data:`WEIGHED_DAYS` days
    """

    document_id: str
    requests: int


def add_watch(connection: Connection, new: NewWatch) -> bool:
    """Watch a project or package; a watch that exists gets the new request and weight.

    :returns: whether it was not watched before
    """
    values = {"name": new.name, "weight": new.weight, "request": dict(new.request)}
    if new.source is WatchSource.PERSON:  # a person may switch a watch off, and on again
        values["enabled"] = True
    statement = insert(WatchRow).values(
        watch_id=new.watch_id, kind=new.kind.value, source=new.source.value,
        state=LoopState.SEEN.value, **values,
    )  # fmt: skip
    known = select(WatchRow.watch_id).where(WatchRow.watch_id == new.watch_id)
    before = connection.scalar(known.with_for_update())
    connection.execute(statement.on_conflict_do_update(index_elements=["watch_id"], set_=values))
    return before is None


def remove_watches(connection: Connection, watch_ids: Collection[str]) -> list[str]:
    """Stop watching; a watch with measurements, or of the service, is only switched off.

    Otherwise the next night would add a project of the service again.

    :returns: identifiers of the watches that were enabled, sorted
    """
    wanted = WatchRow.watch_id.in_(watch_ids)
    query = select(WatchRow.watch_id).where(wanted, WatchRow.enabled).order_by(WatchRow.watch_id)
    removed = list(connection.scalars(query))
    connection.execute(update(WatchRow).where(wanted).values(enabled=False))
    measured = select(LoopBatchRow.watch_id)
    person = WatchRow.source == WatchSource.PERSON.value
    connection.execute(delete(WatchRow).where(wanted, person, WatchRow.watch_id.not_in(measured)))
    return removed


def watches(connection: Connection, *, enabled: bool = True) -> list[AdviceWatch]:
    """The watches, heaviest first.

    :param enabled: leave out watches that are switched off
    """
    query = select(*_COLUMNS).order_by(WatchRow.weight.desc(), WatchRow.added_at, WatchRow.watch_id)
    if enabled:
        query = query.where(WatchRow.enabled)
    return [_watch(row) for row in connection.execute(query)]


def watch_of(connection: Connection, watch_id: str) -> AdviceWatch | None:
    """A watch by its identifier, or ``None``."""
    row = connection.execute(select(*_COLUMNS).where(WatchRow.watch_id == watch_id)).one_or_none()
    return None if row is None else _watch(row)


def watched_names(connection: Connection) -> set[str]:
    """Names of the packages that an answer to any enabled watch can contain."""
    return set(connection.scalars(select(func.unnest(WatchRow.closure)).where(WatchRow.enabled)))


def set_closure(connection: Connection, watch_id: str, names: Collection[str]) -> None:
    """Store the packages that an answer can contain."""
    values = {"closure": sorted(names)}
    connection.execute(update(WatchRow).where(WatchRow.watch_id == watch_id).values(values))


def set_watch_state(
    connection: Connection, watch_id: str, state: LoopState, reason: str | None = None,
    **values: Any,
) -> None:  # fmt: skip
    """Store the state of a watch and, if anything changes, an event in the same transaction.

    :param values: further columns: ``measured_jobs``, ``planned_jobs``, ``advice_id``, ``versions``
    """
    row = WatchRow
    wanted = {"state": state.value, "reason": reason, **values}
    differs = or_(*(getattr(row, name).is_distinct_from(it) for name, it in wanted.items()))
    changed = connection.execute(
        update(row)
        .where(row.watch_id == watch_id, differs)
        .values(state_at=func.clock_timestamp(), **wanted)
        .returning(row.name)
    )
    name = changed.scalar_one_or_none()
    if name is not None:
        record_event(connection, EventKind.PROJECT_STATE, name, {"watch_id": watch_id, **wanted})


_WEIGHED = text(
    """
    SELECT advice.request_document_id, count(*)
    FROM analyses JOIN advice ON advice.advice_id = analyses.analysis_id
    WHERE analyses.kind = 'adviser' AND analyses.accepted_at > now() - make_interval(days => :days)
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :most
    """
).bindparams(bindparam("days", WEIGHED_DAYS))


def requests_by_weight(connection: Connection, most: int) -> Sequence[WeighedRequest]:
    """The requests for advice that clients of the service sent most often, heaviest first."""
    return [WeighedRequest(*row) for row in connection.execute(_WEIGHED, {"most": most})]


_COLUMNS = tuple(getattr(WatchRow, it.name) for it in fields(AdviceWatch))


def _watch(row: Row[Any]) -> AdviceWatch:
    values = dict(row._mapping)
    return AdviceWatch(
        **values
        | {
            "kind": WatchKind(row.kind),
            "source": WatchSource(row.source),
            "state": LoopState(row.state),
            "closure": tuple(row.closure),
        }
    )
