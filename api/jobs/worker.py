"""The worker process: runs jobs of the queue until a signal to stop.

The worker returns a job to the queue if it cannot finish the job in time, or could not store the
job's end because the queue was unavailable. Returning a job does not count as an attempt; the death
of its worker does.
"""

import asyncio
import copy
import logging
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import procrastinate
import psycopg
from procrastinate import JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition, Job

from api.health.monitoring import trace_process
from api.jobs.queue import NAMESPACE, QueueName, connection_name
from api.jobs.request_run import WorkerContext, guard, leave
from api.jobs.tasks import (
    CONTEXT,
    DatabaseClockManager,
    blueprint,
    keep_scheduling,
    scheduled_tasks,
)
from api.jobs.upkeep import DEAD_AFTER_S, keep_returning
from common.settings import Settings
from common.tracing import stop_tracing
from graph.engine import relational_url
from graph.record import analyses
from model.errors import ProjectError

#: Time for the running job to finish after a signal to stop, s; then it returns to the queue.
GRACE_S = 20.0
#: Pause between two heartbeats, s.
HEARTBEAT_S = 5.0
#: Pause before asking an unavailable queue again, s.
PAUSE_S = 1.0
#: How long a connection to the queue is waited for, s. The pool doubles the pause before each
#: attempt, so after an outage it could take as long again.
_CONNECT_TIMEOUT_S = 3.0

_LOG = logging.getLogger(__name__)


def queue_app(settings: Settings, name: str = "thoth") -> procrastinate.App:
    """The queue for workers, with every task.

    :param name: of the connections in PostgreSQL
    """
    url = relational_url(settings).set(drivername="postgresql")
    url = url.update_query_dict({"application_name": name})
    connector = procrastinate.PsycopgConnector(
        conninfo=url.render_as_string(hide_password=False),
        min_size=1,
        max_size=4,
        timeout=_CONNECT_TIMEOUT_S,
        configure=_commit_quickly,
    )
    app = procrastinate.App(connector=connector)
    app.job_manager = DatabaseClockManager(connector)
    # procrastinate renames the tasks that it adds, so each application gets copies.
    own = procrastinate.Blueprint()
    own.tasks = {name: copy.copy(task) for name, task in blueprint.tasks.items()}
    app.add_tasks_from(own, namespace=NAMESPACE)
    return app


async def _commit_quickly(connection: psycopg.AsyncConnection[Any]) -> None:
    """Save round trips and waits for the disk: transactions of procrastinate are single statements.

    If PostgreSQL dies before it has written the last ones, a job is delivered twice, which changes
    nothing.
    """
    await connection.set_autocommit(True)
    await connection.execute("SET synchronous_commit TO off")


def run_worker(
    settings: Settings, queues: Sequence[QueueName], name: str, heartbeat: Path | None = None
) -> None:
    """Run jobs of ``queues``, one at a time, until a signal to stop.

    :param heartbeat: file that is touched while this process takes or runs jobs
    """
    trace_process()
    process = f"{os.getpid()}@{socket.gethostname()}"
    app = queue_app(settings, connection_name(queues, process))
    worker = WorkerContext(settings)
    if QueueName.PEOPLE in queues:
        worker.resolver.start()
    try:
        asyncio.run(_work(_RunningWorker(app, worker, queues, name, heartbeat)))
    finally:
        worker.close()
        stop_tracing()


