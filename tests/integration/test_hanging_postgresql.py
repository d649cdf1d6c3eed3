"""A PostgreSQL that hangs, with its connections open: the service answers nevertheless."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from flask.testing import FlaskClient

from api.app import create_app
from api.service import EXTENSION
from common.errors import StoreUnavailable
from common.settings import Settings
from tests.services.proxy import Proxy, proxy_to
from tests.services.waiting import DEADLINE_S, wait_until

LIST = "/api/v2/packages"


@pytest.fixture
def proxy(settings: Settings) -> Iterator[Proxy]:
    port = urlsplit(settings.database_url or "").port
    assert port is not None
    with proxy_to(port) as made:
        yield made


@pytest.fixture
def client(settings: Settings, proxy: Proxy) -> Iterator[FlaskClient]:
    url = re.sub(r":\d+/", f":{proxy.port}/", settings.database_url or "")
    app = create_app(replace(settings, database_url=url, rate_limit=None), threads=4)
    try:
        yield app.test_client()
    finally:
        app.extensions[EXTENSION].close()


def test_a_database_that_hangs_is_given_up_and_found_again(
    client: FlaskClient, proxy: Proxy
) -> None:
    assert client.get(LIST).status_code == 200
    proxy.stop()
    for path in (LIST, "/readyz", LIST):
        assert client.get(path).status_code == 503
        assert client.get("/livez").status_code == 200
    proxy.go_on()
    wait_until(lambda: client.get(LIST).status_code == 200, "PostgreSQL answers again")


def test_requests_that_wait_already_are_given_up(client: FlaskClient, proxy: Proxy) -> None:
    stores = client.application.extensions[EXTENSION]
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            with stores.writing() as connection:
                connection.exec_driver_sql("SELECT pg_sleep(1e6)")
        except StoreUnavailable as error:
            ended.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    # In a longer transaction, the view would not change.
    with stores.glancing() as connection:
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(1e6)'"
        wait_until(
            lambda: connection.exec_driver_sql(sleeping).scalar() == 3, "three statements run"
        )
    proxy.stop()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(ended) == 3


def test_a_statement_that_takes_long_is_left_alone(client: FlaskClient) -> None:
    stores = client.application.extensions[EXTENSION]
    with stores.reading() as connection:
        # Longer than the time after which the watch asks whether the server hangs.
        assert connection.exec_driver_sql("SELECT 7 FROM pg_sleep(2.5)").scalar() == 7
