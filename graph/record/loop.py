"""The nightly loop: nights and their steps, states of releases, and batches of jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from graph.record.events import EventKind, record_event
from graph.tables import InspectionRow, LoopBatchRow, LoopNightRow, LoopReleaseRow, LoopStepRow
from model.json_documents import digest
from model.packages.identity import package_version


class LoopState(StrEnum):
    """State of a release or of a watch; stored values are never renamed."""

    #: Noticed; nothing is known about it yet.
    SEEN = "seen"
    #: A valid stack with it exists, and its wheel was analysed.
    RESOLVABLE = "resolvable"
    #: Stacks with it wait for their measurement.
    PLANNED = "planned"
    #: Some of the jobs were measured, and no verdict is settled.
    MEASURED = "measured"
    #: A verdict on it is settled.
    SETTLED = "settled"
    #: Its event was recorded; nothing remains to be done.
    ANNOUNCED = "announced"
    #: The loop stopped working on it; the reason says why.
    GIVEN_UP = "given_up"

    @property
    def is_terminal(self) -> bool:
        """Whether the loop does nothing more about it."""
        return self in (LoopState.ANNOUNCED, LoopState.GIVEN_UP)


class ReleaseSource(StrEnum):
    """How the loop heard of a release; stored values are never renamed."""

    REFRESH = "refresh"
    #: A client of the service reported it.
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class ReleaseKey:
    """A release by index, name and version."""

    index: str
    name: str
    version: str

    @property
    def purl(self) -> str:
        """Package URL of the release."""
        return package_version(self.name, self.version, self.index).purl

    @property
    def subject(self) -> str:
        """Subject of the release's events."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class LoopRelease:
    """A release that the loop has noticed.

    :param nights: number of nights that worked on it
    :param last_night: the last of these nights
    :param looks: how often its comparison was judged
    :param look_jobs: jobs of the smaller arm at the last of these looks
    """

    key: ReleaseKey
    source: ReleaseSource
    state: LoopState
    reason: str | None
    measured_jobs: int
    planned_jobs: int
    nights: int
    last_night: int | None
    looks: int
    look_jobs: int
    seen_at: datetime
    state_at: datetime

    def nights_with(self, night: int) -> int:
        """Number of nights that worked on it, including ``night``; each counts once."""
        return self.nights + (self.last_night != night)