@dataclass(slots=True)
class _RunningWorker:
    """State of the worker process.

    :param jobs: the running job, and jobs whose end may not be stored, with their worker
    """

    app: procrastinate.App
    worker: WorkerContext
    queues: Sequence[QueueName]
    name: str
    heartbeat: Path | None = None
    is_busy: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    worker_id: int | None = None
    jobs: list[tuple[int | None, Job]] = field(default_factory=list)

    async def take(self, work: Callable[[], Awaitable[Any]], context: JobContext, by: Any) -> Any:
        """Remember the job, and run it."""
        with suppress(ProjectError):
            await asyncio.to_thread(self.put_back)
        self.worker_id = by.worker_id
        self.jobs.append((by.worker_id, context.job))
        self.is_busy = True
        try:
            return await work()
        finally:
            self.is_busy = False

    def beat(self) -> None:
        """Touch the file of heartbeats, which needs no space on the disk once the file exists."""
        if self.heartbeat is not None:
            with suppress(OSError):
                self.heartbeat.touch(0o600)

    async def show_life(self) -> None:
        """Send heartbeats, which show that the worker of the running job is alive."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self.is_busy:
                self.beat()
            if self.worker_id is not None:
                with suppress(ConnectorException):
                    await self.app.job_manager.update_heartbeat(self.worker_id)

    def put_back(self) -> None:
        """Return the jobs that this process took to the queue, unless their end was stored.

        :raises StoreUnavailable: if the queue is unavailable, even without such jobs
        """
        with self.worker.service.writing() as connection:
            for worker_id, job in self.jobs:
                queue = self.worker.service.queue
                if job.id is None or not queue.give_back(connection, job.id, worker_id):
                    continue
                analysis_id = job.task_kwargs.get("analysis_id")
                if isinstance(analysis_id, str):
                    analyses.give_back(connection, analysis_id)
                _LOG.info("job_put_back", extra={"job": job.id, "task": job.task_name})
        self.jobs.clear()


async def _work(running: _RunningWorker) -> None:
    """Run jobs until a signal to stop; reconnect after each outage of the queue."""
    stopping = running.stopping
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    guarding = asyncio.create_task(guard(running.worker.watch))
    cast(DatabaseClockManager, running.app.job_manager).before_fetch = running.beat
    while not stopping.is_set():
        running.beat()
        try:
            # The end of a job could not be stored while the queue was unavailable.
            await asyncio.to_thread(running.put_back)
            await _work_once(running)
        except (ConnectorException, ProjectError) as error:
            _LOG.warning("queue_away", extra={"error": str(error.__cause__ or error).strip()[:200]})
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), PAUSE_S)
    guarding.cancel()


async def _work_once(running: _RunningWorker) -> None:
    """Run jobs until a signal to stop or until the queue is unavailable."""
    app, stopping = running.app, running.stopping
    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(
                queues=[it.value for it in running.queues],
                name=running.name,
                concurrency=1,
                additional_context={CONTEXT: running.worker},
                worker_middleware=[running.take],
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=DEAD_AFTER_S,
                delete_jobs=DeleteJobCondition.SUCCESSFUL,
                # procrastinate's own handlers would make a signal look like a failure.
                install_signal_handlers=False,
            )
        )
        beside = [
            asyncio.create_task(work)
            for work in (
                keep_returning(app, running.worker),
                _keep_scheduling(app, running.worker.settings),
                running.show_life(),
                stopping.wait(),
            )
        ]
        try:
            await asyncio.wait((working, beside[-1]), return_when=asyncio.FIRST_COMPLETED)
            if stopping.is_set():
                await _stop(running, working)
            with suppress(asyncio.CancelledError):
                await working
        finally:
            await end_tasks(beside)


async def end_tasks(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they end, or end the process after :data:`GRACE_S`.

    A query that fails while it is cancelled raises its own error, and the task goes on.
    """
    until = time.monotonic() + GRACE_S
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=PAUSE_S)
        if running and time.monotonic() > until:
            _LOG.error("worker_stalled", extra={"tasks": len(running)})
            leave()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_scheduling(app: procrastinate.App, settings: Settings) -> None:
    """Enqueue due tasks, also after a failure."""
    registry = scheduled_tasks(app, settings)
    while True:
        try:
            await keep_scheduling(app, registry)
        except ConnectorException as error:
            _LOG.warning("scheduling_failed", extra={"error": type(error).__name__})
        except Exception:
            # The next attempt may succeed, and the worker must go on.
            _LOG.exception("scheduling_broke")
        await asyncio.sleep(PAUSE_S)


async def _stop(running: _RunningWorker, working: asyncio.Task[None]) -> None:
    """Let the running job finish; if that takes too long, return the job and end the process."""
    working.cancel()
    await asyncio.wait((working,), timeout=GRACE_S)
    if not working.done():
        with suppress(ProjectError):
            await asyncio.to_thread(running.put_back)
        # A thread cannot be ended, only the process.
        leave(0)
