"""Events (a settled change, a new state, or a problem) and the notices of them.

The outbox has one notice for each event and target, with the state of its delivery.
"""

import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import Connection, insert, select, text
from sqlalchemy.engine import Row

from graph.tables import EventRow
from model.declared_fields import Field
from model.redaction import scrubbed, without_secrets

#: Processes that see the same problem wait here for each other.
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended(:kind || ' ' || :subject, 0))")
#: The last event of a problem, if it is not solved.
_UNSOLVED = text(
    """
    SELECT data FROM (
        SELECT kind, data FROM events
        WHERE subject = :subject
            AND kind IN ('night.failed', 'disk.full', 'problem.solved')
            AND (kind = :kind OR data->>'problem' = :kind)
        ORDER BY event_id DESC LIMIT 1
    ) AS latest
    WHERE kind = :kind
    """
)


class EventKind(StrEnum):
    """Kinds of events; stored values are never renamed.

    The keys of ``data`` that notices use are listed with each kind; all are optional.
    """

    #: An entry of the list of changes, unless it only confirms another. Subject: identifier of the
    #: change. Data: ``event`` (:class:`model.changes.ChangeEvent`), ``refers_to``, ``package`` or
    #: ``host``, ``from_version``, ``to_version``, ``indicator``, ``hardware``, ``verdict``,
    #: ``effect_percent`` (shrunk) and ``observed_percent`` of the rate before,
    #: ``interval_percent`` (two numbers).
    CHANGE_RECORDED = "change.recorded"
    #: A watched project gets other advice. Subject: the project. Data: ``advice_id``,
    #: ``packages`` (objects with ``name``, ``from_version``, ``to_version``), and ``change_ids`` of
    #: the changes that speak for the new versions.
    ADVICE_CHANGED = "advice.changed"
    #: A release will not be settled. Subject: ``name==version``. Data: ``reason``.
    RELEASE_GIVEN_UP = "release.given_up"
    #: A release has another state. Subject: ``name==version``. Data: ``state``.
    RELEASE_STATE = "release.state"
    #: A watched project has another state. Subject: the project. Data: ``state``.
    PROJECT_STATE = "project.state"
    #: An index offers files with other hashes than before. Subject: the index. Data: ``files``
    #: (objects with ``name``, ``version``, ``file``, ``known``, ``offered``).
    HASH_CHANGED = "hash.changed"
    #: A nightly run or a night of the loop has failed. Subject: ``nightly`` or ``loop``. Data:
    #: ``problems`` (objects with ``part`` and ``reason``).
    NIGHT_FAILED = "night.failed"
    #: The disk of ``THOTH_HOME`` is nearly full. Subject: host and folder. Data: ``free_bytes``,
    #: ``size_bytes``.
    DISK_FULL = "disk.full"
    #: One of the two events before has ended. Subject: as there. Data: ``problem``, its kind.
    PROBLEM_SOLVED = "problem.solved"
    #: A person tests a target. Sent at once, and never stored.
    TEST = "notice.test"

    @property
    def is_settled(self) -> bool:
        """Whether people get a notice of it; other kinds are intermediate steps."""
        return self not in (EventKind.RELEASE_STATE, EventKind.PROJECT_STATE)


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event."""

    event_id: int
    kind: EventKind
    subject: str
    data: Mapping[str, Any]
    at: datetime


def record_event(
    connection: Connection, kind: EventKind, subject: str, data: Mapping[str, Any]
) -> int:
    """Store an event in the caller's transaction, together with the change that it reports.

    :param data: JSON values; sent to receivers of notices, so it must hold no secrets
    :returns: identifier of the event
    """
    values = {"kind": kind.value, "subject": subject, "data": dict(data)}
    statement = insert(EventRow).values(**values).returning(EventRow.event_id)
    return int(connection.execute(statement).scalar_one())


def advice_changed_since(
    connection: Connection, watch: str, moment: datetime
) -> list[Mapping[str, Any]]:
    """Packages of the last change of a watch's advice since a moment, as in its event."""
    row = EventRow
    query = select(row.data).where(
        row.kind == EventKind.ADVICE_CHANGED.value, row.subject == watch, row.at >= moment
    )
    data = connection.scalar(query.order_by(row.event_id.desc()).limit(1))
    return list((data or {}).get("packages", ()))


def record_problem(
    connection: Connection, kind: EventKind, subject: str, data: Mapping[str, Any]
) -> bool:
    """Store the event of a problem that lasts, unless it is known already.

    A problem is known if its last event is not solved and names the same parts.

    :param data: as for :func:`record_event`
    :returns: whether there is a new event
    """
    known = _unsolved(connection, kind, subject)
    if known is not None and _parts(known) == _parts(data):
        return False
    record_event(connection, kind, subject, data)
    return True


