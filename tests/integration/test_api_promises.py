"""What the service promises of its queue: a bound, quick answers, and work by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy
from flask.testing import FlaskClient
from sqlalchemy import event, text

from api.jobs import request_submission
from api.jobs.queue import QueueJob, QueueName
from api.service import EXTENSION
from graph.engine import Stores, relational_url
from graph.record.access import Scope
from model.errors import StoreUnavailable
from tests.factories.releases import release
from tests.services.commands import ROOT, row_counts
from tests.services.jobs import client_of, ended, jobs_in, run_jobs, worker_process
from tests.services.projection import deliver
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


def test_quick_advice_is_done_when_the_post_returns(
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


def test_result_waits_as_long_as_a_client_asks_and_others_are_answered_at_once(
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


def test_slow_advice_is_accepted_as_pending(client: FlaskClient, known: Stores) -> None:
    accepted = client.post(ADVICE, json=asked())
    assert accepted.status_code == 202
    assert accepted.get_json()["state"] == "pending"


def test_starting_worker_runs_recently_due_jobs(known: Stores) -> None:
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
