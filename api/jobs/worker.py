"""A worker process: takes jobs from the queue until it is told to stop."""

from __future__ import annotations

import asyncio
import copy
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress

import procrastinate
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition

from api.jobs import cron
from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import WORKSHOP, tasks
from api.jobs.upkeep import DEAD_AFTER_S, keep_returning
from api.jobs.watch import guard
from api.jobs.workshop import Workshop
from common.settings import Settings
from graph.engine import relational_url

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
    own.tasks = {name: copy.copy(task) for name, task in tasks.tasks.items()}
    app.add_tasks_from(own, namespace=NAMESPACE)
    cron.register(app, settings)
    return app


def run_worker(settings: Settings, queues: Sequence[QueueName], name: str) -> None:
    """Take jobs of ``queues`` one after the other until a signal to stop."""
    app, shop = queue_app(settings), Workshop(settings)
    shop.resolver.start()
    try:
        asyncio.run(_work(app, shop, queues, name))
    finally:
        shop.close()


async def _work(
    app: procrastinate.App, shop: Workshop, queues: Sequence[QueueName], name: str
) -> None:
    """Work until told to stop; a queue that goes away is tried again until it is back.

    Jobs that were under way then are returned by their missing sign of life.
    """
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    guarding = asyncio.create_task(guard(shop.watch))
    while not told.is_set():
        try:
            await _work_once(app, shop, queues, name, told)
        except ConnectorException as error:
            _LOG.warning("queue_away", extra={"error": str(error.__cause__ or error).strip()[:200]})
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), PAUSE_S)
    guarding.cancel()


async def _work_once(
    app: procrastinate.App,
    shop: Workshop,
    queues: Sequence[QueueName],
    name: str,
    told: asyncio.Event,
) -> None:
    """Work until told to stop, or until the queue is away: then it ends of itself."""
    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(
                queues=[it.value for it in queues],
                name=name,
                concurrency=1,
                additional_context={WORKSHOP: shop},
                shutdown_graceful_timeout=GRACE_S,
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=DEAD_AFTER_S,
                delete_jobs=DeleteJobCondition.SUCCESSFUL,
                # It could not be told from a failure that it was a signal.
                install_signal_handlers=False,
            )
        )
        keeping = asyncio.create_task(keep_returning(app, shop))
        waiting = asyncio.create_task(told.wait())
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        keeping.cancel()
        if told.is_set():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        await asyncio.gather(keeping, return_exceptions=True)
