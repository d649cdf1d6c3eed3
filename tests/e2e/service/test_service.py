"""The service as processes: over TLS, killed, restarted and stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest
from sqlalchemy import text

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import relational_engine
from tests.services.commands import thoth
from tests.services.embedded import kill_store
from tests.services.served import Served, end, serving
from tests.services.waiting import DEADLINE_S, wait_until, waiting_for_locks

ADVISE = "/api/v1/advise/python"
QUERY = {
    "recommendation_type": "latest", "dev": "False", "debug": "False", "force": "False",
    "source_type": "cli", "origin": "None",
}  # fmt: skip
PIPFILE = '[packages]\nflask = "*"\n'
REQUEST = {
    "application_stack": {"requirements": PIPFILE, "requirements_lock": ""},
    "runtime_environment": {"python_version": "3.11"},
}


class Renewable:
    """A service that tests may end: the next one that asks for it gets another."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: Served | None = None

    def get(self) -> Served:
        running = self._running
        if running is None or {running.server.poll(), running.worker.poll()} != {None}:
            self.close()
            home = Path(tempfile.mkdtemp(prefix="thoth-hurt-"))
            self._stack.callback(shutil.rmtree, home)
            started = serving(home, {"ANONYMOUS_SCOPES": "none"}, queues=["people"])
            self._running = running = self._stack.enter_context(started)
        return running

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def renewable() -> Iterator[Renewable]:
    service = Renewable()
    yield service
    service.close()


@pytest.fixture
def own(renewable: Renewable) -> Served:
    """A service that tests may hurt."""
    return renewable.get()


