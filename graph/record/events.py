"""Events that notices tell of: something is settled, has another state, or went wrong."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select, text

from graph.tables import EventRow
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
        """Whether people get a notice of it; the others are steps on the way there."""
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
    """Store an event in the caller's transaction, together with the change that it tells of.

    :param data: JSON values; sent to receivers of notices, so it must hold no secrets
    :returns: identifier of the event
    """
    values = {"kind": kind.value, "subject": subject, "data": dict(data)}
    statement = insert(EventRow).values(**values).returning(EventRow.event_id)
    return int(connection.execute(statement).scalar_one())


def advice_changed_since(
    connection: Connection, watch: str, moment: datetime
) -> list[Mapping[str, Any]]:
    """Packages of the last change of a watch's advice since a moment, as its event has them."""
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
