"""What the service promises of its queue, and what workers keep for how long."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from flask.testing import FlaskClient
from sqlalchemy import Engine, event, text

from adviser.answering.knowledge import GraphSource
from api.jobs import request_submission, worker
from api.jobs import upkeep as upkeep_module
from api.jobs.queue import QueueJob, QueueName
from api.jobs.request_run import WorkerContext
from api.jobs.upkeep import prune
from api.jobs.worker import end_tasks
from api.store_access import EXTENSION
from graph.engine import Stores, relational_url
from graph.record.access import Scope
from graph.record.events import EventKind, plan_notices, record_event
from graph.record.freshness import changes
from graph.record.inspections import add_inspections
from ingest.inspections.pipeline import read_inspections
from ingest.sources.source_items import SourceLimits
from model.errors import StoreUnavailable
from model.packages.environments import environment
from tests.factories.inspections import write_stack
from tests.factories.releases import release
from tests.services.commands import ROOT, row_counts, thoth, thoth_json
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
from tests.services.projection import answer, deliver, project, verified
from tests.services.waiting import DEADLINE_S, wait_until

KNOWN = "https://index.example/simple"
ADVICE, ADVISE = "/api/v2/advice", "/api/v1/advise/python?recommendation_type=latest"
LIMIT = 3


@pytest.fixture
def known(stores: Stores) -> Stores:
    """A record with one package, and a queue in which few may wait."""
    settings = replace(
        stores.settings,
        package_indexes=(("pypi", KNOWN),), fetch_missing=False, rate_limit=None, queue_limit=LIMIT,
    )  # fmt: skip
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "1.0")])
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """Who may ask for advice and send inspections in."""
    with client_of(known.settings, Scope.ADVISE, Scope.INGEST) as made:
        yield made


def asked(number: int = 0) -> dict[str, Any]:
    """A request like no other of another number."""
    requirement = f"web>={number}.0\n" if number else "web\n"
    return {"files": {"requirements.in": requirement}, "environment": {"python": "3.11"}}


def stack() -> dict[str, Any]:
    """The same in the words of the original service."""
    return {
        "application_stack": {"requirements": '[packages]\nweb = "*"\n', "requirements_lock": None},
        "runtime_environment": {"python_version": "3.11"},
    }


def rows(stores: Stores) -> dict[str, int]:
    """Of every table, and of the queue."""
    return {**row_counts(stores.engine), "queue": len(jobs_in(stores.engine))}


def test_request_beyond_the_queue_limit_is_refused_and_not_stored(
    client: FlaskClient, known: Stores
) -> None:
    for number in range(LIMIT):
        assert client.post(ADVICE, json=asked(number)).status_code == 202
    before = rows(known)
    for refused in (client.post(ADVICE, json=asked(LIMIT)), client.post(ADVISE, json=stack())):
        assert refused.status_code == 429, refused.text
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.get_json()["type"] == "/problems/overloaded"
    assert rows(known) == before

    again = client.post(ADVICE, json=asked(0))
    assert (again.status_code, again.get_json()["cached"]) == (202, True)
    archive = client.post("/api/v2/inspections", data=b"none", content_type="application/zip")
    assert archive.status_code == 202, "another queue has room"
    run_jobs(known.settings)
    assert client.post(ADVICE, json=asked(LIMIT)).status_code == 202


def test_quick_advice_is_ready_in_the_response_to_its_request(
    client: FlaskClient, known: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How soon an advice is made depends on what else this machine does.
    monkeypatch.setattr(request_submission, "SUBMIT_WAIT_S", DEADLINE_S)
    with worker_process(known.settings):
        ours = client.post(ADVICE, json=asked())
        theirs = client.post(ADVISE, json=stack()).get_json()
    assert ours.status_code == 202
    assert (ours.get_json()["state"], ours.get_json()["reason"]) == ("succeeded", None)
    assert client.get(ours.get_json()["result"]).status_code == 200
    status = client.get(f"/api/v1/advise/python/{theirs['analysis_id']}/status").get_json()
    assert status["status"]["state"] == "succeeded"


def test_waiting_for_a_result_does_not_block_other_requests(
    client: FlaskClient, known: Stores
) -> None:
    accepted = client.post(ADVICE, json=asked()).get_json()
    result = f"/api/v2/requests/{accepted['analysis_id']}/result"
    waiters = client.application.extensions[EXTENSION].waiters
    with waiters:
        assert client.get(f"{result}?wait=10").status_code == 202, "nobody else may wait"
    with worker_process(known.settings):
        answers = (client.get(f"{result}?wait=10") for _ in range(int(DEADLINE_S)))
        done = next(it for it in answers if it.status_code != 202)
    assert done.status_code == 200
    assert done.get_json()["metadata"]["document_id"] == accepted["analysis_id"]
    assert waiters.acquire(blocking=False), "whoever waited leaves"
    waiters.release()
    for wrong in ("11", "-1", "nan", "soon"):
        refused = client.get(f"{result}?wait={wrong}")
        assert refused.status_code == 400, refused.text
        assert "wait" in refused.text


@pytest.mark.slow
def test_starting_worker_runs_recently_due_scheduled_jobs(known: Stores) -> None:
    """A worker that starts does what was due within the last minutes."""
    schedule = {"CRON_NIGHTLY": "* * * * *", "PACKAGE_INDEXES": f"pypi={KNOWN}"}
    source = str(ROOT / "samples" / "inspections.tar.gz")
    settings = replace(known.settings, ingest_sources=(source,))
    assert row_counts(known.engine)["inspections"] == 0
    with worker_process(settings, **schedule):
        wait_until(lambda: row_counts(known.engine)["inspections"], "inspections are stored")
        wait_until(lambda: "cron.nightly" not in _running(known), "the nightly run has ended")
    with known.engine.connect() as connection:
        failed = text("SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'")
        assert connection.scalar(failed) == 0


def _running(stores: Stores) -> list[str]:
    query = text("SELECT task_name FROM procrastinate_jobs WHERE status = 'doing'")
    with stores.engine.connect() as connection:
        return [it.removeprefix("thoth:") for it in connection.execute(query).scalars()]


def test_broken_connection_is_reported_as_an_unavailable_store(
    client: FlaskClient, known: Stores
) -> None:
    """Also where the queue's library meets it; one that breaks on its way back harms nobody."""
    service = client.application.extensions["thoth"]

    def enqueue() -> None:
        with service.writing() as connection:
            _break(known, connection)
            service.queue.enqueue(connection, QueueJob("graph.project", QueueName.BULK))

    def glance() -> int:
        with service.glancing() as connection:
            _break(known, connection)
            return int(connection.scalar(text("SELECT 1")))

    for use in (enqueue, glance):
        with pytest.raises(StoreUnavailable):
            use()
    with service.glancing() as connection:
        _break(known, connection)
    with service.glancing() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


