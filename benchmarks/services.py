"""The service as processes, and a bare Flask view behind the same server, for measurements."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.homes import THOTH, Home
from benchmarks.load import Client

WORKERS, THREADS = 2, 8
_START_S, _STOP_S = 120.0, 60.0
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Running:
    """A server on loopback, without TLS.

    :param process: ends with all its children
    """

    port: int
    process: subprocess.Popen[bytes]

    def client(self, token: str | None = None) -> Client:
        """A connection of its own."""
        return Client(self.port, token)

    def memory_mib(self) -> float:
        """Proportional set size of all its processes: what is shared counts once."""
        found = psutil.Process(self.process.pid)
        return sum(_pss(it) for it in (found, *found.children(recursive=True))) / _MIB


@contextmanager
def thoth_service(home: Home) -> Iterator[Running]:
    """``thoth serve`` with its workers, on the stores of a home."""
    # Requests are counted as always, and all of them come from one address.
    environ = {**home.environ, "RATE_LIMIT": "1000000/second", "FETCH_MISSING": "0"}
    options = ("--port", "0", "--workers", str(WORKERS), "--threads", str(THREADS))
    log = home.path / "serve.log"
    port = _free_port()
    options = ("--port", str(port), *options[2:])
    command = (THOTH, "serve", *options, "--with-workers")
    with _running(command, environ, log, port, "/readyz") as running:
        yield running


@contextmanager
def bare_service(folder: Path, body_bytes: int) -> Iterator[Running]:
    """Two constant views behind the same server with the same options."""
    port = _free_port()
    command = (
        sys.executable, "-m", "gunicorn", "benchmarks.bare:app", "--bind", f"127.0.0.1:{port}",
        "--workers", str(WORKERS), "--worker-class", "gthread", "--threads", str(THREADS),
        "--keep-alive", "15", "--worker-tmp-dir", "/dev/shm", "--log-level", "warning",
    )  # fmt: skip
    environ = {**os.environ, "BARE_BYTES": str(body_bytes)}
    with _running(command, environ, folder / "bare.log", port, "/small") as running:
        yield running


def token_of(home: Home, *scopes: str) -> str:
    """The secret of a new token."""
    options = [it for scope in scopes for it in ("--scope", scope)]
    return str(home.thoth("token", "create", "benchmark", *options)["secret"])


@contextmanager
def _running(
    command: tuple[str, ...], environ: Mapping[str, str], log: Path, port: int, ready: str
) -> Iterator[Running]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=dict(environ), stdout=output, stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
    running = Running(port, process)
    try:
        _wait(running, ready, log)
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(running: Running, path: str, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and running.process.poll() is None:
        client = running.client()
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
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0
