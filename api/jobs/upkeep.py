"""Upkeep of the queue: return jobs of dead workers, end lost analyses, delete old rows."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import procrastinate
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Status
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import IntegrityError

from api.jobs.queue import PROJECT
from api.jobs.request_run import MAX_ATTEMPTS, WorkerContext
from graph.engine import relational_errors
from graph.record import analyses
from graph.record.analyses import AnalysisState
from graph.record.documents import UPLOAD, delete_unreferenced_bodies, forget_documents
from graph.record.freshness import lag_of
from graph.record.retention import forget_analyses, forget_events, forget_writes
from model.errors import ProjectError

#: A worker without a heartbeat for this long is dead, and its jobs return to the queue, s.
DEAD_AFTER_S = 20.0
#: Pause between two searches for jobs of dead workers, s.
RETURNED_EVERY_S = 15.0
#: Advisory lock of the worker that returns them.
_LOCK = 7_084_223
#: Retention of ended jobs and of the bodies of uploads.
KEPT = timedelta(days=7)
#: Rows per transaction and transactions per run; the next run deletes the rest.
BATCH, MOST_BATCHES = 500, 200
#: Analyses without a job. Both are inserted in one transaction, and the analysis ends first.
_ANALYSES_WITHOUT_JOB = text(
    """
    SELECT analysis_id FROM analyses
    WHERE state IN ('pending', 'running') AND NOT EXISTS (
        SELECT FROM procrastinate_jobs
        WHERE status IN ('todo', 'doing') AND args->>'analysis_id' = analyses.analysis_id
    )
    ORDER BY accepted_at
    """
)

#: Jobs that were put off for longer than any pause, by a wrong clock or an earlier version.
_POSTPONED_JOBS = text(
    """
    UPDATE procrastinate_jobs SET scheduled_at = now()
    WHERE status = 'todo' AND scheduled_at > now() + interval '1 hour'
    RETURNING id
    """
)

_FORGET_REQUEST_COUNTS = text("DELETE FROM request_counts WHERE ends_at < clock_timestamp()")

_LOG = logging.getLogger(__name__)


async def keep_returning(app: procrastinate.App, worker: WorkerContext) -> None:
    """Periodically return stalled jobs to their queues, even while another job runs."""
    while True:
        try:
            await return_stalled_once(app, worker)
        except (ConnectorException, ProjectError) as error:
            _LOG.warning("upkeep_failed", extra={"error": type(error).__name__})
        except Exception:
            # The next run may succeed, and the worker must go on.
            _LOG.exception("upkeep_broke")
        await asyncio.sleep(RETURNED_EVERY_S)


async def return_stalled_once(app: procrastinate.App, worker: WorkerContext) -> bool:
    """Call :func:`return_stalled` unless another worker does.

    :returns: whether this worker did it
    """
    held = await asyncio.to_thread(_held, worker)
    if held is None:
        return False
    try:
        await return_stalled(app, worker)
    finally:
        await asyncio.to_thread(held.close)
    return True


async def return_stalled(app: procrastinate.App, worker: WorkerContext) -> None:
    """Return the jobs of dead workers to the queue, a bounded number of times.

    An analysis ends in ``error`` with a reason if its job has no attempts left or is gone.
    """
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_S):
        fields = {"job": job.id, "task": job.task_name, "attempts": job.attempts + 1}
        if job.attempts + 1 < MAX_ATTEMPTS:
            try:
                await app.job_manager.retry_job(job)
            except UniqueViolation:
                # A job with the same key waits already and does the same work.
                await app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
            _LOG.warning("job_returned", extra=fields)
            continue
        analysis_id = job.task_kwargs.get("analysis_id")
        if isinstance(analysis_id, str):
            reason = f"given up: its worker died {job.attempts + 1} times"
            await asyncio.to_thread(_give_up, worker, analysis_id, reason)
        await app.job_manager.finish_job(job, Status.FAILED, delete_job=False)
        _LOG.error("job_given_up", extra=fields)
    await asyncio.to_thread(_end_lost_and_recall, worker)
    await asyncio.to_thread(_project_what_commands_left, worker)


async def prune(app: procrastinate.App, worker: WorkerContext) -> None:
    """Delete old jobs and uploads, and, unless settings keep them, old requests and audit entries.

    Each transaction deletes few rows, so that it blocks nobody.
    """
    await app.job_manager.delete_old_jobs(
        nb_hours=int(KEPT.total_seconds() // 3600),
        include_failed=True,
        include_cancelled=True,
        include_aborted=True,
    )
    await asyncio.to_thread(_forget_old, worker)


def _held(worker: WorkerContext) -> Connection | None:
    """Transaction that holds the lock of :func:`return_stalled`; ``None`` if the lock is taken."""
    with relational_errors(worker.settings):
        connection = worker.service.engine.connect()
        try:
            if connection.scalar(select(func.pg_try_advisory_xact_lock(_LOCK))):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None


def _give_up(worker: WorkerContext, analysis_id: str, reason: str) -> None:
    with worker.service.writing() as connection:
        analyses.finish(connection, analysis_id, AnalysisState.ERROR, reason=reason)


def _end_lost_and_recall(worker: WorkerContext) -> None:
    """End analyses without a job, and let jobs run now that were put off for too long."""
    with worker.service.writing() as connection:
        for analysis_id in connection.scalars(_ANALYSES_WITHOUT_JOB).all():
            reason = "given up: its job is no longer in the queue"
            if analyses.finish(connection, analysis_id, AnalysisState.ERROR, reason=reason):
                _LOG.error("analysis_lost_its_job", extra={"analysis_id": analysis_id})
    with worker.service.writing() as connection:
        for job_id in connection.scalars(_POSTPONED_JOBS):
            _LOG.warning("job_recalled", extra={"job": job_id})


def _project_what_commands_left(worker: WorkerContext) -> None:
    """Commands such as ``thoth why`` store what they read, and do not wait for the graph."""
    with worker.service.writing() as connection:
        if lag_of(connection, most=1).oldest_s > RETURNED_EVERY_S:
            worker.service.queue.enqueue(connection, PROJECT)


def _forget_old(worker: WorkerContext) -> None:
    settings = worker.settings
    with worker.service.writing() as connection:
        connection.execute(_FORGET_REQUEST_COUNTS)
    _in_batches(worker, UPLOAD, lambda it: forget_documents(it, UPLOAD, KEPT, BATCH))
    for what, days, forget in (
        ("request", settings.keep_requests_days, forget_analyses),
        ("write", settings.keep_audit_days, forget_writes),
        ("event", settings.keep_events_days, forget_events),
    ):
        if days is not None:
            age = timedelta(days=days)
            _in_batches(worker, what, partial(forget, older_than=age, limit=BATCH))
    with relational_errors(settings):
        delete_unreferenced_bodies(settings, worker.service.engine)


def _in_batches(worker: WorkerContext, what: str, forget: Callable[[Connection], int]) -> None:
    """Delete rows in batches, one transaction per batch."""
    deleted = named = 0
    for _ in range(MOST_BATCHES):
        try:
            with worker.service.writing() as connection:
                count = forget(connection)
        except IntegrityError:
            # A concurrent transaction referred to a row of the batch.
            named += 1
            _LOG.info("still_named", extra={"what": what})
            if named == MAX_ATTEMPTS:
                break  # the next run tries again
            continue
        deleted += count
        if count < BATCH:
            break
    if deleted:
        _LOG.info("forgotten", extra={"what": what, "count": deleted})
