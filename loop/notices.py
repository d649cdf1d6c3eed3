"""Delivers the notices of the outbox to their targets, with bounded attempts and growing pauses.

A notice is claimed, sent and marked in separate transactions. If the process dies in between, the
notice is sent again with the same identifier, so no notice is lost and receivers can recognise
repetitions.
"""

from __future__ import annotations

import logging
import random
import shutil
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import sqlalchemy

from common.settings import Settings
from graph.embedded.home import space_left
from graph.engine import relational_errors
from graph.record.events import EventKind, record_problem, record_solution
from graph.record.notices import (
    MAX_ATTEMPTS,
    ClaimedNotice,
    claim_notices,
    give_up_abandoned,
    mark_delivered,
    mark_failed,
    plan_notices,
)
from loop.notice_targets import DeliveryFailed, NoticeTarget, load_target, planned_targets
from model.errors import InvalidSettings

#: Pauses after the first, second … failed attempt, as Standard Webhooks suggests: 3 days in all.
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    *(timedelta(hours=it) for it in (2, 5, 10, 14, 20, 24)),
)
#: No other process claims a notice for this long; far longer than an attempt.
LEASE = timedelta(minutes=5)
#: Targets that are served at a time.
_THREADS = 4
#: Free space at which a disk is no longer nearly full, as a multiple of what is.
_RECOVERY_FACTOR = 2.0
#: Seconds after which a round claims no more notices; the next round goes on.
_ROUND_S = 15.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    """Times of the delivery.

    :param pauses: before the second, third … attempt; each gets up to a fifth longer at random
    """

    pauses: Sequence[timedelta] = PAUSES
    lease: timedelta = LEASE
    round_s: float = _ROUND_S

    def pause_after(self, attempts: int) -> timedelta | None:
        """The pause after a failed attempt; ``None`` after the last attempt."""
        if attempts >= MAX_ATTEMPTS:
            return None
        pause = self.pauses[min(attempts, len(self.pauses)) - 1]
        return pause * random.uniform(1.0, 1.2)  # noqa: S311 - spreads attempts, is no secret


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What a round of deliveries did.

    :param planned: events whose notices were written
    :param failed: failed attempts
    :param given_up: notices that will not be sent again
    :param unusable: targets of the settings that this process cannot use, with the reason
    """

    planned: int
    delivered: int
    failed: int
    given_up: int
    unusable: dict[str, str]


def deliver_notices(
    engine: sqlalchemy.Engine, settings: Settings, pace: DeliveryPace | None = None
) -> DeliveryCounts:
    """Write the notices of new events, and make one attempt for each notice that is due.

    Also looks whether the disk of ``THOTH_HOME`` is nearly full, if there is a target.

    A target whose attempt fails gets no more notices in this round. Notices of targets that this
    process does not know, or cannot use, wait for a process that can.

    :raises StoreUnavailable: if PostgreSQL does not answer
    :raises InvalidSettings: if two targets have the same name
    """
    pace = pace or DeliveryPace()
    names = planned_targets(settings)
    targets, unusable = _loaded(settings, names)
    with relational_errors(settings):
        if names:
            _check_disk(engine, settings.home)
        planned = _plan_all(engine, names)
        rounds = [_TargetRound(engine, name, target, pace) for name, target in targets.items()]
        with ThreadPoolExecutor(_THREADS) as threads:
            outcomes = list(threads.map(_TargetRound.run, rounds))
        with engine.begin() as connection:
            abandoned = give_up_abandoned(connection, names)
    delivered, failed, given_up = (sum(it) for it in zip(*outcomes, (0, 0, 0), strict=True))
    return DeliveryCounts(planned, delivered, failed, given_up + abandoned, unusable)


def _loaded(
    settings: Settings, names: dict[str, bool]
) -> tuple[dict[str, NoticeTarget], dict[str, str]]:
    targets, unusable = {}, {}
    for name in names:
        try:
            targets[name] = load_target(settings, name)
        except InvalidSettings as error:
            unusable[name] = str(error)
    return targets, unusable


def _check_disk(engine: sqlalchemy.Engine, folder: Path) -> None:
    """Record an event when the disk of this machine is nearly full, and when it has space again."""
    if not folder.exists():
        return
    left, subject = space_left(folder), f"{socket.gethostname()}:{folder}"
    if 1.0 <= left < _RECOVERY_FACTOR:
        return
    with engine.begin() as connection:
        if left >= _RECOVERY_FACTOR:
            record_solution(connection, EventKind.DISK_FULL, subject)
            return
        disk = shutil.disk_usage(folder)
        data = {"free_bytes": disk.free, "size_bytes": disk.total}
        record_problem(connection, EventKind.DISK_FULL, subject, data)


def _plan_all(engine: sqlalchemy.Engine, names: dict[str, bool]) -> int:
    """Write the notices of all events; without targets, events wait for a process that has some."""
    planned = batch = 0
    while names:
        with engine.begin() as connection:
            batch = plan_notices(connection, names)
        if not batch:
            break
        planned += batch
    return planned


@dataclass(frozen=True, slots=True)
class _TargetRound:
    """Sends the due notices of one target."""

    engine: sqlalchemy.Engine
    name: str
    target: NoticeTarget
    pace: DeliveryPace

    def run(self) -> tuple[int, int, int]:
        """Send until nothing is due, an attempt fails, or the time of the round is over.

        :returns: numbers of delivered notices, failed attempts, and notices that were given up
        """
        delivered, ends = 0, time.monotonic() + self.pace.round_s
        while time.monotonic() < ends:
            with self.engine.begin() as connection:
                claimed = claim_notices(connection, [self.name], self.pace.lease, 1)
            if not claimed:
                break
            notice = claimed[0]
            try:
                self.target.send(notice)
            except DeliveryFailed as error:
                return delivered, 1, int(self._fail(notice, error))
            with self.engine.begin() as connection:
                mark_delivered(connection, notice.notice_id)
            delivered += 1
            _LOG.info("notice_delivered", extra=_fields(notice))
        return delivered, 0, 0

    def _fail(self, notice: ClaimedNotice, error: DeliveryFailed) -> bool:
        """Store a failed attempt, and return whether it was the last."""
        pause = self.pace.pause_after(notice.attempts) if error.retryable else None
        with self.engine.begin() as connection:
            mark_failed(connection, notice, str(error), pause)
        fields = {**_fields(notice), "error": str(error)}
        _LOG.warning("notice_given_up" if pause is None else "notice_failed", extra=fields)
        return pause is None


def _fields(notice: ClaimedNotice) -> dict[str, object]:
    return {
        "notice_id": notice.notice_id, "target": notice.target, "attempts": notice.attempts,
        "event_id": notice.event.event_id, "kind": notice.event.kind.value,
    }  # fmt: skip
