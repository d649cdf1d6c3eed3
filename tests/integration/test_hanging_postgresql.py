"""A PostgreSQL that hangs, with its connections open: the service answers nevertheless."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from flask.testing import FlaskClient
from sqlalchemy import make_url

from api.app import create_app
from api.jobs.queue import PROJECT, Queue
from api.store_access import EXTENSION, ServiceStores
from common.settings import Settings
from graph import hung_stores
from graph.engine import Stores
from graph.projection import lag, sync
from graph.projection.outbox import only_projector
from graph.record.access import Scope, create_token
from model.errors import StoreUnavailable
from tests.factories.archives import zip_of
from tests.factories.inspections import inspection_files, stack_jobs
from tests.factories.rows import inspection_rows, store
from tests.services.jobs import client_of as uploading_client
from tests.services.jobs import ended, jobs_in, run_jobs
from tests.services.proxy import Proxy, proxy_to
from tests.services.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.faults

LIST, UPLOADS = "/api/v2/packages", "/api/v2/inspections"
JOBS = stack_jobs([100.0, 101.0], "inspection-a")
#: Errors of a request that waited for a new connection, and of one that failed at once.
WAITED, REFUSED = "no answer to a new connection", "the server hangs"


@pytest.fixture
def proxy(settings: Settings) -> Iterator[Proxy]:
    port = urlsplit(settings.database_url or "").port
    assert port is not None
    with proxy_to(port) as made:
        yield made


def hang(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the proxy, which counts as hanging soon; until now, it could take its time."""
    monkeypatch.setattr(hung_stores, "PROBE_S", 1.0)
    monkeypatch.setattr(hung_stores, "SLOW_S", 1.0)
    proxy.stop()


@contextmanager
def client_of(settings: Settings, *addresses: str) -> Iterator[FlaskClient]:
    """A client of a service whose PostgreSQL, which also counts requests, has these addresses."""
    url = make_url(settings.database_url or "").set(host=None, port=None)
    url = url.update_query_dict({"host": addresses})
    changed = replace(settings, database_url=url.render_as_string(hide_password=False))
    app = create_app(changed, threads=4)
    try:
        yield app.test_client()
    finally:
        app.extensions[EXTENSION].close()


@pytest.fixture
def client(settings: Settings, proxy: Proxy) -> Iterator[FlaskClient]:
    with client_of(settings, f"127.0.0.1:{proxy.port}") as made:
        yield made


def errors(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    """Errors of PostgreSQL in the log, oldest first."""
    return [vars(it)["error"] for it in caplog.records if it.getMessage() == message]


@pytest.mark.parametrize("connected", [True, False])
def test_hanging_database_is_given_up_and_used_again_after_recovery(
    client: FlaskClient,
    proxy: Proxy,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    connected: bool,
) -> None:
    if connected:
        assert client.get(LIST).status_code == 200
    hang(proxy, monkeypatch)
    for path in (LIST, "/readyz", LIST):
        assert client.get(path).status_code == 503
        assert client.get("/livez").status_code == 200
    # The first request waited, and nothing after it.
    _, *others = errors(caplog, "request_failed")
    assert others
    assert all(REFUSED in it for it in others)
    proxy.go_on()
    wait_until(lambda: client.get(LIST).status_code == 200, "PostgreSQL answers again")


def test_readiness_with_a_token_reports_a_hanging_database(
    settings: Settings, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = replace(settings, anonymous_scopes=())
    with client_of(closed, f"127.0.0.1:{proxy.port}") as client:
        with client.application.extensions[EXTENSION].writing() as connection:
            secrets = [create_token(connection, it, [Scope.READ], None)[1] for it in ("a", "b")]
        recent, unused = ({"Authorization": f"Bearer {it}"} for it in secrets)
        assert "thoth_record_up 1.0" in client.get("/metrics", headers=recent).text
        hang(proxy, monkeypatch)
        answer = client.get("/metrics", headers=recent)
        assert answer.status_code == 200
        assert "thoth_record_up 0.0" in answer.text
        assert client.get("/metrics", headers=unused).status_code == 503
        assert client.get(LIST, headers=recent).status_code == 503


def test_several_addresses_of_a_hanging_database_cause_a_single_wait(
    settings: Settings,
    proxy: Proxy,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = f"127.0.0.1:{proxy.port}"
    hang(proxy, monkeypatch)
    with client_of(settings, address, address) as client:
        assert client.get(LIST).status_code == 503
    (waited,) = errors(caplog, "request_failed")
    assert WAITED in waited


def test_waiting_requests_are_ended_when_the_database_hangs(
    client: FlaskClient, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A probe that is on its way when the proxy stops would wait for minutes.
    monkeypatch.setattr(hung_stores, "SLOW_S", DEADLINE_S)
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
    hang(proxy, monkeypatch)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(ended) == 3


def test_database_stall_stops_neither_projection_nor_uploads(
    stores: Stores, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(stores.settings.database_url or "").set(host="127.0.0.1", port=proxy.port)
    through = replace(stores.settings, database_url=url.render_as_string(hide_password=False))
    store(stores.engine, inspection_rows(30))
    service = ServiceStores(through)

    def stall(_done: int, _total: int) -> None:
        """Another statement notices it, so the connection of the projector stays open."""
        hang(proxy, monkeypatch)
        with suppress(StoreUnavailable), service.reading() as connection:
            connection.exec_driver_sql("SELECT 1")

    try:
        with service.stores() as opened, pytest.raises(StoreUnavailable) as ended_by:
            sync(opened.engine, opened.driver, database=opened.database, batch=1, progress=stall)
        proxy.go_on()

        def answers() -> bool:
            with suppress(StoreUnavailable), service.glancing() as connection:
                return connection.exec_driver_sql("SELECT true").scalar() is True
            return False

        wait_until(answers, "PostgreSQL answers again")
        # The error, which is still known, holds the connection of the lock.
        assert ended_by.value.store == "PostgreSQL"
        assert uploaded_state(stores.settings) == "succeeded"
        assert lag(stores.engine).count == 0
    finally:
        service.close()


def uploaded_state(settings: Settings) -> str:
    """The final state of an upload."""
    files = {f"inspection-a/{it}": data for it, data in inspection_files(JOBS).items()}
    with uploading_client(settings, Scope.INGEST) as client:
        accepted = client.post(UPLOADS, data=zip_of(files), content_type="application/zip")
        run_jobs(settings)
        return str(ended(client, accepted.headers["Location"])["state"])


def test_uploads_run_while_a_projection_waits_for_another(stores: Stores) -> None:
    with only_projector(stores.engine, 0.0):
        with stores.engine.begin() as connection:
            Queue(stores.engine, 10).enqueue(connection, PROJECT)
        assert uploaded_state(stores.settings) == "succeeded"
    assert ("graph.project", "todo") in jobs_in(stores.engine)


def test_long_statement_continues_while_the_database_answers(client: FlaskClient) -> None:
    stores = client.application.extensions[EXTENSION]
    with stores.reading() as connection:
        # Longer than the time after which the watch asks whether the server hangs.
        assert connection.exec_driver_sql("SELECT 7 FROM pg_sleep(2.5)").scalar() == 7
