"""The service as processes, and a bare Flask view behind the same server, for measurements."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil

from benchmarks.fresh_stores import THOTH, FreshHome
from benchmarks.load import Client

WORKERS, THREADS = 2, 8
_START_S, _STOP_S = 120.0, 60.0
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Running:
    """A server on loopback, without TLS.

    :param processes: each ends with all its children
    :param roles: of the processes, in the same order
    """

    port: int
    processes: Sequence[subprocess.Popen[bytes]]
    roles: Sequence[str]

    def client(self, token: str | None = None) -> Client:
        """A connection of its own."""
        return Client(self.port, token)

    def memory_mib(self) -> float:
        """Proportional set size of all its processes: what is shared counts once."""
        return sum(map(_pss, self._tree())) / _MIB

    def cpu_s(self) -> dict[str, float]:
        """Processor time of server and workers so far, s, by role; without the stores."""
        return {
            role: sum(sum(it.cpu_times()[:2]) for it in _with_children(process))
            for role, process in zip(self.roles, self.processes, strict=True)
        }

    def _tree(self) -> list[psutil.Process]:
        return [it for process in self.processes for it in _with_children(process)]


def _with_children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


@contextmanager
def thoth_service(
    home: FreshHome,
    queues: Sequence[str] = ("people", "bulk"),
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Running]:
    """``thoth serve``, and a ``thoth worker`` a queue, on the stores of a home.

    :param environ: settings beside those of the home
    """
    # Requests are counted as always, and all of them come from one address.
    defaults = {"RATE_LIMIT": "1000000/second", "FETCH_MISSING": "0"}
    environ = {**home.environ, **defaults, **environ}
    port = _free_port()
    options = ("--port", str(port), "--workers", str(WORKERS), "--threads", str(THREADS))
    with ExitStack() as stack:
        server = stack.enter_context(
            _process((THOTH, "serve", *options), environ, home.path / "serve.log")
        )
        _wait(port, server, "/readyz", home.path / "serve.log")
        workers = [
            stack.enter_context(
                _process((THOTH, "worker", "--queue", it), environ, home.path / f"worker-{it}.log")
            )
            for it in queues
        ]
        yield Running(port, (server, *workers), ("server", *(f"worker {it}" for it in queues)))


@contextmanager
def bare_service(folder: Path, body_bytes: int) -> Iterator[Running]:
    """Two constant views behind the same server with the same options."""
    port = _free_port()
    command = (
        sys.executable, "-m", "gunicorn", "benchmarks.bare_flask_view:app",
        "--bind", f"127.0.0.1:{port}", "--workers", str(WORKERS),
        "--worker-class", "gthread", "--threads", str(THREADS),
        "--keep-alive", "15", "--log-level", "warning",
    )  # fmt: skip
    environ = {**os.environ, "BARE_BYTES": str(body_bytes)}
    with _process(command, environ, folder / "bare.log") as server:
        _wait(port, server, "/small", folder / "bare.log")
        yield Running(port, (server,), ("server",))


def token_of(home: FreshHome, *scopes: str) -> str:
    """The secret of a new token."""
    options = [it for scope in scopes for it in ("--scope", scope)]
    return str(home.thoth("token", "create", "benchmark", *options)["secret"])


@contextmanager
def _process(
    command: tuple[str, ...], environ: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended as operators do."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=dict(environ), stdout=output, stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(port: int, server: subprocess.Popen[bytes], path: str, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and server.poll() is None:
        client = Client(port)
        try:
            status, body = client.get(path)
        except OSError:
            status, body = 0, b""
        finally:
            client.close()
        if status == 200 and (path != "/readyz" or json.loads(body)["status"] == "ready"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{log.read_text('utf-8')}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0
