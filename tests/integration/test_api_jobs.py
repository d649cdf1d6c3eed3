"""Jobs when things break: workers killed, PostgreSQL restarted, the graph away."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import procrastinate
import pytest
from flask.testing import FlaskClient
from procrastinate import periodic, utils
from psycopg_pool.base import AttemptWithBackoff
from sqlalchemy import Engine, make_url, text

from api.jobs import request_run
from api.jobs import upkeep as upkeep_module
from api.jobs.queue import PROJECT, PROJECT_SOON, Queue, QueueJob, QueueName
from api.jobs.request_run import MAX_ATTEMPTS, JobTimeouts, WorkerContext, guard
from api.jobs.tasks import keep_scheduling, scheduled_tasks
from api.jobs.upkeep import prune, return_stalled, return_stalled_once
from api.jobs.worker import _RunningWorker, _work, queue_app
from api.server.supervisor import keeping_stores
from common.settings import Settings
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import Stores, relational_engine
from graph.migrate import migrate_relational
from graph.projection import lag
from graph.record import analyses, documents
from graph.record.access import Scope
from tests.factories.releases import release
from tests.requirements import needs
from tests.services.commands import ROOT
from tests.services.embedded import kill_store
from tests.services.failing import FAULTS, failing
from tests.services.jobs import (
    ASKED,
    INDEXES,
    client_of,
    ended,
    execute,
    jobs_in,
    run_jobs,
    upkeep,
    worker_process,
)
from tests.services.ports import closed_port
from tests.services.projection import deliver
from tests.services.proxy import proxy_to
from tests.services.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.faults

#: Runs until its environment has the file ``NAME``.
WAITS = """
import os, sys, time
while not os.path.exists(os.path.join(sys.prefix, "NAME")):
    time.sleep(0.05)
