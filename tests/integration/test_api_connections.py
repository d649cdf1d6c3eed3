"""How long a client is waited for that reads or sends slowly, and what TLS is spoken with."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace

import pytest

from api.http.request_bodies import TooManySlow
from api.server import slow_clients
from api.server.certificates import self_signed
from api.server.http_server import _ReloadedTls
from api.server.raw_errors import write_problem
from api.server.slow_clients import AnswerWriter, BodyReader


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "BODY_S", 0.05)
    monkeypatch.setattr(slow_clients, "PROMPT_S", 0.01)
    monkeypatch.setattr(slow_clients, "BYTES_PER_S", 1e9)


@pytest.mark.parametrize("write", [AnswerWriter.sendall, AnswerWriter.send])
def test_who_does_not_read_is_not_waited_for(
    pair: tuple[socket.socket, socket.socket], write: Callable[[AnswerWriter, bytes], object]
) -> None:
    ours, theirs = pair
    outgoing = AnswerWriter(ours, Semaphore(1))
    write(outgoing, b"it is read")
    assert theirs.recv(100) == b"it is read"
    with pytest.raises(BrokenPipeError):
        write(outgoing, b"x" * 10_000_000)
    assert ours.gettimeout() is None


def test_many_answers_are_waited_for_no_longer_than_one(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, _ = pair
    outgoing = AnswerWriter(ours, Semaphore(1))
    with pytest.raises(BrokenPipeError):
        outgoing.sendall(b"x" * 10_000_000)
    waited_s = outgoing._patience.waited_s
    for _ in range(3):
        with pytest.raises(BrokenPipeError):
            outgoing.sendall(b"x")
    assert outgoing._patience.waited_s == waited_s


def test_places_for_slow_readers_are_few(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    outgoing = AnswerWriter(ours, Semaphore(0))
    with pytest.raises(BrokenPipeError) as broken:
        outgoing.sendall(b"x" * 10_000_000)
    assert isinstance(broken.value.__cause__, TooManySlow)
    theirs.setblocking(False)
    with suppress(BlockingIOError):
        while theirs.recv(1_000_000):
            pass
    # What need not wait needs no place.
    outgoing.sendall(b"prompt")
    assert theirs.recv(100) == b"prompt"


def test_a_refusal_waits_for_nobody(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    write_problem(ours, 408, "Request Timeout", "it took long")
    assert theirs.recv(10_000).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    with suppress(BlockingIOError):
        while ours.send(b"x" * 1000):
            pass
    with pytest.raises(BlockingIOError):
        write_problem(ours, 408, "Request Timeout", "it took long")


def test_who_sends_nothing_is_not_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    incoming = BodyReader(ours, Semaphore(1))
    theirs.sendall(b"a body")
    assert incoming.chunk() == b"a body"
    with pytest.raises(TimeoutError) as slow:
        incoming.chunk()
    assert not isinstance(slow.value, TooManySlow)
    theirs.sendall(b"more")
    incoming.begin(b"the next head")
    assert (incoming.read(), incoming.read()) == (b"the next head", b"more")


def test_places_for_slow_bodies_are_few(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    taken = Semaphore(0)
    with pytest.raises(TooManySlow):
        BodyReader(ours, taken).chunk()
    theirs.sendall(b"prompt")
    assert BodyReader(ours, taken).chunk() == b"prompt"


def test_a_certificate_that_was_renewed_is_taken_up(tmp_path: Path) -> None:
    made = self_signed(tmp_path, [])
    config = SimpleNamespace(certfile=str(made.path), keyfile=str(made.key_path))
    contexts = _ReloadedTls()

    def load() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.certfile, config.keyfile)
        return context

    first = contexts(config, load)
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    assert contexts(config, load) is first
    key = made.key_path.read_bytes()
    made.key_path.write_bytes(b"half of a k")
    assert contexts(config, load) is first
    made.key_path.write_bytes(key)
    os.utime(made.key_path, ns=(1, 1))
    assert contexts(config, load) is not first
