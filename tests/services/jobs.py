"""Workers for tests: all jobs that wait run here and now, or in a process that can be killed."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import procrastinate
from flask.testing import FlaskClient
from procrastinate.jobs import DeleteJobCondition
from sqlalchemy import Engine, text

from api.app import create_app
from api.jobs.queue import QueueName
from api.jobs.request_run import WorkerContext
from api.jobs.tasks import CONTEXT
from api.jobs.worker import queue_app
from common.settings import Settings
from graph.engine import relational_engine
from graph.record.access import Scope, create_token
from tests.services.commands import ROOT, variables
from tests.services.ports import closed_port
from tests.services.waiting import wait_until

#: Nothing answers there.
INDEXES = f"pypi=http://127.0.0.1:{closed_port()}/simple"
#: A request for advice.
ASKED = {"files": {"requirements.in": "web\n"}, "environment": {"python": "3.11"}}


def run_jobs(settings: Settings, queues: Iterable[QueueName] = QueueName) -> None:
    """Run everything that waits to its end, in this process."""
    app, shop = queue_app(settings), WorkerContext(settings)

    async def work() -> None:
        async with app.open_async():
            await app.run_worker_async(
                queues=[it.value for it in queues],
                wait=False,
                concurrency=1,
                additional_context={CONTEXT: shop},
                install_signal_handlers=False,
                listen_notify=False,
                delete_jobs=DeleteJobCondition.SUCCESSFUL,
            )

    try:
        asyncio.run(work())
    finally:
        shop.close()


@contextmanager
def worker_process(
    settings: Settings, script: str | None = None, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own; ``more`` are variables.

    :param script: Python that is it, instead of the command
    """
    command = ["-m", "cli"] if script is None else ["-c", script]
    process = subprocess.Popen(
        [sys.executable, *command, "worker", "--alone"],
        env={**os.environ, **variables(settings, **more)},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def client_of(settings: Settings, *scopes: Scope) -> Iterator[FlaskClient]:
    """A client of the service that shows a token with ``scopes``, or none without any."""
    app = create_app(settings)
    client = app.test_client()
    if scopes:
        engine = relational_engine(settings)
        with engine.begin() as connection:
            _, secret = create_token(connection, "test", scopes, None)
        engine.dispose()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    try:
        yield client
    finally:
        app.extensions["thoth"].close()


def ended(client: FlaskClient, where: str) -> dict[str, Any]:
    """A request at its end."""

    def ended_document() -> dict[str, Any] | None:
        document: dict[str, Any] = client.get(where).get_json()
        return document if document["state"] not in ("pending", "running") else None

    return wait_until(ended_document, f"{where} has ended")


def jobs_in(engine: Engine) -> list[tuple[str, str]]:
    """Tasks and states of the jobs in the queue, in order.

    Those of the clock are left out, and what has the graph follow in a second.
    """
    query = text(
        "SELECT task_name, status::text FROM procrastinate_jobs"
        " WHERE task_name NOT LIKE 'thoth:cron.%'"
        " AND queueing_lock IS DISTINCT FROM 'graph.project-soon' ORDER BY id"
    )
    with engine.connect() as connection:
        return [(task.removeprefix("thoth:"), status) for task, status in connection.execute(query)]


def upkeep(
    settings: Settings, work: Callable[[procrastinate.App, WorkerContext], Awaitable[None]]
) -> None:
    """Do what the clock would have a worker do."""
    app, shop = queue_app(settings), WorkerContext(settings)

    async def run() -> None:
        async with app.open_async():
            await work(app, shop)

    try:
        asyncio.run(run())
    finally:
        shop.close()


def execute(engine: Engine, statement: str) -> None:
    """Run a statement in a transaction of its own."""
    with engine.begin() as connection:
        connection.execute(text(statement))