def _break(stores: Stores, connection: sqlalchemy.Connection) -> None:
    number = connection.scalar(text("SELECT pg_backend_pid()"))
    with stores.engine.connect() as other:
        ends = text("SELECT pg_terminate_backend(:number, 10000)")
        assert other.scalar(ends, {"number": number})


def test_accepted_request_survives_a_lost_connection(
    client: FlaskClient, known: Stores, postgresql: sqlalchemy.Engine
) -> None:
    engine = client.application.extensions["thoth"].engine
    name = relational_url(known.settings).database
    others = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")

    closed: list[str | None] = []

    def close(*_: object) -> None:
        """The doors, once the request is committed and its connection goes back to the pool."""
        if not closed and row_counts(known.engine)["analyses"]:
            closed.append(name)
            with postgresql.connect() as owner:
                owner.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
                owner.execute(others, {"name": name})

    event.listen(engine, "checkin", close)
    try:
        accepted = client.post(ADVICE, json=asked())
        assert client.post(ADVICE, json=asked(1)).status_code == 503
    finally:
        with postgresql.connect() as owner:
            owner.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    assert accepted.status_code == 202, accepted.text
    run_jobs(known.settings)
    assert ended(client, accepted.headers["Location"])["state"] == "succeeded"


LINUX = environment("3.11", "manylinux_2_28_x86_64")


@pytest.fixture
def kept(stores: Stores) -> Stores:
    """A record with two packages, and no index that answers."""
    name, _, url = INDEXES.partition("=")
    settings = replace(stores.settings, package_indexes=((name, url),), rate_limit=None)
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "1.0"), release("numpy", "2.0.0")])
    return made


