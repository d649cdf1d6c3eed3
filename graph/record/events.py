"""Events of the loop: a release or a project has another state, or something is settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert

from graph.tables import EventRow


class EventKind(StrEnum):
    """Kinds of events; stored values are never renamed.

    The keys of ``data`` that notices use are listed with each kind; all are optional.
    """

    #: An entry of the list of changes, unless it only confirms another. Subject: identifier of the
    #: change. Data: ``event`` (:class:`graph.changes.ChangeEvent`), ``refers_to``, ``package`` or
    #: ``host``, ``from_version``, ``to_version``, ``indicator``, ``hardware``, ``verdict``,
    #: ``effect_percent`` of the rate before, ``interval_percent`` (two numbers).
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
