"""Clients that wait, drip and never hang up, many more of them than the service has threads."""

import itertools
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from api.server.http_server import GRACE_S
from graph.engine import relational_engine
from tests.services.served import Served, end
from tests.services.waiting import wait_until, waiting_for_locks

# What is tested here are times that run out.
pytestmark = pytest.mark.faults

#: To two threads, each of which would wait for some seconds for each of them.
MANY = 40
#: Far less than that, and far more than a busy machine needs for one answer.
PATIENCE_S = 60.0
ADVISE = "/api/v1/advise/python?recommendation_type=latest"
UPLOADS = "/api/v2/inspections"
MIB = 1024**2
HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01"
HALF_A_HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: Of a client that does not read; with small segments a server buffers little for it, too.
BUFFER_BYTES, SEGMENT_BYTES = 2048, 536


@dataclass(frozen=True, slots=True)
class Small:
    """A server of one process with two threads, on the stores of the service."""

    port: int
    tls: bool
    served: Served

    @property
    def base_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def client(self) -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.served.ca))
        return httpx.Client(base_url=self.base_url, verify=context, timeout=PATIENCE_S)

    def connect(self) -> socket.socket:
        """A connection without a handshake."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def secured(self) -> socket.socket:
        """A connection on which HTTP may be spoken."""
        return self._secure(self.connect())

    def narrow(self) -> socket.socket:
        """The same, and what is not read soon has no place in buffers."""
        plain = socket.socket()
        plain.settimeout(PATIENCE_S)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        plain.connect(("127.0.0.1", self.port))
        return self._secure(plain)

    def _secure(self, plain: socket.socket) -> socket.socket:
        if not self.tls:
            return plain
        context = ssl.create_default_context(cafile=str(self.served.ca))
        return context.wrap_socket(plain, server_hostname="localhost")


@contextmanager
def small(served: Served, *options: str) -> Iterator[Small]:
    folder = Path(tempfile.mkdtemp(prefix="thoth-small-"))
    log = folder / "serve.log"
    command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--workers", "1"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--threads", "2", "--metrics-dir", str(folder), *options],
            env={**served.environ, "BODY_LIMIT_MB": "1"}, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:

        def is_ready() -> bool:
            assert server.poll() is None, log.read_text("utf-8")
            return "service_ready" in log.read_text("utf-8")

        wait_until(is_ready, "the server is ready", log=log)
        line = next(it for it in log.read_text("utf-8").splitlines() if it.startswith("Serving "))
        yield Small(int(line.rpartition(":")[2]), "--tls-self-signed" in options, served)
        assert end(server) == 0
        assert "Traceback" not in log.read_text("utf-8")
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def plain(served: Served) -> Iterator[Small]:
    with small(served) as running:
        yield running


@pytest.fixture(scope="module")
def secured(served: Served) -> Iterator[Small]:
    with small(served, "--tls-self-signed") as running:
        yield running


@pytest.fixture(params=["plain", "secured"])
def server(request: pytest.FixtureRequest) -> Small:
    found: Small = request.getfixturevalue(request.param)
    return found


def test_liveness_is_answered_while_all_threads_wait(server: Small) -> None:
    engine = relational_engine(server.served.settings)
    headers = {"Authorization": "Bearer unknown"}
    try:
        with engine.connect() as holder, server.client() as client:
            holder.execute(text("LOCK TABLE tokens"))  # whoever shows a token waits for it
            threads = [
                threading.Thread(target=lambda: client.get(ADVISE, headers=headers))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            wait_until(lambda: waiting_for_locks(engine) == 2, "both threads wait")
            for path in ("/livez", "/liveness"):
                assert client.get(path).status_code == 200
            assert waiting_for_locks(engine) == 2
            holder.rollback()
            for thread in threads:
                thread.join()
    finally:
        engine.dispose()


@contextmanager
def many(
    connect: Callable[[], socket.socket], how_many: int = MANY
) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect()) for _ in range(how_many)]


@contextmanager
def dripping(connections: list[socket.socket], drop: bytes) -> Iterator[None]:
    """Send a little on every connection again and again."""
    enough = threading.Event()

    def drip() -> None:
        while not enough.wait(0.3):
            for it in connections:
                try:
                    it.sendall(drop)
                except OSError:
                    continue

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def statuses(connections: list[socket.socket]) -> set[int]:
    """What the server answered before it closed each of them; 0 for nothing."""
    answers = map(all_of, connections)
    return {int(answer.split()[1]) if answer else 0 for answer in answers}


def all_of(connection: socket.socket) -> bytes:
    """What the server sends until it ends the connection."""
    answer = b""
    try:
        while data := connection.recv(65_536):
            answer += data
    except ConnectionError:
        pass
    return answer


def lives(server: Small) -> bool:
    with server.client() as client:
        return client.get("/livez").status_code == 200


def test_silent_connections_do_not_delay_other_clients(server: Small) -> None:
    with many(server.connect), many(server.secured):
        assert lives(server)


def test_an_unfinished_tls_handshake_does_not_delay_other_clients(secured: Small) -> None:
    with many(secured.connect) as connections:
        for it in connections:
            it.sendall(HALF_A_HANDSHAKE)
        assert lives(secured)


def test_a_slow_request_head_does_not_delay_other_clients(server: Small) -> None:
    with many(server.secured) as connections, dripping(connections, b"X-More: and more\r\n"):
        for it in connections:
            it.sendall(HALF_A_HEAD)
        assert lives(server)


def test_a_slow_request_body_is_refused_and_does_not_delay_other_clients(server: Small) -> None:
    head = f"POST {ADVISE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with many(server.secured) as connections, dripping(connections, b" "):
        for it in connections:
            it.sendall(head.encode() + b"Content-Length: 9999\r\n\r\n{")
        assert lives(server)
        assert statuses(connections) == {408}


def test_clients_that_keep_connections_open_do_not_delay_others(server: Small) -> None:
    with many(server.secured) as connections:
        for it in connections:
            it.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert lives(server)
        assert statuses(connections) == {200}


def test_clients_that_do_not_read_do_not_delay_others(server: Small) -> None:
    with many(server.narrow) as connections:
        for it in connections:
            it.sendall(LARGE * 10)
        assert lives(server)


def test_idle_connections_do_not_delay_the_shutdown(served: Served) -> None:
    with ExitStack() as stack:
        with small(served) as server:
            idle = stack.enter_context(server.connect())
            began = time.monotonic()
        assert time.monotonic() - began < GRACE_S
        assert statuses([idle]) == {0}


def test_a_stop_reaches_a_process_that_is_just_starting(served: Served) -> None:
    """The signal comes between the fork and the handlers of the new process."""
    program = """