def record_solution(connection: Connection, kind: EventKind, subject: str) -> bool:
    """Store that a problem has ended, if there was one.

    :returns: whether there is a new event
    """
    if _unsolved(connection, kind, subject) is None:
        return False
    record_event(connection, EventKind.PROBLEM_SOLVED, subject, {"problem": kind.value})
    return True


def _unsolved(connection: Connection, kind: EventKind, subject: str) -> Mapping[str, Any] | None:
    values = {"kind": kind.value, "subject": subject}
    connection.execute(_ONE_AT_A_TIME, values)
    data: Mapping[str, Any] | None = connection.scalar(_UNSOLVED, values)
    return data


def _parts(data: Mapping[str, Any]) -> set[str]:
    return {it["part"] for it in data.get("problems", ())}


def night_problems(problems: Mapping[str, object]) -> dict[str, Any]:
    """The data of :attr:`EventKind.NIGHT_FAILED`, without credentials.

    :param problems: why each part failed
    """
    return {
        "host": platform.node(),
        "problems": [
            {"part": _public(part), "reason": _public(str(reason))}
            for part, reason in sorted(problems.items())
        ],
    }


def _public(message: str) -> str:
    return scrubbed(without_secrets(message))


#: Number of attempts to deliver a notice before it is given up.
MAX_ATTEMPTS = 10
#: Events above this age get no notices: whoever configures a first target gets no flood.
NOTICED_FOR = timedelta(days=7)
#: Events that one transaction writes notices of.
_BATCH = 500
_UNNOTICED = text(
    """
    WITH batch AS (
        SELECT event_id FROM events
        WHERE noticed_at IS NULL ORDER BY event_id LIMIT :batch
        FOR UPDATE SKIP LOCKED
    )
    UPDATE events SET noticed_at = now() FROM batch WHERE events.event_id = batch.event_id
    RETURNING events.event_id, kind, at > now() - CAST(:age AS interval) AS is_recent
    """
)
_PLANNED = text(
    """
    INSERT INTO notices (notice_id, event_id, target)
    SELECT 'msg_' || replace(gen_random_uuid()::text, '-', ''), planned.*
    FROM unnest(CAST(:events AS bigint[]), CAST(:targets AS text[])) AS planned
    ON CONFLICT (event_id, target) DO NOTHING
    """
)
#: A claim counts the attempt at once, so that a process that dies of a notice is no endless loop.
_CLAIMED = text(
    """
    WITH due AS (
        SELECT notice_id FROM notices
        WHERE state = 'waiting' AND next_attempt_at <= now() AND attempts < :most
            AND target = ANY(CAST(:targets AS text[]))
        ORDER BY next_attempt_at, notice_id LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
    UPDATE notices SET attempts = attempts + 1, next_attempt_at = now() + CAST(:lease AS interval)
    FROM due, events
    WHERE notices.notice_id = due.notice_id AND events.event_id = notices.event_id
    RETURNING notices.notice_id, target, attempts,
        events.event_id, events.kind, events.subject, events.data, events.at
    """
)
_DELIVERED = text(
    """
    UPDATE notices SET state = 'delivered', ended_at = now(), error = NULL
    WHERE notice_id = :notice AND state <> 'delivered'
    """
)
#: Only the attempt that was claimed last may fail a notice.
_FAILED = text(
    """
    UPDATE notices SET error = :error, next_attempt_at = now() + CAST(:pause AS interval),
        state = CASE WHEN :final THEN 'given_up' ELSE 'waiting' END,
        ended_at = CASE WHEN :final THEN now() END
    WHERE notice_id = :notice AND state = 'waiting' AND attempts = :attempts
    """
)
#: Notices whose last attempt ended with its process, or that no process could send for long.
_ABANDONED = text(
    """
    UPDATE notices SET state = 'given_up', ended_at = now(), error = CASE
        WHEN attempts >= :most THEN coalesce(error, 'the process that sent it ended each time')
        ELSE coalesce(error, 'no process can use its target') END
    WHERE state = 'waiting' AND next_attempt_at <= now()
        AND target = ANY(CAST(:targets AS text[]))
        AND (attempts >= :most OR created_at < now() - CAST(:age AS interval))
    """
)
_RETRIED = text(
    """
    UPDATE notices SET state = 'waiting', attempts = 0, next_attempt_at = now(), ended_at = NULL,
        created_at = now()
    WHERE state = 'given_up'
        AND (CAST(:notice AS text) IS NULL OR notice_id = CAST(:notice AS text))
    """
)
_LISTED = text(
    """
    SELECT notice_id, target, state, attempts, created_at, next_attempt_at, ended_at, error,
        notices.event_id, kind, subject
    FROM notices JOIN events USING (event_id)
    WHERE CAST(:state AS text) IS NULL OR state = CAST(:state AS text)
    ORDER BY created_at DESC, notice_id LIMIT :limit
    """
)
_LAG = text(
    """
    SELECT count(*) FILTER (WHERE state = 'waiting'),
        coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE state = 'waiting')), 0),
        count(*) FILTER (WHERE state = 'given_up' AND ended_at > now() - interval '1 day')
    FROM notices WHERE state <> 'delivered'
    """
)