@pytest.fixture
def shop(kept: Stores) -> Iterator[WorkerContext]:
    """What a worker keeps warm."""
    made = WorkerContext(kept.settings)
    yield made
    made.close()


def test_comparisons_include_rows_of_a_long_transaction_after_its_commit(
    kept: Stores, shop: WorkerContext, tmp_path: Path
) -> None:
    name = "inspection-matmul-0000000a"
    write_stack(tmp_path, name, [200.0] * 10, {"numpy": "2.0.0"})
    (batch,) = read_inspections([str(tmp_path)], SourceLimits())
    with kept.engine.connect() as long:
        add_inspections(long, kept.settings, batch.deliveries)
        deliver(kept, [release("other", "1.0")])
        _, before = shop.graph.read(kept, ["numpy"], LINUX)
        assert shop.graph.read(kept, ["numpy"], LINUX)[1] is before
        long.commit()
    _, after = shop.graph.read(kept, ["numpy"], LINUX)
    assert (len(before.readings), len(after.readings)) == (0, 10)


def test_each_committed_transaction_counts_as_one_change(kept: Stores) -> None:
    with kept.engine.connect() as reader:
        start = changes(reader)
        with kept.engine.connect() as writer:
            for number in range(3):
                writer.execute(text(DOCUMENT.format(number=number, kind="release")))
            reader.rollback()
            assert changes(reader) == start
            writer.commit()
            reader.rollback()
            assert changes(reader) == start + 1
            writer.execute(text(DOCUMENT.format(number=3, kind="report")))
            writer.commit()
        reader.rollback()
        assert changes(reader) == start + 1


DOCUMENT = (
    "INSERT INTO documents (document_id, kind, schema_version, source, size_bytes, body)"
    " VALUES ('sha256:{number}', '{kind}', 'test', 'test', 0, '')"
)


def test_snapshot_cache_keeps_the_last_snapshot_beyond_its_limit(
    kept: Stores, shop: WorkerContext
) -> None:
    first = shop.graph.read(kept, ["web"], LINUX)
    shop.graph.read(kept, ["numpy"], LINUX)
    assert shop.graph.read(kept, ["web"], LINUX)[0] is first[0]
    little = GraphSource(limit=1)
    first, last = (little.read(kept, [it], LINUX) for it in ("web", "numpy"))
    assert little.read(kept, ["numpy"], LINUX)[0] is last[0]
    assert little.read(kept, ["web"], LINUX)[0] is not first[0]


@pytest.fixture
def asking(kept: Stores) -> Iterator[FlaskClient]:
    """Who may ask for advice."""
    with client_of(kept.settings, Scope.ADVISE) as made:
        yield made


def aged(engine: Engine, days: int) -> None:
    """Have all requests and writes be older."""
    for table, column in (("analyses", "finished_at"), ("audit_log", "at")):
        moved = f"UPDATE {table} SET {column} = {column} - interval '{days} days'"
        execute(engine, moved)


def test_pruning_deletes_advice_of_old_requests_but_not_of_commands(
    asking: FlaskClient, kept: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "BATCH", 1)
    (tmp_path / "requirements.in").write_text("web\n", encoding="utf-8")
    where = ("--python", "3.11", "--platform", "linux_x86_64")
    made = thoth_json(kept.settings, "advise", str(tmp_path), *where)
    recorded = made["metadata"]["document_id"]
    old = [asking.post("/api/v2/advice?force=true", json=ASKED) for _ in range(2)]
    run_jobs(kept.settings)
    asked = [it.get_json()["analysis_id"] for it in old]
    asking.post(f"/api/v2/advice/{asked[0]}/replay")
    run_jobs(kept.settings)
    project(kept)
    everything = row_counts(kept.engine)
    assert (everything["analyses"], everything["advice"]) == (3, 3)

    aged(kept.engine, 89)
    upkeep(kept.settings, prune)
    assert row_counts(kept.engine) == everything
    new = asking.post("/api/v2/advice?force=true", json=ASKED)
    aged(kept.engine, 2)
    upkeep(replace(kept.settings, keep_requests_days=None), prune)
    assert row_counts(kept.engine)["analyses"] == 4

    upkeep(kept.settings, prune)
    left = row_counts(kept.engine)
    assert (left["analyses"], left["advice"]) == (1, 1)
    assert left["documents"] < everything["documents"]
    assert asking.get(old[0].headers["Location"]).status_code == 404
    assert asking.get(f"/api/v2/advice/{asked[0]}").status_code == 404
    run_jobs(kept.settings)
    assert asking.get(new.headers["Location"]).get_json()["state"] == "succeeded"
    project(kept)
    shown = {key for (key,) in answer(kept, "MATCH (a:Advice) RETURN a.advice_id")}
    assert shown == {recorded, new.get_json()["analysis_id"]}
    assert verified(kept).equal
    again = thoth(kept.settings, "replay", recorded)
    assert again.returncode == 0, again.stderr


