"""The queue as the rest of the service sees it: enqueue in a transaction, count what waits.

Behind it is procrastinate. A job is enqueued in the transaction that records what it is about,
so that neither is there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import procrastinate
import sqlalchemy
from procrastinate.contrib.sqlalchemy import SQLAlchemyPsycopg2Connector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from common.errors import ProjectError

#: Before the names of our tasks, as procrastinate writes it.
NAMESPACE = "thoth"
#: A careful guess of what a worker gets done, for when to come back.
_JOBS_PER_S = 5
#: Of each so many may wait, unless ``QUEUE_LIMIT`` is less.
_LIMITS = {"fetches": 100}
#: Waiting jobs of a queue are counted no further.
_COUNTED = 100_000
#: Those that wait for a store to come back are due within a minute, and are counted too.
_WAITING = text(
    """
    SELECT count(*) FROM (
        SELECT FROM procrastinate_jobs
        WHERE queue_name = :queue AND status = 'todo'
            AND (scheduled_at IS NULL OR scheduled_at <= now() + interval '1 minute')
        LIMIT :counted
    ) AS waiting
    """
)
_KEY_WAITS = text(
    "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = :key AND status = 'todo')"
)
_UNCOUNTED = text(
    """
    UPDATE procrastinate_jobs SET attempts = attempts - 1
    WHERE id = :job AND status = 'doing'
        AND (CAST(:worker AS bigint) IS NULL OR worker_id IS NULL OR worker_id = :worker)
    """
)
_RETURNED = text("SELECT procrastinate_retry_job_v2(:job, now(), NULL, NULL, NULL)")
_ENDED = text("SELECT procrastinate_finish_job_v1(:job, 'aborted', true)")


class QueueName(StrEnum):
    """Kinds of work; a worker takes of those that it is told to. The value is stored."""

    #: People wait for it.
    PEOPLE = "people"
    #: Nobody waits for it: uploads, crawls that were asked for, nightly runs.
    BULK = "bulk"
    #: What an advice lacks, read from indexes: bounded, so that it holds nothing else up.
    FETCHES = "fetches"
    #: Runs what others submitted, confined, and keeps processors busy.
    INSPECTIONS = "inspections"


@dataclass(frozen=True, slots=True)
class QueueJob:
    """Something to be done.

    :param task: name of a task of :mod:`api.jobs.tasks`
    :param key: of two jobs with one key that wait at the same time, the second is not enqueued
    :param priority: higher ones first
    :param delay_s: when it is due; more of its key may come until then
    """

    task: str
    queue: QueueName
    arguments: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    priority: int = 0
    delay_s: int = 0


class Overloaded(ProjectError):
    """More work waits than a new request would want to stand behind.

    :param waiting: jobs before it
    """

    def __init__(self, queue: QueueName, waiting: int) -> None:
        super().__init__(f"{waiting} jobs wait for {queue} already: try again later")
        self.retry_after_s = max(1, min(600, waiting // _JOBS_PER_S))


class Queue:
    """Jobs in PostgreSQL."""

    def __init__(self, engine: sqlalchemy.Engine, limit: int) -> None:
        """:param limit: of the jobs of one queue that may wait"""
        self._limit = limit
        connector = SQLAlchemyPsycopg2Connector()
        connector.open(engine)
        self._app = procrastinate.App(connector=connector)

    def enqueue(self, connection: Connection, job: QueueJob) -> int | None:
        """Add a job in the transaction of ``connection``.

        :returns: its number; ``None`` if one with its key waits already
        """
        task = self._app.configure_task(
            f"{NAMESPACE}:{job.task}",
            allow_unknown=True,
            queue=job.queue.value,
            priority=job.priority,
            queueing_lock=job.key,
            schedule_in={"seconds": job.delay_s} if job.delay_s else None,
            connection=connection,
        )
        try:
            with connection.begin_nested():  # a refused row must not end the transaction
                return task.defer(**job.arguments)
        except AlreadyEnqueued:
            return None
        except ConnectorException as error:
            raise error.__cause__ or error from None  # what the store's other users meet

    def is_waiting(self, connection: Connection, key: str) -> bool:
        """Whether a job with a key waits."""
        return bool(connection.scalar(_KEY_WAITS, {"key": key}))

    def uncount(self, connection: Connection, job_id: int, worker_id: int | None = None) -> bool:
        """Let the attempt that is under way be none of those after which a job is given up.

        :param worker_id: whose attempt it must be, if it is anybody's
        :returns: ``False`` if none is under way
        """
        values = {"job": job_id, "worker": worker_id}
        return connection.execute(_UNCOUNTED, values).rowcount == 1

    def give_back(self, connection: Connection, job_id: int, worker_id: int | None) -> bool:
        """Return a job that a worker had taken, as if it had not been.

        :returns: ``False`` if it is not under way, or is another worker's by now
        """
        if not self.uncount(connection, job_id, worker_id):
            return False
        try:
            with connection.begin_nested():
                connection.execute(_RETURNED, {"job": job_id})
        except IntegrityError:  # one with its key waits already, which does as well
            connection.execute(_ENDED, {"job": job_id})
        return True

    def admit(self, connection: Connection, queue: QueueName) -> None:
        """Refuse more work while too much of it waits.

        :raises Overloaded: saying when to try again
        """
        waiting = self.waiting(connection, queue)
        if waiting >= min(self._limit, _LIMITS.get(queue.value, self._limit)):
            raise Overloaded(queue, waiting)

    def waiting(self, connection: Connection, queue: QueueName) -> int:
        """How many jobs of a queue could be taken now, or within a minute."""
        found = connection.scalar(_WAITING, {"queue": queue.value, "counted": _COUNTED})
        return int(found or 0)
