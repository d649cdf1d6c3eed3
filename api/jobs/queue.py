"""The job queue in PostgreSQL (procrastinate): enqueue, admission, counts and contents.

A job is enqueued in the transaction that stores its request, so neither exists without the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import procrastinate
import sqlalchemy
from procrastinate.contrib.sqlalchemy import SQLAlchemyPsycopg2Connector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from common.tracing import TRACEPARENT, carried_trace
from graph.record.access import Scope
from graph.record.analyses import AnalysisKind, AnalysisState, finish
from model.errors import ProjectError

#: Namespace of task names in procrastinate.
NAMESPACE = "thoth"
#: Longest ``Retry-After``, s; also the answer while no request ends.
_LONGEST_RETRY_S = 3600
#: Each class of requests has this many priorities, one for each round: those with a token come
#: first, then those without one, then those in the queue ``bulk``.
_ROUNDS = 500_000_000
_ANONYMOUS, _BULK = -_ROUNDS, -2 * _ROUNDS
#: Counting of waiting jobs stops here.
_COUNTED = 100_000
#: Jobs that wait for a store are due within a minute and are included.
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
#: Jobs get their numbers in the order in which they are enqueued, so the first one is the oldest.
_OLDEST = text(
    """
    SELECT coalesce(extract(epoch FROM now() - coalesce(
        scheduled_at, (SELECT max(at) FROM procrastinate_events WHERE job_id = jobs.id)
    )), 0)::float8
    FROM procrastinate_jobs AS jobs
    WHERE queue_name = :queue AND status = 'todo'
        AND (scheduled_at IS NULL OR scheduled_at <= now())
    ORDER BY id LIMIT 1
    """
)
#: A worker without a heartbeat for this long is not counted, s.
ALIVE_S = 20.0
#: Start of the name by which a connection of a worker is known to PostgreSQL.
_WORKER = "thoth-worker"
_ATTENDING = text(
    """
    SELECT queue, count(DISTINCT application_name)
    FROM pg_stat_activity, unnest(string_to_array(split_part(application_name, ':', 2), ',')) queue
    WHERE datname = current_database() AND starts_with(application_name, :worker)
        AND state_change > now() - make_interval(secs => :alive_s)
    GROUP BY queue
    """
)
_OF_CLIENT = text(
    """
    SELECT count(*) FROM (
        SELECT FROM procrastinate_jobs
        WHERE queue_name = :queue AND status IN ('todo', 'doing')
            AND starts_with(queueing_lock, :client || '#')
        LIMIT :counted
    ) AS own
    """
)
#: Round of a client's next request: after its own last one, and not before the first that waits
#: or the last that runs (start-time fair queueing; Goyal, Vin and Cheng 1996).
_ROUND = text(
    """
    SELECT greatest(
        min(:first - priority) FILTER (WHERE status = 'todo'),
        max(:first - priority) FILTER (WHERE status = 'doing'),
        max(:first - priority) FILTER (WHERE starts_with(queueing_lock, :client || '#')) + 1,
        0
    )
    FROM procrastinate_jobs
    WHERE queue_name = :queue AND status IN ('todo', 'doing')
        AND priority BETWEEN :first - :rounds + 1 AND :first
    """
)
#: Requests that workers finished recently; those that ended without a worker have no start.
_FINISHED = text(
    """
    SELECT count(*) FROM analyses
    WHERE finished_at > now() - make_interval(secs => :seconds) AND started_at IS NOT NULL
        AND kind = ANY(:kinds)
    """
)
#: Shortest and longest time over which the rate of a queue is measured.
_SHORTEST_RATE_S, _LONGEST_RATE_S = 10.0, 600.0
_DUE = text("SELECT now() + make_interval(secs => :delay_s)")
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
#: Why a request ended whose job an operator cancelled.
CANCELLED = "cancelled by the operator"
_JOBS = text(
    """
    SELECT
        jobs.id AS job_id, queue_name AS queue, task_name AS task,
        status = 'doing' AS running, priority, attempts,
        split_part(queueing_lock, '#', 1) AS client, args->>'analysis_id' AS analysis_id,
        (SELECT min(at) FROM procrastinate_events WHERE job_id = jobs.id) AS enqueued_at,
        scheduled_at AS due_at
    FROM procrastinate_jobs AS jobs
    WHERE status IN ('todo', 'doing') AND (CAST(:queue AS text) IS NULL OR queue_name = :queue)
    ORDER BY status = 'todo', queue_name, priority DESC, jobs.id
    LIMIT :most
    """
)
#: A job that a worker takes meanwhile is locked or running, and stays.
_CANCELLED = text(
    """
    DELETE FROM procrastinate_jobs WHERE id IN (
        SELECT id FROM procrastinate_jobs
        WHERE status = 'todo'
            AND (CAST(:name AS text) IS NULL OR id::text = :name OR args->>'analysis_id' = :name)
            AND (CAST(:queue AS text) IS NULL OR queue_name = :queue)
            AND (CAST(:client AS text) IS NULL OR starts_with(queueing_lock, :client || '#'))
        FOR UPDATE SKIP LOCKED
    )
    RETURNING args->>'analysis_id'
    """
)


class QueueName(StrEnum):
    """Names of queues. A worker takes jobs from its assigned queues. The values are stored."""

    #: Jobs that people wait for, and notices, which take seconds.
    PEOPLE = "people"
    #: Jobs that nobody waits for: uploads, requested fetches, nightly runs.
    BULK = "bulk"
    #: Submitted inspections, which run in a sandbox and keep all processors busy.
    INSPECTIONS = "inspections"


class RequestWork(NamedTuple):
    """The work for a kind of request.

    :param task: name of its task
    :param function: answers a stored request, as ``module:name``; only workers of its queue load it
    :param limit_s: a job that takes longer must be hanging, because a store does not answer
    :param scope: scope that a client needs to read the request
    """

    task: str
    queue: QueueName
    function: str
    limit_s: float
    scope: Scope


#: A search may take a minute, the jobs of an inspection a day, and building them some hours.
_ADVICE_S, BULK_S, _INSPECTION_S = 1800.0, 4 * 3600.0, 36 * 3600.0


def _work(task: str, function: str) -> RequestWork:
    return RequestWork(task, QueueName.PEOPLE, f"api.jobs.{function}", _ADVICE_S, Scope.ADVISE)


REQUEST_WORK = {
    AnalysisKind.ADVICE: _work("advice.make", "advice:run_advice"),
    AnalysisKind.REPLAY: _work("advice.replay", "advice:run_replay"),
    AnalysisKind.WHY_NOT: _work("advice.why_not", "advice:run_why_not"),
    AnalysisKind.PROVENANCE: _work("provenance.check", "advice:check_provenance"),
    AnalysisKind.FETCH: RequestWork(
        "packages.fetch", QueueName.BULK, "api.jobs.ingestion:fetch_requested", BULK_S,
        Scope.INGEST,
    ),
    AnalysisKind.UPLOAD: RequestWork(
        "uploads.ingest", QueueName.BULK, "api.jobs.ingestion:ingest_upload", BULK_S, Scope.INGEST
    ),
    AnalysisKind.INSPECTION: RequestWork(
        "inspections.run", QueueName.INSPECTIONS, "api.jobs.ingestion:run_inspection",
        _INSPECTION_S, Scope.INSPECT,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueClient:
    """Who sent a request; all requests of one client share one place in the order of the queue.

    :param name: identifier of the token, or address
    """

    name: str
    anonymous: bool


def room_for(client: QueueClient | None, places: int) -> tuple[int, int]:
    """The places that requests of all such clients, and of this client alone, may take.

    >>> room_for(QueueClient("192.0.2.1", anonymous=True), 8), room_for(None, 8)
    ((6, 2), (8, 8))
    """
    if client is None or not client.anonymous:
        return places, places
    return max(1, places * 3 // 4), max(1, places // 4)


@dataclass(frozen=True, slots=True)
class QueueJob:
    """A job to enqueue.

    :param task: name of a task of :mod:`api.jobs.tasks`
    :param key: while a job with this key waits, no second one is enqueued
    :param priority: jobs with a higher priority run first
    :param delay_s: time until it is due
    """

    task: str
    queue: QueueName
    arguments: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    priority: int = 0
    delay_s: int = 0


#: Projects the record into the graph; at most one of these jobs waits.
PROJECT = QueueJob("graph.project", QueueName.BULK, key="graph.project", priority=10)
#: The same after a second, so that one job serves all changes of that second.
PROJECT_SOON = replace(PROJECT, key="graph.project-soon", delay_s=1)


class Overloaded(ProjectError):
    """Too many jobs wait in a queue.

    :param retry_after_s: time until the waiting jobs are done, at the rate of the last minutes
    """

    def __init__(self, queue: QueueName, message: str, retry_after_s: int) -> None:
        super().__init__(f"queue {queue}: {message}: try again later")
        self.retry_after_s = retry_after_s


class Queue:
    """The job queue."""

    def __init__(self, engine: sqlalchemy.Engine, limit: int) -> None:
        """:param limit: maximum number of waiting jobs per queue"""
        self._limit = limit
        connector = SQLAlchemyPsycopg2Connector()
        connector.open(engine)
        self._app = procrastinate.App(connector=connector)

    def enqueue(self, connection: Connection, job: QueueJob) -> int | None:
        """Enqueue a job in the transaction of ``connection``.

        :returns: its number; ``None`` if a job with its key waits already
        """
        # A delayed job often waits already, and to ask is quicker than to be refused.
        if job.delay_s and job.key is not None and self.is_waiting(connection, job.key):
            return None
        task = self._app.configure_task(
            f"{NAMESPACE}:{job.task}",
            allow_unknown=True,
            queue=job.queue.value,
            priority=job.priority,
            queueing_lock=job.key,
            # By the clock of PostgreSQL, since workers compare with it.
            schedule_at=connection.scalar(_DUE, {"delay_s": job.delay_s}) if job.delay_s else None,
            connection=connection,
        )
        trace = carried_trace()
        arguments = job.arguments if trace is None else {**job.arguments, TRACEPARENT: trace}
        try:
            with connection.begin_nested():  # a duplicate key must not abort the transaction
                return task.defer(**arguments)
        except AlreadyEnqueued:
            return None
        except ConnectorException as error:
            raise error.__cause__ or error from None  # as other users of the store see it

    def is_waiting(self, connection: Connection, key: str) -> bool:
        """Whether a job with a key waits."""
        return bool(connection.scalar(_KEY_WAITS, {"key": key}))

    def uncount(self, connection: Connection, job_id: int, worker_id: int | None = None) -> bool:
        """Do not count the running attempt of a job.

        :param worker_id: worker that must be running it, if any is
        :returns: ``False`` if the job is not running
        """
        values = {"job": job_id, "worker": worker_id}
        return connection.execute(_UNCOUNTED, values).rowcount == 1

    def give_back(self, connection: Connection, job_id: int, worker_id: int | None) -> bool:
        """Return a running job to the queue without counting the attempt.

        :returns: ``False`` if it is not running, or another worker runs it by now
        """
        if not self.uncount(connection, job_id, worker_id):
            return False
        try:
            with connection.begin_nested():
                connection.execute(_RETURNED, {"job": job_id})
        except IntegrityError:  # a job with the same key waits already
            connection.execute(_ENDED, {"job": job_id})
        return True

    def enqueue_request(
        self, connection: Connection, work: RequestWork, analysis_id: str, client: QueueClient
    ) -> None:
        """Enqueue the job of a request: clients take turns, and clients with a token come first."""
        first = _BULK if work.queue is QueueName.BULK else _ANONYMOUS if client.anonymous else 0
        among = {
            "queue": work.queue.value,
            "client": client.name,
            "first": first,
            "rounds": _ROUNDS,
        }
        last = connection.execute(_ROUND, {**among, "rounds": _ROUNDS}).scalar_one()
        priority = first - min(last, _ROUNDS - 1)
        key, arguments = f"{client.name}#{analysis_id}", {"analysis_id": analysis_id}
        self.enqueue(connection, QueueJob(work.task, work.queue, arguments, key, priority))

    def admit(
        self, connection: Connection, queue: QueueName, client: QueueClient | None = None
    ) -> int:
        """Check that a queue has room: anonymous requests may take three quarters of it, one
        address a quarter.

        :returns: number of waiting jobs
        :raises Overloaded: if too many jobs wait in a queue, with the time to try again
        """
        waiting = self.waiting(connection, queue)
        room, own_room = room_for(client, self._limit)
        if waiting >= room:
            retry_s = self._retry_after_s(connection, queue, waiting)
            raise Overloaded(queue, f"{waiting} jobs wait", retry_s)
        if client is None or not client.anonymous:
            return waiting
        counted = {"queue": queue.value, "client": client.name, "counted": _COUNTED}
        own = connection.scalar(_OF_CLIENT, counted) or 0
        if own >= own_room:
            retry_s = self._retry_after_s(connection, queue, own)
            raise Overloaded(queue, f"{own} requests of this address wait", retry_s)
        return waiting

    @staticmethod
    def _retry_after_s(connection: Connection, queue: QueueName, jobs: int) -> int:
        kinds = [kind.value for kind, it in REQUEST_WORK.items() if it.queue is queue]
        # Workers may have been idle until the oldest job came, which says nothing of their speed.
        oldest_s = connection.scalar(_OLDEST, {"queue": queue.value}) or 0.0
        busy_s = min(_LONGEST_RATE_S, max(_SHORTEST_RATE_S, oldest_s))
        for seconds in (busy_s, _LONGEST_RATE_S):
            finished = connection.scalar(_FINISHED, {"kinds": kinds, "seconds": seconds})
            if finished:
                return max(1, min(_LONGEST_RETRY_S, int(jobs * seconds / finished)))
        return _LONGEST_RETRY_S

    def waiting(self, connection: Connection, queue: QueueName) -> int:
        """Number of jobs of a queue that are due now or within a minute."""
        number = connection.scalar(_WAITING, {"queue": queue.value, "counted": _COUNTED})
        return int(number or 0)


def oldest_waits(connection: Connection) -> dict[QueueName, float]:
    """How long the oldest due job of each queue has waited, in seconds; 0 if none waits."""
    waits = {it: connection.scalar(_OLDEST, {"queue": it.value}) for it in QueueName}
    return {queue: max(0.0, seconds or 0.0) for queue, seconds in waits.items()}


def connection_name(queues: Sequence[QueueName], worker: str) -> str:
    """Name of a worker's connections, from which :func:`attending_workers` reads its queues.

    PostgreSQL keeps 63 bytes of it.

    >>> connection_name([QueueName.PEOPLE, QueueName.BULK], "17@host")
    'thoth-worker:people,bulk:17@host'
    """
    return f"{_WORKER}:{','.join(queues)}:{worker}"


def attending_workers(connection: Connection) -> dict[QueueName, int]:
    """Number of workers that take jobs from each queue and asked PostgreSQL a moment ago.

    Workers send heartbeats, so the connection of a hanging worker falls silent.

    PostgreSQL shows the connections of other users to superusers only, so server and workers must
    be the same user.
    """
    rows = connection.execute(_ATTENDING, {"worker": f"{_WORKER}:", "alive_s": ALIVE_S})
    numbers = {str(queue): int(number) for queue, number in rows}
    return {it: numbers.get(it.value, 0) for it in QueueName}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits or runs.

    :param client: identifier of the token or address whose request it is
    :param analysis_id: identifier of the request, if it is the job of one
    :param due_at: the job is not tried before this time
    """

    job_id: int
    queue: str
    task: str
    running: bool
    priority: int
    attempts: int
    client: str | None
    analysis_id: str | None
    enqueued_at: datetime | None
    due_at: datetime | None


def queued_jobs(connection: Connection, queue: QueueName | None, most: int) -> list[QueuedJob]:
    """Running jobs, then waiting jobs in the order in which workers take them."""
    values = {"queue": queue and queue.value, "most": most}
    return [QueuedJob(**row._mapping) for row in connection.execute(_JOBS, values)]


def cancel_waiting(
    connection: Connection,
    *,
    name: str | None = None,
    queue: QueueName | None = None,
    client: str | None = None,
) -> int:
    """Delete jobs that wait, and end their requests in ``error``; the caller owns the transaction.

    :param name: number of a job, or identifier of its request
    :returns: number of deleted jobs
    """
    values = {"name": name, "queue": queue and queue.value, "client": client}
    requests = connection.scalars(_CANCELLED, values).all()
    for analysis_id in filter(None, requests):
        finish(connection, analysis_id, AnalysisState.ERROR, reason=CANCELLED)
    return len(requests)


def task_name(job: QueuedJob) -> str:
    """Name of a job's task without its namespace."""
    return job.task.removeprefix(f"{NAMESPACE}:")
