"""How much one client may ask, what of it counts against others, and whose turn it is."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Event

import pytest
from flask import Flask, request
from flask.testing import FlaskClient
from sqlalchemy import text
from werkzeug.test import TestResponse

from api.http.request_context import LATE, MIB
from api.server import http_server
from cli.service import queue
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope, create_token, revoke_token
from tests.services.commands import run_here
from tests.services.jobs import client_of, execute, run_jobs
from tests.services.waiting import DEADLINE_S

BAD = {"Authorization": "Bearer thoth_nobody-has-it"}
MANY = "/problems/too-many-requests"
ADVICE = "/api/v2/advice?force=true"
BODY = {"files": {"requirements.in": "web\n"}, "environment": {"python": "3.11"}}
NEAR = "192.0.2.1"


@pytest.fixture
def narrow(stores: Stores) -> Settings:
    """Three requests an hour."""
    return replace(stores.settings, rate_limit="3/hour")


@pytest.fixture
def client(narrow: Settings) -> Iterator[FlaskClient]:
    with client_of(narrow) as made:
        yield made


def shown(stores: Stores, *scopes: Scope) -> tuple[str, dict[str, str]]:
    """A new token: its identifier, and the header that shows it."""
    with stores.engine.begin() as connection:
        token, secret = create_token(connection, "test", scopes or (Scope.READ,), None)
    return token.token_id, {"Authorization": f"Bearer {secret}"}


def statuses(answers: list[TestResponse]) -> list[int]:
    return [it.status_code for it in answers]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("DELETE", "/api/v1", 405)]
)
def test_requests_of_unknown_urls_count_towards_the_rate_limit(
    client: FlaskClient, method: str, path: str, status: int
) -> None:
    answers = [client.open(path, method=method) for _ in range(4)]
    assert statuses(answers) == [status, status, status, 429]
    assert answers[3].json["type"] == MANY
    assert 0 < int(answers[3].headers["Retry-After"]) <= 3600


@pytest.mark.parametrize("allowed", [True, False])
def test_tokens_in_urls_count_as_failed_authentication(narrow: Settings, allowed: bool) -> None:
    with client_of(replace(narrow, query_tokens=allowed)) as client:
        answers = [client.get(f"/api/v1?token=thoth_{it}") for it in range(4)]
        assert statuses(answers) == [401, 401, 401, 429]
        assert int(answers[3].headers["Retry-After"]) > 0


def test_invalid_authorization_header_counts_as_failed_authentication(client: FlaskClient) -> None:
    answers = [client.get("/api/v1", headers={"Authorization": "Basic eA=="}) for _ in range(4)]
    assert statuses(answers) == [401, 401, 401, 429]


def test_known_token_is_accepted_from_an_address_with_failed_attempts(
    client: FlaskClient, stores: Stores
) -> None:
    """Behind one address there may be an office; who came before the guesses is known."""
    token_id, known = shown(stores)
    assert client.get("/api/v1", headers=known).status_code == 200
    assert statuses([client.get("/api/v1", headers=BAD) for _ in range(4)])[-1] == 429
    assert client.get("/api/v1", headers=known).status_code == 200
    assert client.get("/api/v1").status_code == 200
    assert client.get("/api/v1", headers=shown(stores)[1]).status_code == 429
    with stores.engine.begin() as connection:
        revoke_token(connection, token_id)
    assert client.get("/api/v1", headers=known).status_code == 401


def test_rate_limit_counts_each_ipv6_network_and_each_token_as_a_client(
    client: FlaskClient, stores: Stores
) -> None:
    def of(address: str, header: dict[str, str] | None = None) -> int:
        far = {"REMOTE_ADDR": address}
        return client.get("/api/v1", headers=header, environ_base=far).status_code

    assert [of(f"2001:db8::{it}:1") for it in range(4)] == [200, 200, 200, 429]
    assert of("2001:db8:0:1::1") == 200
    _, known = shown(stores)
    assert [of(f"192.0.2.{it}", known) for it in range(4)] == [200, 200, 200, 429]


def test_metrics_from_local_addresses_are_not_limited(client: FlaskClient, stores: Stores) -> None:
    _, header = shown(stores)
    far = {"environ_overrides": {"REMOTE_ADDR": "192.0.2.7"}}
    assert statuses([client.get("/metrics", **far) for _ in range(4)]) == [200, 200, 200, 429]
    assert statuses([client.get("/metrics", headers=header, **far) for _ in range(4)]) == [200] * 4
    assert statuses([client.get("/metrics") for _ in range(4)]) == [200] * 4
    assert statuses([client.get("/livez", **far) for _ in range(4)]) == [200] * 4


#: Sends as many requests for advice from an address, perhaps with the header of a token.
Ask = Callable[..., list[TestResponse]]


@pytest.fixture
def small(stores: Stores) -> Settings:
    return replace(stores.settings, queue_limit=8, rate_limit=None, fetch_missing=False)


@pytest.fixture
def queueing(small: Settings) -> Iterator[FlaskClient]:
    with client_of(small) as made:
        yield made


@pytest.fixture
def ask(queueing: FlaskClient) -> Ask:
    def send(address: str, number: int = 1, **headers: str) -> list[TestResponse]:
        far = {"environ_overrides": {"REMOTE_ADDR": address}}
        return [queueing.post(ADVICE, json=BODY, headers=headers, **far) for _ in range(number)]

    return send


def named(answers: list[TestResponse]) -> list[str]:
    return [it.json["analysis_id"] for it in answers]


def order(settings: Settings) -> list[str]:
    """The requests in the order in which workers take them."""
    listed = run_here(queue, settings, "list", "--queue", "people", "--json")
    return [it["analysis_id"] for it in json.loads(listed.stdout)["jobs"]]


def test_queue_alternates_between_clients_and_prefers_tokens(
    ask: Ask, small: Settings, stores: Stores
) -> None:
    first, second = named(ask(NEAR, 2))
    (other,) = named(ask("192.0.2.2"))
    (trusted,) = named(ask(NEAR, **shown(stores, Scope.ADVISE)[1]))
    assert order(small) == [trusted, first, other, second]


def test_requests_of_a_client_run_in_order(ask: Ask, small: Settings, stores: Stores) -> None:
    (_, header), (_, others) = (shown(stores, Scope.ADVISE) for _ in range(2))
    *done, waiting = named(ask(NEAR, 3, **header))
    assert run_here(queue, small, "cancel", *done).exit_code == 0
    (later,) = named(ask(NEAR, **header))
    (other,) = named(ask("192.0.2.2", **others))
    assert order(small) == [waiting, other, later]


def test_queue_counts_the_running_request_of_a_client(
    ask: Ask, small: Settings, stores: Stores
) -> None:
    (_, busy), (_, others) = (shown(stores, Scope.ADVISE) for _ in range(2))
    *done, running = named(ask(NEAR, 4, **busy))
    assert run_here(queue, small, "cancel", *done).exit_code == 0
    execute(stores.engine, "UPDATE procrastinate_jobs SET status = 'doing'")
    first, second, third = named(ask("192.0.2.2", 3, **others))
    (later,) = named(ask(NEAR, **busy))
    assert order(small) == [running, first, second, later, third]


def test_worker_of_all_queues_takes_bulk_jobs_last(
    queueing: FlaskClient, ask: Ask, small: Settings, stores: Stores
) -> None:
    _, header = shown(stores, Scope.INGEST, Scope.ADVISE)
    fetch = queueing.post("/api/v2/packages", json={"requirements": ["app"]}, headers=header)
    assert fetch.status_code == 202, fetch.text
    later = named([*ask(NEAR), *ask("", **header)])
    run_jobs(replace(small, package_indexes=()))
    with stores.engine.connect() as connection:
        query = text("SELECT analysis_id FROM analyses ORDER BY started_at")
        started = list(connection.scalars(query))
    assert started == [*reversed(later), fetch.json["analysis_id"]]


def test_single_anonymous_address_cannot_fill_the_queue(ask: Ask, stores: Stores) -> None:
    for address in (NEAR, "192.0.2.2", "192.0.2.3"):
        assert statuses(ask(address, 3)) == [202, 202, 429]
    assert statuses(ask("192.0.2.4")) == [429]
    _, header = shown(stores, Scope.ADVISE)
    assert statuses(ask(NEAR, 3, **header)) == [202, 202, 429]


def test_retry_after_of_a_full_queue_follows_measured_durations(
    ask: Ask, small: Settings, stores: Stores
) -> None:
    (done,) = named(ask(NEAR))
    run_jobs(small)
    ask(NEAR, 2)
    execute(stores.engine, "UPDATE procrastinate_events SET at = now() - interval '100 s'")
    waits = []
    for ago in ("50 s", "5 min", "1 h"):
        ended = f"UPDATE analyses SET finished_at = now() - interval '{ago}'"
        execute(stores.engine, f"{ended} WHERE analysis_id = '{done}'")
        waits.append(int(ask(NEAR)[0].headers["Retry-After"]))
    # One request was finished within the 100 s that the oldest of two has waited; then none since
    # then, but one in the last ten minutes; then none.
    assert 200 <= waits[0] < 400
    assert waits[1:] == [1200, 3600]


def test_waiting_jobs_can_be_cancelled_by_request_or_client(
    queueing: FlaskClient, ask: Ask, small: Settings
) -> None:
    first = named(ask(NEAR, 2))
    (other,) = named(ask("192.0.2.2"))
    assert "192.0.2.2" in run_here(queue, small, "list").stdout
    assert run_here(queue, small, "cancel", first[0]).exit_code == 0
    ended = queueing.get(f"/api/v2/requests/{first[0]}").json
    assert (ended["state"], ended["reason"]) == ("error", "cancelled by the operator")
    again = run_here(queue, small, "cancel", first[0])
    assert (again.exit_code, "thoth queue list" in again.stderr) == (2, True)
    purged = run_here(queue, small, "purge", "--queue", "people", "--client", NEAR, "--json")
    assert json.loads(purged.stdout) == {"cancelled": 1}
    assert order(small) == [other]
    assert run_here(queue, small, "purge", "--queue", "people").stdout == "1 job cancelled\n"
    assert order(small) == []


def test_request_body_that_arrives_as_its_time_runs_out_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "BODY_S", 0.01)
    app = _app(lambda: str(LATE in request.environ))
    sent: list[http_server.Message] = []

    async def receive() -> http_server.Message:
        with suppress(asyncio.CancelledError):  # as asyncio.wait_for does before Python 3.12
            await asyncio.sleep(60)
        return {"type": "http.request", "body": b"half", "more_body": True}

    async def send(message: http_server.Message) -> None:
        sent.append(message)

    asyncio.run(http_server.ThreadedApp(app, 1)(_POST, receive, send))
    assert [it.get("status", it.get("body")) for it in sent] == [200, b"True"]


def test_request_body_can_be_read_after_its_client_has_left() -> None:
    begun, left, ended = Event(), Event(), Event()
    bodies: list[bytes] = []

    def view() -> str:
        begun.set()
        left.wait(DEADLINE_S)
        try:
            bodies.append(request.get_data())
        finally:
            ended.set()
        return ""

    async def receive() -> http_server.Message:
        return {"type": "http.request", "body": b"whole", "more_body": False}

    async def send(_message: http_server.Message) -> None: ...

    async def leave() -> None:
        task = asyncio.ensure_future(http_server.ThreadedApp(_app(view), 1)(_POST, receive, send))
        await asyncio.to_thread(begun.wait, DEADLINE_S)
        task.cancel()
        await asyncio.wait([task])
        left.set()
        await asyncio.to_thread(ended.wait, DEADLINE_S)

    asyncio.run(leave())
    assert bodies == [b"whole"]


#: A request, as a server of ASGI describes it.
_POST: http_server.Message = {
    "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"",
    "http_version": "1.1", "scheme": "http", "server": None, "client": None, "headers": (),
}  # fmt: skip


def _app(view: Callable[[], str]) -> Flask:
    app = Flask(__name__)
    app.add_url_rule("/", "view", view, methods=["POST"])
    app.config["UPLOAD_BYTES"] = MIB
    return app