def test_guard_trusts_a_self_signed_certificate_that_is_named(
    served: Served, tmp_path: Path
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("flask==3.1.2\n", encoding="utf-8")
    other = tmp_path / "new.txt"
    other.write_text("flask==3.1.3\n", encoding="utf-8")
    command = ("guard", str(lock), str(other), "--service", served.base_url)
    refused = thoth(served.settings, *command)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "hint: set SSL_CERT_FILE to a file with the certificate" in refused.stderr
    answered = thoth(served.settings, *command, SSL_CERT_FILE=str(served.ca))
    assert "flask: 3.1.2 → 3.1.3" in answered.stdout, answered.stderr


def test_the_certificate_is_for_every_name_of_this_machine(served: Served) -> None:
    port = served.base_url.rpartition(":")[2]
    context = ssl.create_default_context(cafile=str(served.ca))
    for name in ("localhost", "127.0.0.1"):
        with (
            socket.create_connection(("127.0.0.1", int(port))) as plain,
            context.wrap_socket(plain, server_hostname=name) as secured,
        ):
            assert secured.version() in {"TLSv1.2", "TLSv1.3"}
    assert (served.ca.parent / "key.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
        httpx.get(f"{served.base_url}/livez")


def test_server_reads_comparisons_at_start_up(served: Served) -> None:
    log = served.log
    wait_until(lambda: "comparisons_read" in log.read_text("utf-8"), "it has read them", log=log)


def test_metrics_add_up_the_counts_of_all_processes(served: Served) -> None:
    def counted(client: httpx.Client) -> float:
        pattern = r'thoth_http_requests_total\{method="GET",route="/api/v1",status="200"\} (\S+)'
        found = re.search(pattern, client.get("/metrics").text)
        return float(found[1]) if found else 0.0

    with served.client() as client:
        before = counted(client)
    for _ in range(8):  # connections of their own, so that both processes have some
        with served.client() as client:
            assert client.get("/api/v1").status_code == 200
    with served.client() as client:
        assert counted(client) == before + 8


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_successor_works(own: Served) -> None:
    supervisor = psutil.Process(own.worker.pid)
    (killed,) = supervisor.children()
    killed.send_signal(signal.SIGKILL)
    wait_until(
        lambda: {it.pid for it in supervisor.children()} not in ({killed.pid}, set()),
        "a worker is started again",
    )
    with own.client(own.token("advise", "read")) as client:
        accepted = client.post(ADVISE, params=QUERY, json=REQUEST)
        assert accepted.status_code == 202, accepted.text
        url = f"{ADVISE}/{accepted.json()['analysis_id']}/status"
        wait_until(
            lambda: client.get(url).json()["status"]["state"] in {"succeeded", "failed"},
            "the analysis has ended",
        )
        assert "thoth_worker_restarts_total 1.0" in client.get("/metrics").text


@pytest.mark.slow
def test_server_without_workers_restarts_dead_stores(own: Served) -> None:
    end(own.worker)
    stores = EmbeddedStores(own.settings)
    for kind in stores.kinds:
        kill_store(stores, kind)
    with own.client() as client:
        # Its answer is older than the death for up to two seconds.
        wait_until(lambda: all(stores.record_of(it) for it in stores.kinds), "both stores run")
        wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready", log=own.log)
    assert own.log.read_text("utf-8").count("store_died") == len(stores.kinds)


@pytest.mark.slow
def test_children_end_when_the_supervisor_dies(own: Served) -> None:
    children = psutil.Process(own.worker.pid).children()
    own.worker.kill()
    own.worker.wait()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive


@pytest.mark.slow
def test_running_request_is_finished_before_the_server_ends(own: Served) -> None:
    served = psutil.Process(own.server.pid).children()
    secret = own.token("read")
    engine = relational_engine(own.settings)
    try:
        with ThreadPoolExecutor(1) as pool, engine.connect() as holder:
            holder.execute(text("LOCK TABLE tokens"))  # whoever shows a token waits for it
            with own.client(secret) as client:
                answer = pool.submit(client.get, "/api/v1")
                wait_until(lambda: waiting_for_locks(engine) == 1, "a request runs")
                own.server.send_signal(signal.SIGTERM)
                wait_until(lambda: not accepts(own), "it takes no more requests")
                assert own.server.poll() is None
                holder.rollback()
                assert answer.result(DEADLINE_S).status_code == 200
    finally:
        engine.dispose()
    assert end(own.server) == 0
    assert not psutil.wait_procs(served, timeout=DEADLINE_S)[1]
    assert not list((own.settings.home / "run" / "metrics").glob("serve@*"))


def accepts(service: Served) -> bool:
    try:
        with service.client() as client:
            # A connection may still be queued, but nobody takes it.
            return client.get("/livez", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_up_command_stops_stores_and_service_when_it_ends(tmp_path: Path) -> None:
    environ = {**os.environ, "THOTH_HOME": str(tmp_path)}
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", "from cli.main import main; main()"]
        up = subprocess.Popen(
            [*command, "up", "--serve", "--port", "0"],
            env=environ, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        ready = "Ctrl-C stops the service"
        wait_until(lambda: ready in log.read_text("utf-8"), "the service starts", log=log)
        children = psutil.Process(up.pid).children()
        assert len(children) == 4
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE_S) == 0, log.read_text("utf-8")
        assert "{" not in log.read_text("utf-8")  # a person reads it
        assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
        stores = EmbeddedStores(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
        assert [stores.record_of(kind) for kind in stores.kinds] == [None, None]
    finally:
        up.kill()
        EmbeddedStores(Settings.from_env({"THOTH_HOME": str(tmp_path)})).stop()


def test_serving_other_machines_requires_tls() -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "cli", "serve", "--host", "0.0.0.0", "--port", "0"],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "--tls-self-signed" in refused.stderr


def test_an_open_service_reads_indexes_only_for_tokens() -> None:
    for reachable in (["--host", "0.0.0.0", "--tls-self-signed"], ["--behind-proxy"]):
        refused = subprocess.run(
            [sys.executable, "-m", "cli", "serve", *reachable, "--port", "0", "--fetch-missing"],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert (refused.returncode, "--fetch-missing" in refused.stderr) == (2, True)