class NightState(StrEnum):
    """State of a night; stored values are never renamed."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Night:
    """One round of the loop."""

    night: int
    state: NightState
    reason: str | None
    began_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class NightStep:
    """A step of a night.

    :param attempts: number of failed attempts
    :param output: counts for people
    """

    step: str
    attempts: int
    finished: bool
    reason: str | None
    output: Mapping[str, Any]
    ended_at: datetime | None


class BatchState(StrEnum):
    """State of a batch; stored values are never renamed."""

    PLANNED = "planned"
    MEASURED = "measured"
    INGESTED = "ingested"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class LoopBatch:
    """Stacks that are measured together.

    :param night: the night that planned it
    :param stacks: JSON values with ``label``, ``releases`` and ``specification``; the first two
        are the reference and its repetition (A/A)
    :param blocks: jobs of each stack
    :param jobs: jobs of all stacks
    :param report: the quality report, after the end
    """

    batch_id: str
    night: int
    watch_id: str
    indicator: str
    stacks: Sequence[Mapping[str, Any]]
    blocks: int
    jobs: int
    measured_jobs: int
    state: BatchState
    reason: str | None
    attempts: int
    report: Mapping[str, Any] | None


# Nights


def open_night(connection: Connection) -> Night:
    """The open night, or a new one; the caller holds the lock of the loop."""
    row = connection.execute(select(*_NIGHT).where(LoopNightRow.open)).one_or_none()
    if row is not None:
        return _night(row)
    last = connection.scalar(select(func.coalesce(func.max(LoopNightRow.night), 0))) or 0
    values = {"night": last + 1, "state": NightState.RUNNING.value}
    return _night(connection.execute(insert(LoopNightRow).values(values).returning(*_NIGHT)).one())


def end_night(
    connection: Connection, night: int, state: NightState, reason: str | None = None
) -> None:
    """Close a night; a failed one has a reason."""
    connection.execute(
        update(LoopNightRow)
        .where(LoopNightRow.night == night)
        .values(open=False, state=state.value, reason=reason, ended_at=func.clock_timestamp())
    )


def latest_nights(connection: Connection, limit: int = 10) -> list[Night]:
    """The latest nights, newest first."""
    query = select(*_NIGHT).order_by(LoopNightRow.night.desc()).limit(limit)
    return [_night(row) for row in connection.execute(query)]


def steps_of(connection: Connection, night: int) -> list[NightStep]:
    """The steps of a night that were tried, in the order of their ends."""
    row = LoopStepRow
    query = select(*_STEP).where(row.night == night).order_by(row.ended_at, row.step)
    return [NightStep(*it) for it in connection.execute(query)]


def finish_step(connection: Connection, night: int, step: str, output: Mapping[str, Any]) -> None:
    """Store that a step is finished."""
    values = {"finished": True, "reason": None, "output": dict(output)}
    _store_step(connection, night, step, values)


def fail_step(connection: Connection, night: int, step: str, reason: str) -> int:
    """Count a failed attempt of a step; return the number of failed attempts."""
    _store_step(connection, night, step, {"reason": reason, "attempts": LoopStepRow.attempts + 1})
    query = select(LoopStepRow.attempts).where(LoopStepRow.night == night, LoopStepRow.step == step)
    return connection.scalar(query) or 0


def _store_step(connection: Connection, night: int, step: str, values: Mapping[str, Any]) -> None:
    known = insert(LoopStepRow).values(night=night, step=step)
    connection.execute(known.on_conflict_do_nothing())
    connection.execute(
        update(LoopStepRow)
        .where(LoopStepRow.night == night, LoopStepRow.step == step)
        .values(ended_at=func.clock_timestamp(), **values)
    )


# Releases

_OPEN = tuple(it.value for it in LoopState if not it.is_terminal)

#: The closures of all watches are merged first. Testing each event against each closure took eight
#: times as long, with 100,000 events and 100 watches of 80 packages.
_APPEARED = text(
    """
    WITH watched AS (
        SELECT package, min(added_at) AS since FROM watches, unnest(closure) AS package
        WHERE enabled GROUP BY package
    )
    SELECT DISTINCT e.index_name, e.name, e.version
    FROM watched JOIN package_events AS e ON e.name = package AND e.occurred_at >= since
    WHERE e.kind = 'new_release' AND NOT EXISTS (
        SELECT FROM loop_releases AS l
        WHERE (l.index_name, l.name, l.version) = (e.index_name, e.name, e.version)
    )
    ORDER BY 1, 2, 3
    """
)


def appeared_releases(connection: Connection) -> list[ReleaseKey]:
    """Releases of watched packages that came out since they are watched, and are not noticed."""
    return [ReleaseKey(*row) for row in connection.execute(_APPEARED)]


def add_releases_seen(
    connection: Connection, keys: Iterable[ReleaseKey], source: ReleaseSource, *, backlog: int
) -> list[ReleaseKey]:
    """Notice releases, each with its event, as long as the backlog has room.

    :param backlog: limit on releases that the loop still works on
    :returns: the releases that are new
    """
    query = select(func.count()).select_from(LoopReleaseRow)
    room = backlog - (connection.scalar(query.where(LoopReleaseRow.state.in_(_OPEN))) or 0)
    new: list[ReleaseKey] = []
    for key in keys:
        if len(new) >= room:
            break
        statement = insert(LoopReleaseRow).values(
            index_name=key.index, name=key.name, version=key.version, source=source.value,
            state=LoopState.SEEN.value,
        )  # fmt: skip
        stored = connection.execute(
            statement.on_conflict_do_nothing().returning(LoopReleaseRow.version)
        )
        if stored.one_or_none() is not None:
            new.append(key)
            data = {"state": LoopState.SEEN.value, "source": source.value}
            record_event(connection, EventKind.RELEASE_STATE, key.subject, data)
    return new


def releases_in(connection: Connection, states: Collection[LoopState]) -> list[LoopRelease]:
    """The first thousand releases in some states, oldest first."""
    row = LoopReleaseRow
    query = select(*_RELEASE).where(row.state.in_([it.value for it in states]))
    query = query.order_by(row.seen_at, *_RELEASE_KEY).limit(1000)
    return [_release(it) for it in connection.execute(query)]


def latest_releases(connection: Connection, limit: int = 1000) -> list[LoopRelease]:
    """The latest releases in any state, newest first."""
    query = select(*_RELEASE).order_by(LoopReleaseRow.seen_at.desc(), *_RELEASE_KEY).limit(limit)
    return [_release(it) for it in connection.execute(query)]


def set_release_state(
    connection: Connection,
    key: ReleaseKey,
    state: LoopState,
    reason: str | None = None,
    **values: Any,
) -> None:
    """Store the state of a release and, if anything changes, an event in the same transaction.

    :param values: further columns: ``measured_jobs``, ``planned_jobs``, ``nights``, ``last_night``,
        ``looks``, ``look_jobs``
    """
    row = LoopReleaseRow
    wanted = {"state": state.value, "reason": reason, **values}
    differs = or_(*(getattr(row, name).is_distinct_from(it) for name, it in wanted.items()))
    changed = connection.execute(
        update(row)
        .where(tuple_(*_RELEASE_KEY) == (key.index, key.name, key.version), differs)
        .values(state_at=func.clock_timestamp(), **wanted)
    )
    if changed.rowcount:
        kind = EventKind.RELEASE_STATE
        if state is LoopState.GIVEN_UP:
            kind = EventKind.RELEASE_GIVEN_UP
        record_event(connection, kind, key.subject, wanted)


# Batches


def add_batch(
    connection: Connection, night: int, watch_id: str, indicator: str,
    stacks: Sequence[Mapping[str, Any]], blocks: int,
) -> str:  # fmt: skip
    """Plan a batch; a batch with the same stacks of the same night is stored once.

    :returns: its identifier
    """
    batch_id = digest({"night": night, "watch": watch_id, "stacks": list(stacks)})
    statement = insert(LoopBatchRow).values(
        batch_id=batch_id, night=night, watch_id=watch_id, indicator=indicator,
        stacks=list(stacks), blocks=blocks, jobs=blocks * len(stacks),
        state=BatchState.PLANNED.value,
    )  # fmt: skip
    connection.execute(statement.on_conflict_do_nothing())
    return batch_id


def batches_in(connection: Connection, states: Collection[BatchState]) -> list[LoopBatch]:
    """Batches in some states, oldest first."""
    row = LoopBatchRow
    query = select(*_BATCH).where(row.state.in_([it.value for it in states]))
    rows = connection.execute(query.order_by(row.night, row.batch_id))
    return [_batch(it) for it in rows]


def reference_stacks(connection: Connection) -> frozenset[str]:
    """Digests of the stacks that new releases were measured beside."""
    name = LoopBatchRow.report["stacks"][0]["inspection_id"].astext
    query = select(InspectionRow.stack_digest).join(LoopBatchRow, InspectionRow.name == name)
    return frozenset(connection.scalars(query.where(InspectionRow.stack_digest.is_not(None))))


def batches_of_night(connection: Connection, night: int) -> list[LoopBatch]:
    """The batches that a night planned."""
    row = LoopBatchRow
    query = select(*_BATCH).where(row.night == night).order_by(row.batch_id)
    return [_batch(it) for it in connection.execute(query)]


def set_batch_state(
    connection: Connection, batch_id: str, state: BatchState, reason: str | None = None,
    **values: Any,
) -> None:  # fmt: skip
    """Store the state of a batch.

    :param values: further columns: ``measured_jobs``, ``attempts``, ``report``
    """
    connection.execute(
        update(LoopBatchRow)
        .where(LoopBatchRow.batch_id == batch_id)
        .values(state=state.value, reason=reason, state_at=func.clock_timestamp(), **values)
    )


def set_measured_jobs(connection: Connection, batch_id: str, measured: int) -> None:
    """Store how many jobs of a batch are measured so far."""
    row = LoopBatchRow
    connection.execute(update(row).where(row.batch_id == batch_id).values(measured_jobs=measured))


_NIGHT = tuple(getattr(LoopNightRow, it.name) for it in fields(Night))
_STEP = tuple(getattr(LoopStepRow, it.name) for it in fields(NightStep))
_BATCH = tuple(getattr(LoopBatchRow, it.name) for it in fields(LoopBatch))
_RELEASE_KEY = LoopReleaseRow.index_name, LoopReleaseRow.name, LoopReleaseRow.version
_RELEASE = (
    *_RELEASE_KEY,
    *(getattr(LoopReleaseRow, it.name) for it in fields(LoopRelease) if it.name != "key"),
)


def _night(row: Row[Any]) -> Night:
    return Night(**dict(row._mapping) | {"state": NightState(row.state)})


def _batch(row: Row[Any]) -> LoopBatch:
    return LoopBatch(**dict(row._mapping) | {"state": BatchState(row.state)})


def _release(row: Row[Any]) -> LoopRelease:
    index, name, version, source, state, *others = tuple(row)
    key = ReleaseKey(index, name, version)
    return LoopRelease(key, ReleaseSource(source), LoopState(state), *others)


_RECENT_PAIRS = text(
    """
    SELECT report->>'aa_verdict' AS verdict, count(*)
    FROM loop_batches
    WHERE night > (SELECT max(night) - 30 FROM loop_nights)
        AND report->>'aa_verdict' IS NOT NULL
    GROUP BY verdict ORDER BY verdict
    """
)


def recent_identical_pairs(connection: Connection) -> dict[str, int]:
    """Numbers of the A/A pairs of the last 30 nights by verdict, for monitoring."""
    rows = connection.execute(_RECENT_PAIRS)
    return {str(verdict): int(number) for verdict, number in rows}