print("{}")
"""
#: A worker that gives a job less time to end.
HASTY = "from api.jobs import worker; from cli.main import main; worker.GRACE_S = 0.5; main()"


@pytest.fixture
def known(stores: Stores) -> Stores:
    """A record with one package, and no index that answers."""
    name, _, url = INDEXES.partition("=")
    settings = replace(stores.settings, package_indexes=((name, url),), rate_limit=None)
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "1.0")])
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """Who may ask for everything."""
    scopes = (Scope.ADVISE, Scope.INGEST, Scope.INSPECT)
    with client_of(known.settings, *scopes) as made:
        yield made


@needs("bwrap")
def test_job_of_a_killed_worker_runs_again(client: FlaskClient, known: Stores) -> None:
    go_on = f"go-on-{uuid.uuid4()}"
    body = {"script": WAITS.replace("NAME", go_on), "timeout_s": DEADLINE_S}
    name = client.post("/amun/api/v1/inspect", json=body).get_json()["inspection_id"]
    where = f"/api/v2/requests/{name}"
    built = f"/amun/api/v1/inspect/{name}/status"
    with worker_process(known.settings) as first:
        wait_until(lambda: client.get(built).get_json()["status"]["build"], "the stack is built")
        assert client.get(where).get_json()["state"] == "running"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    assert client.get(where).get_json()["state"] == "running"
    # As if as much time had passed as makes a worker count as dead.
    execute(
        known.engine,
        "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 hour'",
    )
    for environment in known.settings.home.glob("environments/*/pyvenv.cfg"):
        environment.with_name(go_on).touch()
    left = ([], [("graph.project", "todo")], [("graph.project", "doing")])
    with worker_process(known.settings):
        done = ended(client, where)
        # The worker stores the end of an analysis a moment before that of its job.
        wait_until(lambda: jobs_in(known.engine) in left, "the job has its end")
    assert (done["state"], done["attempts"]) == ("succeeded", 2)


def test_job_that_kills_its_workers_fails_with_the_reason(
    client: FlaskClient, known: Stores
) -> None:
    where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    for attempt in range(3):
        assert client.get(where).get_json()["state"] == "pending"
        execute(
            known.engine,
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL"
            " WHERE task_name = 'thoth:advice.make'",
        )
        upkeep(known.settings, return_stalled)
        states = dict(jobs_in(known.engine))
        assert states["advice.make"] == ("todo" if attempt < 2 else "failed")
    done = client.get(where).get_json()
    assert done["state"] == "error"
    assert "died 3 times" in done["reason"]


def test_request_without_a_job_fails_with_the_reason(client: FlaskClient, known: Stores) -> None:
    where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    upkeep(known.settings, return_stalled)
    assert client.get(where).get_json()["state"] == "pending"
    execute(known.engine, "DELETE FROM procrastinate_jobs")
    upkeep(known.settings, return_stalled)
    done = client.get(where).get_json()
    assert (done["state"], done["reason"]) == (
        "error",
        "given up: its job is no longer in the queue",
    )
    assert client.post("/api/v2/advice", json=ASKED).get_json()["cached"] is False


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is due again before a slow run of the jobs has ended."""
    for name in ("SHORTEST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(request_run, name, 3600)


@pytest.mark.usefixtures("long_pauses")
def test_request_is_retried_without_the_graph_and_finally_fails(
    client: FlaskClient, known: Stores
) -> None:
    away = without_graph(known.settings)
    first = client.post("/api/v2/advice", json=ASKED)
    assert first.status_code == 202
    where = first.headers["Location"]
    for looks in range(1, MAX_ATTEMPTS + 2):
        _run_now(away, known.engine)
        waiting = client.get(where).get_json()
        assert (waiting["state"], waiting["attempts"]) == ("pending", looks)
        assert waiting["reason"] == "the graph is unavailable; trying again"
        assert attempts_of(known.engine, "advice.make") == 0
    _run_now(known.settings, known.engine)
    done = client.get(where).get_json()
    assert (done["state"], done["reason"]) == ("succeeded", None)

    second = client.post("/api/v2/advice?force=true", json=ASKED).headers["Location"]
    _run_now(away, known.engine)
    assert client.get(second).get_json()["state"] == "pending"
    execute(
        known.engine,
        "UPDATE analyses SET postponed_at = postponed_at - interval '1 hour'"
        " WHERE state = 'pending'",
    )
    _run_now(away, known.engine)
    done = client.get(second).get_json()
    assert done["state"] == "error"
    assert re.fullmatch(r"given up after 36\d\d s: the graph is unavailable", done["reason"])


@pytest.mark.usefixtures("long_pauses")
def test_request_with_an_unreadable_body_is_retried_and_finally_fails(
    client: FlaskClient, known: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(documents, "INLINE_LIMIT_BYTES", 0)
        where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    away = replace(known.settings, document_store_url=tmp_path.as_uri())
    for looks in range(1, MAX_ATTEMPTS + 2):
        _run_now(away, known.engine)
        waiting = client.get(where).get_json()
        assert (waiting["state"], waiting["attempts"]) == ("pending", looks)
    _run_now(replace(away, outage_patience_s=1e-6), known.engine)
    done = client.get(where).get_json()
    assert done["state"] == "error"
    assert re.fullmatch(r"given up after \d+ s: the document store is unavailable", done["reason"])


def test_graph_catches_up_after_an_outage_of_any_length(known: Stores) -> None:
    away = without_graph(known.settings)
    execute(
        known.engine,
        "INSERT INTO outbox (kind, key) SELECT 'package_version', purl FROM package_versions",
    )
    with known.engine.begin() as connection:
        Queue(known.engine, 10).enqueue(connection, PROJECT)
    for _ in range(MAX_ATTEMPTS + 1):
        _run_now(away, known.engine)
        assert jobs_in(known.engine) == [("graph.project", "todo")]
    with known.engine.begin() as connection:
        assert Queue(known.engine, 1).waiting(connection, QueueName.BULK) == 1
    _run_now(known.settings, known.engine)
    assert jobs_in(known.engine) == []
    assert lag(known.engine).count == 0


def without_graph(settings: Settings) -> Settings:
    """Of a graph that nobody answers for, and no long wait for it."""
    url = f"bolt://127.0.0.1:{closed_port()}"
    return replace(settings, graph_url=url, connect_timeout_s=0.2)


def attempts_of(engine: Engine, task: str) -> int:
    """Attempts that count, of the one job of a kind."""
    query = text("SELECT attempts FROM procrastinate_jobs WHERE task_name = :task")
    with engine.connect() as connection:
        return int(connection.execute(query, {"task": f"thoth:{task}"}).scalar_one())


def _run_now(settings: Settings, engine: Engine) -> None:
    """Run what waits although it is to be tried again only later."""
    execute(engine, "UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'")
    run_jobs(settings)


@pytest.mark.slow  # starts a worker for each attempt
@needs("bwrap")
def test_job_returned_by_a_stopping_worker_counts_no_attempt(
    client: FlaskClient, known: Stores
) -> None:
    body = {"script": WAITS, "timeout_s": DEADLINE_S}
    name = client.post("/amun/api/v1/inspect", json=body).get_json()["inspection_id"]
    where = f"/api/v2/requests/{name}"
    built = f"/amun/api/v1/inspect/{name}/status"
    for _ in range(MAX_ATTEMPTS + 1):
        with worker_process(known.settings, script=HASTY) as worker:
            wait_until(lambda: client.get(where).get_json()["state"] == "running", "it runs")
            wait_until(lambda: client.get(built).get_json()["status"]["build"], "it is built")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(DEADLINE_S) == 0
        assert jobs_in(known.engine) == [("inspections.run", "todo")]
        assert attempts_of(known.engine, "inspections.run") == 0
        returned = client.get(where).get_json()
        assert (returned["state"], returned["attempts"]) == ("pending", 0)


def test_after_an_outage_a_worker_returns_only_its_own_job(
    client: FlaskClient, known: Stores
) -> None:
    """Another worker's job is left alone."""
    where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    name = where.rpartition("/")[2]
    app, shop = queue_app(known.settings), WorkerContext(known.settings)
    hand = _RunningWorker(app, shop, list(QueueName), "test")

    async def take() -> None:
        async with app.open_async():
            hand.worker_id = await app.job_manager.register_worker()
            job = await app.job_manager.fetch_job(queues=None, worker_id=hand.worker_id)
            other = await app.job_manager.register_worker()
            for worker_id, status in ((other, "doing"), (hand.worker_id, "todo")):
                taken = f"UPDATE procrastinate_jobs SET worker_id = {worker_id}"
                execute(known.engine, taken)
                hand.jobs = [(hand.worker_id, job)]
                await asyncio.to_thread(hand.put_back)
                assert jobs_in(known.engine) == [("advice.make", status)]

    with known.engine.begin() as connection:
        analyses.start(connection, name)
    try:
        asyncio.run(take())
    finally:
        shop.close()
    assert attempts_of(known.engine, "advice.make") == 0
    assert client.get(where).get_json()["state"] == "pending"


def test_job_with_an_unstored_end_is_requeued_before_the_next_job(
    client: FlaskClient, known: Stores
) -> None:
    """The queue was unavailable so briefly that the worker could take the next job."""
    client.post("/api/v2/advice", json=ASKED)
    client.post("/api/v2/advice", json=ASKED, query_string={"force": "true"})
    app, shop = queue_app(known.settings), WorkerContext(known.settings)
    hand = _RunningWorker(app, shop, list(QueueName), "test")

    async def nothing() -> None:
        return None

    async def take() -> None:
        async with app.open_async():
            by = SimpleNamespace(worker_id=await app.job_manager.register_worker())
            for _ in range(2):
                job = await app.job_manager.fetch_job(queues=None, worker_id=by.worker_id)
                assert job is not None
                context = procrastinate.JobContext(
                    job=job, app=app, start_timestamp=time.time(), abort_reason=lambda: None
                )
                await hand.take(nothing, context, by)

    try:
        asyncio.run(take())
    finally:
        shop.close()
    assert [status for _, status in jobs_in(known.engine)] == ["todo", "doing"]


def test_worker_takes_jobs_as_soon_as_postgresql_returns(
    client: FlaskClient,
    known: Stores,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pool alone would pause for as long as after a long outage."""
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", DEADLINE_S)
    where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    url, port = make_url(known.settings.database_url or ""), closed_port()
    away = url.set(port=port).render_as_string(hide_password=False)
    settings = replace(known.settings, database_url=away)
    shop = WorkerContext(settings)
    hand = _RunningWorker(queue_app(settings), shop, [QueueName.PEOPLE], "test")

    async def queue_away(working: asyncio.Task[None]) -> None:
        caplog.clear()
        while "queue_away" not in caplog.messages:
            assert not working.done()
            await asyncio.sleep(0.01)

    async def work() -> None:
        working = asyncio.create_task(_work(hand))
        await queue_away(working)
        with proxy_to(url.port or 0, port):
            await asyncio.to_thread(ended, client, where)
        await queue_away(working)
        # What ran beside the jobs has ended; it would run twice after the outage.
        running = {getattr(it.get_coro(), "__name__", "") for it in asyncio.all_tasks()}
        assert "_work" in running
        assert not running & {"keep_returning", "_keep_scheduling", "show_life"}
        hand.stopping.set()
        await working

    try:
        asyncio.run(work())
    finally:
        shop.close()


def test_stalled_job_is_dropped_if_an_equal_job_waits(known: Stores) -> None:
    """It cannot wait beside that one, and held up the return of all others."""
    with known.engine.begin() as connection:
        Queue(known.engine, 10).enqueue(connection, PROJECT)
    execute(known.engine, "UPDATE procrastinate_jobs SET status = 'doing'")
    with known.engine.begin() as connection:
        Queue(known.engine, 10).enqueue(connection, PROJECT)
    assert [it for _, it in jobs_in(known.engine)] == ["doing", "todo"]
    upkeep(known.settings, return_stalled)
    assert jobs_in(known.engine) == [("graph.project", "todo")]


def test_requests_with_an_equal_key_share_one_waiting_job(known: Stores) -> None:
    queue = Queue(known.engine, 10)
    job = QueueJob("graph.project", QueueName.BULK, key="graph.project")
    with known.engine.begin() as connection:
        assert queue.enqueue(connection, job) is not None
        assert queue.enqueue(connection, job) is None
    assert jobs_in(known.engine) == [("graph.project", "todo")]
    run_jobs(known.settings)
    assert jobs_in(known.engine) == []


def test_pruning_deletes_only_old_jobs_and_uploads(client: FlaskClient, known: Stores) -> None:
    client.post("/api/v2/inspections", data=b"no archive", content_type="application/zip")
    run_jobs(known.settings)
    execute(known.engine, "DELETE FROM procrastinate_jobs")
    # Another version of the service enqueued it.
    arguments = {"index": "pypi", "requirements": ["web"]}
    job = QueueJob("packages.fetch", QueueName.BULK, arguments)
    with known.engine.begin() as connection:
        Queue(known.engine, 10).enqueue(connection, job)
    run_jobs(known.settings)
    upkeep(known.settings, prune)
    assert _uploads(known.engine) == 1
    assert jobs_in(known.engine) == [("packages.fetch", "failed")]
    execute(known.engine, "UPDATE documents SET ingested_at = now() - interval '8 days'")
    execute(known.engine, "UPDATE procrastinate_events SET at = now() - interval '8 days'")
    with known.engine.connect() as connection:
        before = connection.scalar(text("SELECT count(*) FROM documents"))
    upkeep(known.settings, prune)
    assert _uploads(known.engine) == 0
    assert jobs_in(known.engine) == []
    with known.engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM documents")) == before - 1


def _uploads(engine: Engine) -> int:
    with engine.connect() as connection:
        query = text("SELECT count(*) FROM documents WHERE kind = 'upload'")
        return int(connection.scalar(query) or 0)


YEAR = timedelta(days=365)


@pytest.fixture(params=[YEAR, -YEAR], ids=["ahead", "behind"])
def wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine is a year ahead or behind, for the queue's library."""
    monkeypatch.setattr(utils, "utcnow", lambda: datetime.now(UTC) + request.param)
    clock = SimpleNamespace(time=lambda: time.time() + request.param.total_seconds())
    monkeypatch.setattr(periodic, "time", clock)


def due_within_an_hour(engine: Engine) -> list[bool]:
    query = "SELECT coalesce(scheduled_at, now()) < now() + interval '1 h' FROM procrastinate_jobs"
    with engine.connect() as connection:
        return list(connection.scalars(text(query)))


@pytest.mark.usefixtures("wrong_clock")
def test_wrong_clock_of_a_worker_postpones_no_job(known: Stores) -> None:
    nowhere = replace(known.settings, graph_url=f"bolt://127.0.0.1:{closed_port()}")
    queue = Queue(known.engine, 10)
    with known.engine.begin() as connection:
        queue.enqueue(connection, PROJECT)
        queue.enqueue(connection, PROJECT_SOON)
    assert due_within_an_hour(known.engine) == [True, True]
    run_jobs(replace(nowhere, connect_timeout_s=0.5))
    assert set(due_within_an_hour(known.engine)) == {True}


@pytest.mark.usefixtures("wrong_clock")
def test_schedules_follow_the_clock_of_postgresql(known: Stores) -> None:
    app = queue_app(known.settings)
    registry = scheduled_tasks(app, replace(known.settings, cron_nightly="* * * * *"))
    late = "max(defer_timestamp) - extract(epoch FROM now())"
    query = text(f"SELECT {late} FROM procrastinate_periodic_defers")

    def late_s() -> float | None:
        with known.engine.connect() as connection:
            return connection.scalar(query)

    async def schedule() -> None:
        async with app.open_async():
            keeping = asyncio.create_task(keep_scheduling(app, registry))
            while late_s() is None and not keeping.done():
                await asyncio.sleep(0.01)
            keeping.cancel()

    asyncio.run(schedule())
    assert -3600 < float(late_s() or 0) < 0


def test_job_scheduled_a_year_ahead_is_run_soon(known: Stores) -> None:
    with known.engine.begin() as connection:
        Queue(known.engine, 10).enqueue(connection, PROJECT)
    execute(known.engine, "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 year'")
    upkeep(known.settings, return_stalled)
    assert due_within_an_hour(known.engine) == [True]


def test_workers_project_the_changes_that_commands_left(known: Stores) -> None:
    execute(known.engine, "INSERT INTO outbox (kind, key) VALUES ('package', 'web')")
    upkeep(known.settings, return_stalled)
    assert jobs_in(known.engine) == []
    execute(known.engine, "UPDATE outbox SET created_at = now() - interval '1 minute'")
    upkeep(known.settings, return_stalled)
    upkeep(known.settings, return_stalled)
    assert jobs_in(known.engine) == [("graph.project", "todo")]


@needs("bwrap")
def test_busy_worker_returns_stalled_jobs(client: FlaskClient, known: Stores) -> None:
    """It is at a job all the while, so a job that returns others would wait for its end."""
    where = client.post("/api/v2/advice", json=ASKED).headers["Location"]
    execute(known.engine, "DELETE FROM procrastinate_jobs")
    body = {"script": WAITS, "timeout_s": DEADLINE_S}
    name = client.post("/amun/api/v1/inspect", json=body).get_json()["inspection_id"]
    with worker_process(known.settings):
        assert ended(client, where)["reason"] == "given up: its job is no longer in the queue"
        state = client.get(f"/api/v2/requests/{name}").get_json()["state"]
        assert state in ("pending", "running")


def test_only_one_of_several_workers_returns_stalled_jobs(known: Stores) -> None:
    turns: list[bool] = []

    async def twice(app: procrastinate.App, shop: WorkerContext) -> None:
        with shop.service.reading() as connection:
            lock = text("SELECT pg_advisory_xact_lock(:key)")
            connection.execute(lock, {"key": upkeep_module._LOCK})
            turns.append(await return_stalled_once(app, shop))
        turns.append(await return_stalled_once(app, shop))

    upkeep(known.settings, twice)
    assert turns == [False, True]


def test_worker_ends_only_when_a_job_is_overdue() -> None:
    watch = JobTimeouts()
    ends: list[str | None] = []

    async def watched() -> None:
        with watch.over("long", 3600):
            guarding = asyncio.create_task(
                guard(watch, lambda: ends.append(watch.overdue()), look_s=0)
            )
            for _ in range(100):
                await asyncio.sleep(0)
            assert not ends
            with watch.over("late", -1):
                await guarding

    asyncio.run(watched())
    assert ends == ["late"]
    assert watch.overdue() is None


def test_worker_process_ends_although_a_thread_never_ends() -> None:
    script = (
        "import asyncio, threading\n"
        "from api.jobs.request_run import JobTimeouts, guard\n"
        "watch = JobTimeouts()\n"
        "def wait():\n"
        "    with watch.over('stuck', 0.0):\n"
        "        threading.Event().wait()\n"
        "async def work():\n"
        "    stuck = asyncio.create_task(asyncio.to_thread(wait))\n"
        "    await guard(watch, look_s=0.01)\n"
        "asyncio.run(work())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, timeout=DEADLINE_S, check=False
    )
    assert ended.returncode == 1


@pytest.fixture
def own_home() -> Iterator[Settings]:
    """A PostgreSQL of this test's own, which it may stop."""
    home = Path(tempfile.mkdtemp(prefix="thoth-jobs-"))
    settings = Settings.from_env(
        {"THOTH_HOME": str(home), "PACKAGE_INDEXES": INDEXES, "RATE_LIMIT": "none"}
    )
    embedded = EmbeddedStores(settings)
    try:
        embedded.start(graph=False)
        engine = relational_engine(settings)
        migrate_relational(engine)
        engine.dispose()
        yield settings
    finally:
        embedded.stop()
        shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarted", "crashed"])
def test_outage_of_postgresql_loses_no_accepted_request(
    own_home: Settings, how: signal.Signals
) -> None:
    embedded = EmbeddedStores(own_home)
    accepted: list[str] = []
    refused = 0
    with (
        client_of(own_home, Scope.ADVISE) as client,
        worker_process(own_home, PACKAGE_INDEXES=INDEXES) as worker,
    ):
        for number in range(60):
            if number == 20:
                kill_store(embedded, PostgreSQL, how)
            if number == 30:
                embedded.start(graph=False)
            response = client.post("/api/v1/provenance/python", json=_stack(number))
            if response.status_code == 202:
                accepted.append(response.get_json()["analysis_id"])
            else:
                assert response.status_code == 503, response.text
                refused += 1
        assert refused >= 10
        assert len(accepted) >= 40
        for name in accepted:
            done = ended(client, f"/api/v2/requests/{name}")
            assert done["state"] == "succeeded" or done["reason"]
        assert worker.poll() is None
        states = [client.get(f"/api/v2/requests/{it}").get_json()["state"] for it in accepted]
    assert states.count("succeeded") >= len(accepted) - 1


def test_dead_embedded_store_is_restarted_but_a_stopped_store_is_not(
    own_home: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """One process at a time watches the store, and another takes over."""
    embedded = EmbeddedStores(own_home)

    def restarted(deaths: int) -> None:
        kill_store(embedded, PostgreSQL)
        wait_until(
            lambda: (now := embedded.record_of(PostgreSQL)) is not None and now.ready,
            "PostgreSQL is ready again",
        )
        assert [it.message for it in caplog.records].count("store_died") == deaths

    with keeping_stores(own_home, look_s=0.1):
        with keeping_stores(own_home, look_s=0.1):
            restarted(1)
        restarted(2)
    embedded.stop()
    assert not embedded.has_died(PostgreSQL)


def _stack(number: int) -> dict[str, Any]:
    digest = f"sha256:{'0' * 64}"
    entry = {"version": f"=={number}", "hashes": [digest], "index": "pypi"}
    url = INDEXES.partition("=")[2]
    source = {"name": "pypi", "url": url, "verify_ssl": True}
    lock = {"_meta": {"sources": [source]}, "default": {"web": entry}, "develop": {}}
    pipfile = (
        f'[[source]]\nname = "pypi"\nurl = "{url}"\nverify_ssl = true\n\n[packages]\nweb = "*"\n'
    )
    return {"application_stack": {"requirements": pipfile, "requirements_lock": json.dumps(lock)}}


READS = (
    "/", "/packages", "/stacks", "/loop", "/metrics", "/api/v1/python/environment",
    "/api/v2/packages", "/api/v2/stacks", "/api/v2/inspections", "/api/v2/status",
)  # fmt: skip


@pytest.mark.slow
def test_failing_statements_lose_no_accepted_request(known: Stores) -> None:
    """PostgreSQL fails one statement in ten, or cuts its connection."""
    answers: Counter[int] = Counter()
    accepted = []
    with client_of(known.settings, Scope.ADVISE, Scope.READ) as client:
        with failing(0.1, seed=3) as injected:
            for _ in range(20):
                answers.update(client.get(path).status_code for path in READS)
                sent = client.post("/api/v2/advice?force=true", json=ASKED)
                answers[sent.status_code] += 1
                if sent.status_code == 202:
                    accepted.append(sent.get_json()["analysis_id"])
        assert answers.keys() == {200, 202, 503}
        assert {*injected} == {*FAULTS}
        with failing(0.1, seed=4) as injected:
            for _ in range(1_000):
                if not _left(known):
                    break
                run_jobs(known.settings)
        assert {*injected} == {*FAULTS}
        states = [client.get(f"/api/v2/requests/{it}").get_json()["state"] for it in accepted]
    assert {*states} == {"succeeded"}
    with known.engine.connect() as connection:
        for table in ("analyses", "advice"):
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == len(accepted)


def _left(known: Stores) -> int:
    """Make waiting jobs due; the number of requests that have not ended."""
    connection = known.engine.raw_connection()  # events of statements do not concern it
    cursor = connection.cursor()
    cursor.execute("UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'")
    cursor.execute("SELECT count(*) FROM analyses WHERE finished_at IS NULL")
    (number,) = cursor.fetchone() or (0,)
    connection.commit()
    connection.close()
    return int(number)
