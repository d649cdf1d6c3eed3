"""A worker process: takes jobs from the queue until it is told to stop.

A job that it cannot end by then is returned, and so is one that it lost sight of because the
queue was away: neither is an attempt. Only what ends without a word is.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import procrastinate
from procrastinate import JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition, Job

from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import CONTEXT, blueprint, register_schedules
from api.jobs.upkeep import DEAD_AFTER_S, keep_returning
from api.jobs.worker_context import WorkerContext, guard, leave
from common.errors import ProjectError
from common.settings import Settings
from graph.engine import relational_url
from graph.record import analyses

#: How long a job may go on after the worker was told to stop; it is returned to the queue then.
GRACE_S = 20.0
#: Between two signs of life.
HEARTBEAT_S = 5.0
#: Between two tries to reach a queue that is away.
PAUSE_S = 2.0

_LOG = logging.getLogger(__name__)


def queue_app(settings: Settings) -> procrastinate.App:
    """The queue as workers see it, with every task."""
    url = relational_url(settings).set(drivername="postgresql")
    connector = procrastinate.PsycopgConnector(
        conninfo=url.render_as_string(hide_password=False), min_size=1, max_size=4
    )
    app = procrastinate.App(connector=connector)
    # The tasks that are added are renamed, so each application has its own.
    own = procrastinate.Blueprint()
    own.tasks = {name: copy.copy(task) for name, task in blueprint.tasks.items()}
    app.add_tasks_from(own, namespace=NAMESPACE)
    register_schedules(app, settings)
    return app


def run_worker(settings: Settings, queues: Sequence[QueueName], name: str) -> None:
    """Take jobs of ``queues`` one after the other until a signal to stop."""
    app, worker = queue_app(settings), WorkerContext(settings)
    if QueueName.PEOPLE in queues:
        worker.resolver.start()
    try:
        asyncio.run(_work(_RunningWorker(app, worker, queues, name)))
    finally:
        worker.close()


@dataclass(slots=True)
class _RunningWorker:
    """What works, and the job that it took last."""

    app: procrastinate.App
    worker: WorkerContext
    queues: Sequence[QueueName]
    name: str
    told: asyncio.Event = field(default_factory=asyncio.Event)
    worker_id: int | None = None
    job: Job | None = None

    async def take(self, work: Callable[[], Awaitable[Any]], context: JobContext, by: Any) -> Any:
        """Note what is taken, around the work itself."""
        self.worker_id, self.job = by.worker_id, context.job
        return await work()

    async def show_life(self) -> None:
        """Keep the job from being taken for a dead worker's, also while no other is taken."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self.worker_id is not None:
                with suppress(ConnectorException):
                    await self.app.job_manager.update_heartbeat(self.worker_id)

    def put_back(self) -> None:
        """Return the job that was taken last, unless its end was noted.

        :raises StoreUnavailable: if the queue is away; then its missing sign of life returns it
        """
        job = self.job
        if job is None or job.id is None:
            return
        with self.worker.service.writing() as connection:
            taken = self.worker.service.queue.give_back(connection, job.id, self.worker_id)
            analysis_id = job.task_kwargs.get("analysis_id")
            if taken and isinstance(analysis_id, str):
                analyses.give_back(connection, analysis_id)
        self.job = None
        if taken:
            _LOG.info("job_put_back", extra={"job": job.id, "task": job.task_name})


async def _work(hand: _RunningWorker) -> None:
    """Work until told to stop; a queue that goes away is tried again until it is back."""
    told = hand.told
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    guarding = asyncio.create_task(guard(hand.worker.watch))
    while not told.is_set():
        try:
            await _work_once(hand)
        except ConnectorException as error:
            _LOG.warning("queue_away", extra={"error": str(error.__cause__ or error).strip()[:200]})
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), PAUSE_S)
    guarding.cancel()


async def _work_once(hand: _RunningWorker) -> None:
    """Work until told to stop, or until the queue is away: then it ends of itself."""
    app, told = hand.app, hand.told
    async with app.open_async():
        # Left over if the queue was away when it should have noted the end.
        with suppress(ProjectError):
            await asyncio.to_thread(hand.put_back)
        working = asyncio.create_task(
            app.run_worker_async(
                queues=[it.value for it in hand.queues],
                name=hand.name,
                concurrency=1,
                additional_context={CONTEXT: hand.worker},
                worker_middleware=[hand.take],
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=DEAD_AFTER_S,
                delete_jobs=DeleteJobCondition.SUCCESSFUL,
                # It could not be told from a failure that it was a signal.
                install_signal_handlers=False,
            )
        )
        beside = [
            asyncio.create_task(it)
            for it in (keep_returning(app, hand.worker), hand.show_life(), told.wait())
        ]
        await asyncio.wait((working, beside[-1]), return_when=asyncio.FIRST_COMPLETED)
        if told.is_set():
            await _stop(hand, working)
        with suppress(asyncio.CancelledError):
            await working
        for it in beside:
            it.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def _stop(hand: _RunningWorker, working: asyncio.Task[None]) -> None:
    """Let the job that is under way end; return it if that takes too long, and end at once."""
    working.cancel()
    await asyncio.wait((working,), timeout=GRACE_S)
    if not working.done():
        with suppress(ProjectError):
            await asyncio.to_thread(hand.put_back)
        # The thread that is at it cannot be ended alone.
        leave(0)
