"""The outbox of notices: one message for each event and target, with the state of its delivery."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import Row

from graph.record.events import Event, EventKind
from model.declared_fields import Field

#: Attempts to deliver a notice, before it is given up.
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
    """What the outbox of notices still has to do."""

    waiting: Annotated[int, Field("Notices that wait for their first or next attempt.", 0)]
    oldest_s: Annotated[float, Field("How long the oldest of them has waited.", 0.0, unit="s")]
    given_up: Annotated[int, Field("Notices that were given up within a day.", 0)]


def plan_notices(connection: Connection, targets: Mapping[str, bool]) -> int:
    """Write the notices of events that have none yet, oldest first.

    Events remember whether their notices were written. A position in the list of events would miss
    those of transactions that commit late.

    :param targets: for each name, whether the target also gets events that settle nothing
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
    parameters = {
        "targets": list(targets), "lease": lease, "limit": limit, "most": MAX_ATTEMPTS,
    }  # fmt: skip
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
    """Give up notices without attempts left, and those that waited for :data:`NOTICED_FOR`.

    :param targets: only notices to these; others belong to processes with other settings
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
    """How much the outbox of notices still has to do; one query."""
    waiting, oldest_s, given_up = connection.execute(_LAG).one()
    return NoticeLag(waiting, float(oldest_s), given_up)


def _claimed(row: Row[Any]) -> ClaimedNotice:
    event = Event(row.event_id, EventKind(row.kind), row.subject, row.data, row.at)
    return ClaimedNotice(row.notice_id, row.target, row.attempts, event)
