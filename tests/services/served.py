"""The service as people run it: ``thoth serve`` and ``thoth worker`` as processes, over TLS.

``served`` is one of them for a whole run, on stores of its own; :func:`serving` starts another,
with other settings or files to look at after it ended.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import relational_engine
from graph.record.analyses import workers
from tests.services.commands import ROOT, program
from tests.services.waiting import DEADLINE_S, wait_until

_STOP_S = 60.0
_OURS = ("THOTH_HOME", "INDEX_CACHE", "DATABASE_URL", "GRAPH_URL", "RATE_LIMIT", "PACKAGE_INDEXES")


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
        return httpx.Client(
            base_url=self.base_url, verify=context, headers=headers, timeout=DEADLINE_S
        )

    def thoth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command on the same stores."""
        return program().run(arguments, self.environ, ROOT)

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
    everything |= {
        "THOTH_HOME": str(home),
        "INDEX_CACHE": str(home / "cache"),
        "RATE_LIMIT": "none",
        **(environ or {}),
    }
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
    return [sys.executable, "-c", "from cli.main import main; main()", *arguments]


def _start(environ: Mapping[str, str], log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            _command(*arguments), env=dict(environ), stdout=output, stderr=subprocess.STDOUT
        )


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    def address() -> str | None:
        assert server.poll() is None, log.read_text("utf-8")
        lines = log.read_text("utf-8").splitlines()
        serving = (line.split()[1] for line in lines if line.startswith("Serving "))
        return next(serving, None)

    url = wait_until(address, "the service says where it listens", log=log)
    return url.replace("127.0.0.1", "localhost")


def _wait(served: Served) -> None:
    """Until it is ready, and a worker gave a sign of life."""
    engine = relational_engine(served.settings)

    def ready() -> bool:
        for process, log in ((served.server, served.log), (served.worker, served.worker_log)):
            assert process.poll() is None, log.read_text("utf-8")
        # In a longer transaction, the time of PostgreSQL would stand still.
        with engine.connect() as connection:
            working = workers(connection, timedelta(seconds=20))
        return bool(working) and client.get("/readyz").status_code == 200

    try:
        with served.client() as client:
            wait_until(ready, "the service and a worker are ready", log=served.worker_log)
    finally:
        engine.dispose()