class NoticeState(StrEnum):
    """State of a notice; stored values are never renamed."""

    WAITING = "waiting"
    #: The receiver has acknowledged it.
    DELIVERED = "delivered"
    #: All attempts have failed; ``thoth notices retry`` sends it again.
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class ClaimedNotice:
    """A notice that this process sends now.

    :param notice_id: the same in every attempt; receivers recognise repetitions by it
    :param attempts: including this one
    """

    notice_id: str
    target: str
    attempts: int
    event: Event


@dataclass(frozen=True, slots=True)
class ListedNotice:
    """A notice with the state of its delivery, for a list."""

    notice_id: str
    target: str
    state: NoticeState
    attempts: int
    created_at: datetime
    next_attempt_at: datetime
    ended_at: datetime | None
    error: str | None
    event_id: int
    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class NoticeLag:
    """Notices that are not delivered yet."""

    waiting: Annotated[int, Field("Notices that wait for their first or next attempt.", 0)]
    oldest_s: Annotated[float, Field("How long the oldest notice has waited.", 0.0, unit="s")]
    given_up: Annotated[int, Field("Notices that were given up in the last day.", 0)]


def plan_notices(connection: Connection, targets: Mapping[str, bool]) -> int:
    """Write the notices of events that have none yet, oldest first.

    Events remember whether their notices were written. A position in the list of events would miss
    events of transactions that commit late.

    :param targets: for each name, whether the target also gets events that are not settled
    :returns: number of events; 0 if none is left
    """
    parameters = {"batch": _BATCH, "age": NOTICED_FOR}
    events = connection.execute(_UNNOTICED, parameters).all()
    pairs = [
        (event.event_id, target)
        for event in sorted(events)
        if event.is_recent
        for target, gets_all in sorted(targets.items())
        if gets_all or EventKind(event.kind).is_settled
    ]
    if pairs:
        identifiers, names = zip(*pairs, strict=True)
        connection.execute(_PLANNED, {"events": list(identifiers), "targets": list(names)})
    return len(events)


def claim_notices(
    connection: Connection, targets: Collection[str], lease: timedelta, limit: int
) -> list[ClaimedNotice]:
    """Claim due notices, oldest first; commit before you send them.

    No other process claims them before ``lease`` has passed. If this process dies, they are due
    again then.

    :param lease: longer than any attempt to send one
    """
    parameters = {"targets": list(targets), "lease": lease, "limit": limit, "most": MAX_ATTEMPTS}
    rows = connection.execute(_CLAIMED, parameters).all()
    return sorted(map(_claimed, rows), key=lambda notice: notice.event.event_id)


def mark_delivered(connection: Connection, notice_id: str) -> None:
    """Record that a receiver has acknowledged a notice; this state is final."""
    connection.execute(_DELIVERED, {"notice": notice_id})


def mark_failed(
    connection: Connection, notice: ClaimedNotice, error: str, pause: timedelta | None
) -> None:
    """Record a failed attempt.

    :param error: without secrets
    :param pause: until the next attempt; ``None`` gives the notice up
    """
    final = pause is None or notice.attempts >= MAX_ATTEMPTS
    values = {
        "notice": notice.notice_id,
        "attempts": notice.attempts,
        "error": error,
        "final": final,
        "pause": pause or timedelta(),
    }
    connection.execute(_FAILED, values)


def give_up_abandoned(connection: Connection, targets: Collection[str]) -> int:
    """Give up notices without attempts left, and notices that waited for :data:`NOTICED_FOR`.

    :param targets: only notices to these; other targets belong to processes with other settings
    """
    parameters = {"most": MAX_ATTEMPTS, "age": NOTICED_FOR, "targets": list(targets)}
    return connection.execute(_ABANDONED, parameters).rowcount


def retry_notices(connection: Connection, notice_id: str | None = None) -> int:
    """Let notices that were given up be sent again, with all their attempts.

    :param notice_id: only this one
    :returns: their number
    """
    return connection.execute(_RETRIED, {"notice": notice_id}).rowcount


def list_notices(
    connection: Connection, state: NoticeState | None, limit: int
) -> list[ListedNotice]:
    """Notices, newest first."""
    rows = connection.execute(_LISTED, {"state": state, "limit": limit}).all()
    return [
        ListedNotice(**{**row._mapping, "state": NoticeState(row._mapping["state"])})
        for row in rows
    ]


def notice_lag(connection: Connection) -> NoticeLag:
    """The notices that are not delivered yet; one query."""
    waiting, oldest_s, given_up = connection.execute(_LAG).one()
    return NoticeLag(waiting, float(oldest_s), given_up)


def _claimed(row: Row[Any]) -> ClaimedNotice:
    event = Event(row.event_id, EventKind(row.kind), row.subject, row.data, row.at)
    return ClaimedNotice(row.notice_id, row.target, row.attempts, event)