import os, signal, time
from api.server import http_server
from cli.main import main

def late(worker, handle=http_server._Worker.init_signals):
    os.kill(os.getppid(), signal.SIGTERM)
    while signal.SIGTERM not in signal.sigpending():
        time.sleep(0.01)
    handle(worker)
    print("handled", flush=True)

http_server._Worker.init_signals = late
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve", "--port", "0", "--workers", "1"],
        env=served.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, "handled" in ended.stdout) == (0, True), ended.stderr


def test_request_heads_are_read_byte_by_byte_and_pipelined(plain: Small) -> None:
    with plain.connect() as it:
        for byte in HALF_A_HEAD:
            it.sendall(bytes([byte]))
        it.sendall(b"\r\n" + HALF_A_HEAD + b"\r\n" + HALF_A_HEAD + b"Connection: close\r\n\r\n")
        assert all_of(it).count(b"HTTP/1.1 200 OK") == 3


def test_a_request_head_above_the_limit_is_refused(server: Small) -> None:
    with server.secured() as it:
        # In one piece: whoever still sends when the server closes may not see its answer.
        it.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200)
        assert statuses([it]) == {431}


class TestBodies:
    @pytest.fixture
    def uploads(self, plain: Small) -> Iterator[httpx.Client]:
        with plain.client() as client:
            client.headers["Authorization"] = f"Bearer {plain.served.token('ingest')}"
            client.headers["Content-Type"] = "application/zip"
            yield client

    def stored(self, server: Small) -> int:
        engine = relational_engine(server.served.settings)
        with engine.connect() as connection:
            found = connection.scalar(text("SELECT count(*) FROM analyses WHERE kind = 'upload'"))
        engine.dispose()
        return int(found or 0)

    def test_oversized_chunked_upload_is_refused(self, plain: Small, uploads: httpx.Client) -> None:
        before = self.stored(plain)
        for more in (b"x", b"x" * MIB):
            parts = itertools.chain([b"x" * (MIB // 4)] * 4, [more])
            answer = uploads.post(UPLOADS, content=parts)
            assert answer.status_code == 413, answer.text
            assert answer.json()["type"] == "/problems/too-large"
        assert self.stored(plain) == before
        assert uploads.post(UPLOADS, content=iter([b"y" * MIB])).status_code == 202
        assert self.stored(plain) == before + 1

    def test_chunked_json_beyond_the_size_limit_is_refused(self, plain: Small) -> None:
        with plain.client() as client:
            told = {"Content-Type": "application/json"}
            body = b'{"files": {"requirements.txt": "flask"}}' + b" " * MIB
            answer = client.post(
                "/api/v2/advice", content=iter([body, b" " * 2 * MIB]), headers=told
            )
            assert answer.status_code == 413, answer.text

    @pytest.mark.parametrize(
        ("framing", "sent"),
        [
            (b"Content-Length: 100", b"half"),
            (b"Transfer-Encoding: chunked", b"4\r\nhalf\r\n"),
            (b"Transfer-Encoding: chunked", b"4\r\nhalf\r\n9\r\nhalf"),
            (b"Transfer-Encoding: chunked", b"4\r\nhalf\r\nno length\r\n"),
        ],
    )
    def test_incomplete_request_body_is_refused(
        self, plain: Small, uploads: httpx.Client, framing: bytes, sent: bytes
    ) -> None:
        before = self.stored(plain)
        names = ("Authorization", "Content-Type")
        head = [f"POST {UPLOADS} HTTP/1.1", "Host: localhost"]
        head += [f"{name}: {uploads.headers[name]}" for name in names]
        with plain.connect() as it:
            it.sendall("\r\n".join([*head, ""]).encode() + framing + b"\r\n\r\n" + sent)
            it.shutdown(socket.SHUT_WR)
            assert statuses([it]) <= {400, 0}
        assert self.stored(plain) == before
