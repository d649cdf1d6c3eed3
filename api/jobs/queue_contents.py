"""The jobs in the queue: listing them, and cancelling those that wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from api.jobs.queue import NAMESPACE, QueueName
from graph.record.analyses import AnalysisState, finish

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


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits or runs.

    :param client: identifier of the token or address whose request it is
    :param analysis_id: identifier of the request, if it is the job of one
    :param due_at: before this time, it is not tried again
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
    """Running jobs, then those that wait, in the order in which workers take them."""
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
