"""The queue kept in order: what dead workers left goes on, and everything accepted has an end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import procrastinate
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import IntegrityError

from api.jobs.analysis_run import MAX_ATTEMPTS
from api.jobs.worker_context import WorkerContext
from common.errors import ProjectError
from graph.engine import relational_errors
from graph.record import analyses
from graph.record.analyses import AnalysisState
from graph.record.documents import (
    UPLOAD,
    forget_body,
    forget_documents,
)
from graph.record.retention import forget_analyses, forget_writes

#: Without a sign of life for so long, a worker is dead and its jobs are others'.
DEAD_AFTER_S = 20.0
#: Between two looks for jobs of dead workers.
RETURNED_EVERY_S = 15.0
#: Advisory lock of those who return them.
_LOCK = 7_084_223
#: How long ended jobs and the bodies of uploads are kept.
KEPT = timedelta(days=7)
#: Rows that one transaction deletes, and transactions at a time: what is left, the next hour has.
BATCH, MOST_BATCHES = 500, 200
#: An analysis and its job begin in one transaction, and its end comes before that of the job.
_GONE = text(
    """
    SELECT analysis_id FROM analyses
    WHERE state IN ('pending', 'running') AND NOT EXISTS (
        SELECT FROM procrastinate_jobs
        WHERE status IN ('todo', 'doing') AND args->>'analysis_id' = analyses.analysis_id
    )
    ORDER BY accepted_at
    """
)

_LOG = logging.getLogger(__name__)


async def keep_returning(app: procrastinate.App, shop: WorkerContext) -> None:
    """Return what is stalled again and again, beside whatever job is under way."""
    while True:
        try:
            await return_stalled_once(app, shop)
        except (ConnectorException, ProjectError) as error:
            _LOG.warning("upkeep_failed", extra={"error": type(error).__name__})
        except Exception:
            # The next turn may go well, and the worker has other things to do.
            _LOG.exception("upkeep_broke")
        await asyncio.sleep(RETURNED_EVERY_S)


async def return_stalled_once(app: procrastinate.App, shop: WorkerContext) -> bool:
    """:func:`return_stalled`, unless another worker is at it.

    :returns: whether it was this one's turn
    """
    held = await asyncio.to_thread(_held, shop)
    if held is None:
        return False
    try:
        await return_stalled(app, shop)
    finally:
        await asyncio.to_thread(held.close)
    return True


async def return_stalled(app: procrastinate.App, shop: WorkerContext) -> None:
    """Return the jobs of dead workers to the queue, a bounded number of times.

    What was taken too often, and analyses whose job is gone, end in ``error`` with the reason.
    """
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_S):
        fields = {"job": job.id, "task": job.task_name, "attempts": job.attempts + 1}
        if job.attempts + 1 < MAX_ATTEMPTS:
            try:
                await app.job_manager.retry_job(job)
            except UniqueViolation:
                # One with its key waits already, which does as well.
                await app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
            _LOG.warning("job_returned", extra=fields)
            continue
        reason = f"given up: the worker that was at it died, {job.attempts + 1} times"
        await asyncio.to_thread(_give_up, shop, _analysis_of(job), reason)
        await app.job_manager.finish_job(job, Status.FAILED, delete_job=False)
        _LOG.error("job_given_up", extra=fields)
    await asyncio.to_thread(_end_lost, shop)


async def prune(app: procrastinate.App, shop: WorkerContext) -> None:
    """Delete jobs that ended long ago, uploads that were read by then, and what settings say.

    Some rows at a time, so that nobody waits for it.
    """
    await app.job_manager.delete_old_jobs(
        nb_hours=int(KEPT.total_seconds() // 3600),
        include_failed=True,
        include_cancelled=True,
        include_aborted=True,
    )
    await asyncio.to_thread(_forget_old, shop)


def _held(shop: WorkerContext) -> Connection | None:
    """A transaction that has the lock of those who return jobs, unless others have it."""
    with relational_errors(shop.settings):
        connection = shop.service.engine.connect()
        try:
            if connection.scalar(select(func.pg_try_advisory_xact_lock(_LOCK))):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None


def _analysis_of(job: Job) -> str | None:
    found = job.task_kwargs.get("analysis_id")
    return found if isinstance(found, str) else None


def _give_up(shop: WorkerContext, analysis_id: str | None, reason: str) -> None:
    if analysis_id is None:
        return
    with shop.service.writing() as connection:
        analyses.finish(connection, analysis_id, AnalysisState.ERROR, reason=reason)


def _end_lost(shop: WorkerContext) -> None:
    with shop.service.writing() as connection:
        for analysis_id in connection.scalars(_GONE).all():
            reason = "given up: its job is no longer in the queue"
            if analyses.finish(connection, analysis_id, AnalysisState.ERROR, reason=reason):
                _LOG.error("analysis_lost_its_job", extra={"analysis_id": analysis_id})


def _forget_old(shop: WorkerContext) -> None:
    settings = shop.settings
    _in_batches(shop, UPLOAD, lambda it: forget_documents(it, UPLOAD, KEPT, BATCH))
    requests, writes = settings.keep_requests_days, settings.keep_audit_days
    if requests is not None:
        kept = timedelta(days=requests)
        _in_batches(shop, "request", lambda it: forget_analyses(it, kept, BATCH))
    if writes is not None:
        age = timedelta(days=writes)
        _in_batches(shop, "write", lambda it: forget_writes(it, age, BATCH))


def _in_batches(
    shop: WorkerContext, what: str, forget: Callable[[Connection], tuple[int, list[str]]]
) -> None:
    """Delete until a batch is not full, each in a transaction of its own; then its bodies."""
    deleted = named = 0
    for _ in range(MOST_BATCHES):
        try:
            with shop.service.writing() as connection:
                found, gone = forget(connection)
        except IntegrityError:
            # Somebody named at this moment what was to be deleted.
            named += 1
            _LOG.info("still_named", extra={"what": what})
            if named == MAX_ATTEMPTS:
                break  # it has another hour
            continue
        for document_id in gone:
            with shop.service.writing() as connection:
                forget_body(connection, shop.settings, document_id)
        deleted += found
        if found < BATCH:
            break
    if deleted:
        _LOG.info("forgotten", extra={"what": what, "count": deleted})
