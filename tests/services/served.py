"""The service as people run it: ``thoth serve`` and ``thoth worker`` as processes, over TLS.

``served`` is one of them for a whole run, on stores of its own; :func:`serving` starts another,
with other settings or files to look at after it ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from common.settings import Settings
from graph.embedded import EmbeddedStores
from graph.engine import relational_engine
from graph.repositories.service_figures import workers

#: A machine that does much else may need long for it.
_START_S = 120.0
_STOP_S = 60.0
_OURS = ("THOTH_HOME", "DATABASE_URL", "GRAPH_URL", "RATE_LIMIT", "PACKAGE_INDEXES")


@dataclass(frozen=True, slots=True)
class Served:
    """A running service.

    :param base_url: ``https://localhost:PORT``
    :param ca: PEM file that clients trust it by
    :param log: what the server wrote, on standard output and standard error
    :param worker_log: the same of the worker
    """

    base_url: str
    ca: Path
    settings: Settings
    environ: Mapping[str, str]
    server: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]
    log: Path
    worker_log: Path

    def client(self, secret: str | None = None) -> httpx.Client:
        """A client that trusts the certificate, and shows a token if it has one."""
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        context = ssl.create_default_context(cafile=str(self.ca))
        return httpx.Client(base_url=self.base_url, verify=context, headers=headers, timeout=60)

    def thoth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command on the same stores."""
        return subprocess.run(
            _command(*arguments), env=dict(self.environ), capture_output=True, text=True,
            timeout=_START_S, check=False,
        )  # fmt: skip

    def token(self, *scopes: str) -> str:
        """The secret of a new token."""
        options = [it for scope in scopes for it in ("--scope", scope)]
        made = self.thoth("token", "create", "a test", *options, "--json")
        assert made.returncode == 0, made.stderr
        return str(json.loads(made.stdout)["secret"])


@contextmanager
def serving(
    home: Path, environ: Mapping[str, str] | None = None, *, queues: Sequence[str] = ()
) -> Iterator[Served]:
    """A service with a home of its own, and a worker for ``queues`` (all of them by default).

    :param environ: settings beside the home
    """
    everything = {name: value for name, value in os.environ.items() if name not in _OURS}
    # Tests ask as fast as they can, and all from one address.
    everything |= {"THOTH_HOME": str(home), "RATE_LIMIT": "none", **(environ or {})}
    settings = Settings.from_env(everything)
    log, worker_log = home / "serve.log", home / "worker.log"
    options = [it for queue in queues for it in ("--queue", queue)]
    server = _start(everything, log, "serve", "--tls-self-signed", "--port", "0")
    worker = None
    try:
        base_url = _address(server, log)
        worker = _start(everything, worker_log, "worker", *options)
        ca = home / "tls" / "certificate.pem"
        served = Served(base_url, ca, settings, everything, server, worker, log, worker_log)
        _wait(served)
        yield served
    finally:
        for process in filter(None, (worker, server)):
            end(process)
        EmbeddedStores(settings).stop()


def end(process: subprocess.Popen[bytes]) -> int:
    """Stop a process of the service as an operator does; its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The run's one service, with a worker for all queues."""
    home = Path(tempfile.mkdtemp(prefix="thoth-served-"))
    try:
        with serving(home) as running:
            yield running
    finally:
        shutil.rmtree(home)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from common.cli import main; main()", *arguments]


def _start(environ: Mapping[str, str], log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            _command(*arguments), env=dict(environ), stdout=output, stderr=subprocess.STDOUT
        )


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and server.poll() is None:
        for line in log.read_text("utf-8").splitlines():
            if line.startswith("Serving "):
                return line.split()[1].replace("127.0.0.1", "localhost")
        time.sleep(0.05)
    pytest.fail(f"the service did not start:\n{log.read_text('utf-8')}")


def _wait(served: Served) -> None:
    """Until it is ready, and a worker gave a sign of life."""
    until = time.monotonic() + _START_S
    engine = relational_engine(served.settings)
    try:
        with served.client() as client, engine.connect() as connection:
            while time.monotonic() < until and served.server.poll() is None:
                ready = client.get("/readyz").status_code == 200
                if ready and workers(connection, timedelta(seconds=20)):
                    return
                connection.rollback()  # what it sees of time would stand still
                time.sleep(0.1)
    finally:
        engine.dispose()
    logs = served.log.read_text("utf-8") + served.worker_log.read_text("utf-8")
    pytest.fail(f"the service is not ready:\n{logs}")