def test_stack_keeps_its_first_report_after_pruning(asking: FlaskClient, kept: Stores) -> None:
    sent = asking.post("/api/v2/advice", json=ASKED)
    run_jobs(kept.settings)
    aged(kept.engine, 91)
    upkeep(kept.settings, prune)
    assert row_counts(kept.engine)["advice"] == 0
    query = text("SELECT kind, source FROM documents JOIN stacks USING (document_id)")
    with kept.engine.connect() as connection:
        named = [tuple(row) for row in connection.execute(query)]
    assert named == [("report", sent.get_json()["analysis_id"])]
    again = asking.post("/api/v2/advice", json=ASKED)
    run_jobs(kept.settings)
    done = asking.get(again.headers["Location"]).get_json()
    assert (done["state"], again.get_json()["cached"]) == ("succeeded", False)


def test_audit_log_is_pruned_after_the_configured_days(asking: FlaskClient, kept: Stores) -> None:
    asking.post("/api/v2/advice", json=ASKED)
    assert row_counts(kept.engine)["audit_log"] == 1
    aged(kept.engine, 364)
    upkeep(kept.settings, prune)
    assert row_counts(kept.engine)["audit_log"] == 1
    aged(kept.engine, 2)
    upkeep(replace(kept.settings, keep_audit_days=None), prune)
    assert row_counts(kept.engine)["audit_log"] == 1
    upkeep(kept.settings, prune)
    assert row_counts(kept.engine)["audit_log"] == 0


def test_events_are_pruned_after_the_configured_days(kept: Stores) -> None:
    with kept.engine.begin() as connection:
        for _ in "12":
            record_event(connection, EventKind.RELEASE_GIVEN_UP, "flask==3.0.0", {})
        plan_notices(connection, {"build": True})
    execute(kept.engine, "UPDATE events SET at = at - interval '401 days' WHERE event_id = 1")
    upkeep(replace(kept.settings, keep_events_days=None), prune)
    assert row_counts(kept.engine)["events"] == 2
    upkeep(kept.settings, prune)
    counts = row_counts(kept.engine)
    assert (counts["events"], counts["notices"]) == (1, 1)


def test_waiting_requests_are_found_without_scanning_ended_requests(kept: Stores) -> None:
    with kept.engine.connect() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = connection.scalar(
            text(f"EXPLAIN (FORMAT JSON) {upkeep_module._ANALYSES_WITHOUT_JOB.text}")
        )
    assert "ix_analyses_open" in json.dumps(plan)


class _Left(Exception):
    """The process would have ended."""


async def swallow(cancellations: int, over: asyncio.Event) -> None:
    """A loop whose query fails while it is cancelled, and so hides the cancellation."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            if not cancellations or over.is_set():
                raise
            cancellations -= 1


async def cancelled(*cancellations: int) -> list[bool]:
    over = asyncio.Event()
    tasks = [asyncio.create_task(swallow(it, over)) for it in cancellations]
    await asyncio.sleep(0)
    try:
        await end_tasks(tasks)
    finally:
        over.set()
    return [it.done() for it in tasks]


def test_worker_task_that_misses_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "PAUSE_S", 0.01)
    assert asyncio.run(cancelled(0, 1, 3)) == [True, True, True]


def test_worker_process_exits_although_a_task_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave() -> None:
        raise _Left

    monkeypatch.setattr(worker, "PAUSE_S", 0.01)
    monkeypatch.setattr(worker, "GRACE_S", 0.05)
    monkeypatch.setattr(worker, "leave", leave)
    with pytest.raises(_Left):
        asyncio.run(cancelled(10**9))
