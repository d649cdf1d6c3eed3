"""Clients take turns in the queue, and an operator sees and cancels what waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from api.app import create_app
from api.service import EXTENSION
from cli.service import queue
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope, create_token
from tests.services.commands import run_here
from tests.services.jobs import run_jobs

ADVICE = "/api/v2/advice?force=true"
BODY = {"files": {"requirements.in": "web\n"}, "environment": {"python": "3.11"}}


@pytest.fixture
def small(stores: Stores) -> Settings:
    return replace(stores.settings, queue_limit=8, rate_limit=None, fetch_missing=False)


@pytest.fixture
def client(small: Settings) -> Iterator[FlaskClient]:
    app = create_app(small)
    try:
        yield app.test_client()
    finally:
        app.extensions[EXTENSION].close()


def ask(client: FlaskClient, address: str, **headers: str) -> Any:
    far = {"environ_overrides": {"REMOTE_ADDR": address}}
    return client.post(ADVICE, json=BODY, headers=headers, **far)


def token(stores: Stores) -> dict[str, str]:
    with stores.engine.begin() as connection:
        _, secret = create_token(connection, "test", [Scope.ADVISE], None)
    return {"Authorization": f"Bearer {secret}"}


def order(settings: Settings) -> list[str]:
    """The requests in the order in which workers take them."""
    shown = run_here(queue, settings, "list", "--queue", "people", "--json")
    return [it["analysis_id"] for it in json.loads(shown.stdout)["jobs"]]


def test_clients_take_turns_and_those_with_a_token_come_first(
    client: FlaskClient, small: Settings, stores: Stores
) -> None:
    first = [ask(client, "192.0.2.1").json["analysis_id"] for _ in range(2)]
    other = ask(client, "192.0.2.2").json["analysis_id"]
    trusted = ask(client, "192.0.2.1", **token(stores)).json["analysis_id"]
    assert order(small) == [trusted, first[0], other, first[1]]


def test_requests_of_a_client_run_in_their_order(
    client: FlaskClient, small: Settings, stores: Stores
) -> None:
    header = token(stores)
    *done, waiting = (ask(client, "192.0.2.1", **header).json["analysis_id"] for _ in range(3))
    assert run_here(queue, small, "cancel", *done).exit_code == 0
    later = ask(client, "192.0.2.1", **header).json["analysis_id"]
    other = ask(client, "192.0.2.2", **token(stores)).json["analysis_id"]
    assert order(small) == [waiting, other, later]


def test_turns_count_the_running_request_of_a_client(
    client: FlaskClient, small: Settings, stores: Stores
) -> None:
    busy, other = token(stores), token(stores)
    *done, running = (ask(client, "192.0.2.1", **busy).json["analysis_id"] for _ in range(4))
    assert run_here(queue, small, "cancel", *done).exit_code == 0
    with stores.engine.begin() as connection:
        connection.execute(text("UPDATE procrastinate_jobs SET status = 'doing'"))
    first, second, third = (ask(client, "192.0.2.2", **other).json["analysis_id"] for _ in range(3))
    later = ask(client, "192.0.2.1", **busy).json["analysis_id"]
    assert order(small) == [running, first, second, later, third]


def test_a_worker_of_all_queues_takes_bulk_jobs_last(
    client: FlaskClient, small: Settings, stores: Stores
) -> None:
    with stores.engine.begin() as connection:
        _, secret = create_token(connection, "bulk", [Scope.INGEST, Scope.ADVISE], None)
    header = {"Authorization": f"Bearer {secret}"}
    fetch = client.post("/api/v2/packages", json={"requirements": ["app"]}, headers=header)
    assert fetch.status_code == 202, fetch.text
    later = [ask(client, "192.0.2.1").json["analysis_id"], ask(client, "", **header).json]
    run_jobs(replace(small, package_indexes=()))
    with stores.engine.connect() as connection:
        query = text("SELECT analysis_id FROM analyses ORDER BY started_at")
        started = list(connection.scalars(query))
    assert started == [later[1]["analysis_id"], later[0], fetch.json["analysis_id"]]


def test_one_anonymous_address_cannot_fill_the_queue(client: FlaskClient, stores: Stores) -> None:
    header = token(stores)
    assert [ask(client, "192.0.2.1").status_code for _ in range(3)] == [202, 202, 429]
    assert [ask(client, "192.0.2.2").status_code for _ in range(3)] == [202, 202, 429]
    assert [ask(client, "192.0.2.3").status_code for _ in range(3)] == [202, 202, 429]
    assert ask(client, "192.0.2.4").status_code == 429
    assert [ask(client, "192.0.2.1", **header).status_code for _ in range(3)] == [202, 202, 429]


def test_retry_after_is_computed_from_measured_durations(
    client: FlaskClient, small: Settings, stores: Stores
) -> None:
    done = ask(client, "192.0.2.1").json["analysis_id"]
    run_jobs(small)
    for _ in range(2):
        ask(client, "192.0.2.1")
    with stores.engine.begin() as connection:
        connection.execute(text("UPDATE procrastinate_events SET at = now() - interval '100 s'"))
        connection.execute(
            text(
                "UPDATE analyses SET finished_at = now() - interval '50 s' WHERE analysis_id = :it"
            ),
            {"it": done},
        )
    # One request was finished within the 100 s that the oldest of two has waited.
    assert 200 <= int(ask(client, "192.0.2.1").headers["Retry-After"]) < 400
    with stores.engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE analyses SET finished_at = now() - interval '5 min' WHERE analysis_id = :it"
            ),
            {"it": done},
        )
    # None since then, but one in the last ten minutes.
    assert ask(client, "192.0.2.1").headers["Retry-After"] == "1200"
    with stores.engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE analyses SET finished_at = now() - interval '1 h' WHERE analysis_id = :it"
            ),
            {"it": done},
        )
    assert ask(client, "192.0.2.1").headers["Retry-After"] == "3600"


def test_waiting_jobs_are_cancelled_by_request_and_by_client(
    client: FlaskClient, small: Settings
) -> None:
    first = [ask(client, "192.0.2.1").json["analysis_id"] for _ in range(2)]
    other = ask(client, "192.0.2.2").json["analysis_id"]
    assert "192.0.2.2" in run_here(queue, small, "list").stdout
    assert run_here(queue, small, "cancel", first[0]).exit_code == 0
    ended = client.get(f"/api/v2/requests/{first[0]}").json
    assert (ended["state"], ended["reason"]) == ("error", "cancelled by the operator")
    again = run_here(queue, small, "cancel", first[0])
    assert (again.exit_code, "thoth queue list" in again.stderr) == (2, True)
    purged = run_here(queue, small, "purge", "--queue", "people", "--client", "192.0.2.1", "--json")
    assert json.loads(purged.stdout) == {"cancelled": 1}
    assert order(small) == [other]
    assert run_here(queue, small, "purge", "--queue", "people").stdout == "1 job cancelled\n"
    assert order(small) == []
