"""A worker process: takes jobs from the queue until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import procrastinate
from procrastinate.jobs import DeleteJobCondition

from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import WORKSHOP, tasks
from api.jobs.workshop import Workshop
from common.settings import Settings
from graph.engine import relational_url

#: How long a job may go on after the worker was told to stop; it is returned to the queue then.
GRACE_S = 20.0
#: Between two signs of life.
HEARTBEAT_S = 5.0
#: Without a sign of life for so long, a worker is dead and its jobs are others'.
DEAD_AFTER_S = 20.0


def queue_app(settings: Settings) -> procrastinate.App:
    """The queue as workers see it, with every task."""
    url = relational_url(settings).set(drivername="postgresql")
    connector = procrastinate.PsycopgConnector(
        conninfo=url.render_as_string(hide_password=False), min_size=1, max_size=4
    )
    app = procrastinate.App(connector=connector)
    app.add_tasks_from(tasks, namespace=NAMESPACE)
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
    async with app.open_async():
        await app.run_worker_async(
            queues=[it.value for it in queues],
            name=name,
            concurrency=1,
            additional_context={WORKSHOP: shop},
            shutdown_graceful_timeout=GRACE_S,
            update_heartbeat_interval=HEARTBEAT_S,
            stalled_worker_timeout=DEAD_AFTER_S,
            delete_jobs=DeleteJobCondition.SUCCESSFUL,
        )
