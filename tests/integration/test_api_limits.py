"""How much one client may ask, and what of it counts against others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.app import create_app
from api.service import EXTENSION
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope, create_token, revoke_token

BAD = {"Authorization": "Bearer thoth_nobody-has-it"}
MANY = "/problems/too-many-requests"


@pytest.fixture
def narrow(stores: Stores) -> Settings:
    """Three requests an hour."""
    return replace(stores.settings, rate_limit="3/hour")


@contextmanager
def client_with(settings: Settings, **changes: Any) -> Iterator[FlaskClient]:
    app = create_app(replace(settings, **changes))
    try:
        yield app.test_client()
    finally:
        app.extensions[EXTENSION].close()


@pytest.fixture
def client(narrow: Settings) -> Iterator[FlaskClient]:
    with client_with(narrow) as made:
        yield made


def shown(stores: Stores) -> tuple[str, dict[str, str]]:
    """A new token: its identifier, and the header that shows it."""
    with stores.engine.begin() as connection:
        token, secret = create_token(connection, "test", [Scope.READ], None)
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
def test_tokens_in_urls_count_as_failed_logins(narrow: Settings, allowed: bool) -> None:
    with client_with(narrow, query_tokens=allowed) as client:
        answers = [client.get(f"/api/v1?token=thoth_{it}") for it in range(4)]
        assert statuses(answers) == [401, 401, 401, 429]
        assert int(answers[3].headers["Retry-After"]) > 0


def test_invalid_authorization_header_counts_as_a_failed_login(client: FlaskClient) -> None:
    answers = [client.get("/api/v1", headers={"Authorization": "Basic eA=="}) for _ in range(4)]
    assert statuses(answers) == [401, 401, 401, 429]


def test_known_token_is_accepted_although_its_address_guesses(
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


def test_ipv6_network_of_64_bits_is_one_client(client: FlaskClient) -> None:
    def ask(address: str) -> int:
        return client.get("/api/v1", environ_base={"REMOTE_ADDR": address}).status_code

    assert [ask(f"2001:db8::{it}:1") for it in range(4)] == [200, 200, 200, 429]
    assert ask("2001:db8:0:1::1") == 200


def test_requests_of_a_token_count_together_from_any_address(
    client: FlaskClient, stores: Stores
) -> None:
    _, known = shown(stores)
    answers = [
        client.get("/api/v1", headers=known, environ_base={"REMOTE_ADDR": f"192.0.2.{it}"})
        for it in range(4)
    ]
    assert statuses(answers) == [200, 200, 200, 429]


def test_metrics_from_local_addresses_are_not_limited(client: FlaskClient, stores: Stores) -> None:
    _, header = shown(stores)
    far = {"environ_overrides": {"REMOTE_ADDR": "192.0.2.7"}}
    assert statuses([client.get("/metrics", **far) for _ in range(4)]) == [200, 200, 200, 429]
    assert statuses([client.get("/metrics", headers=header, **far) for _ in range(4)]) == [200] * 4
    assert statuses([client.get("/metrics") for _ in range(4)]) == [200] * 4
    assert statuses([client.get("/livez", **far) for _ in range(4)]) == [200] * 4
