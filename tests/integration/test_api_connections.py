"""How long a client is waited for that reads or sends slowly, and what TLS is spoken with."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace

import pytest

from api import connections
from api.bodies import TooManySlow
from api.certificates import self_signed
from api.connections import _Incoming, _Outgoing
from api.server import _Contexts


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_S", 0.05)
    monkeypatch.setattr(connections, "PROMPT_S", 0.01)
    monkeypatch.setattr(connections, "BYTES_PER_S", 1e9)


def test_who_does_not_read_is_not_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    ours.setblocking(True)
    with pytest.raises(BrokenPipeError):
        _Outgoing(ours).sendall(b"x" * 10_000_000)
    assert ours.gettimeout() is None


def test_who_sends_nothing_is_not_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    incoming = _Incoming(ours, Semaphore(1))
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
        _Incoming(ours, taken).chunk()
    theirs.sendall(b"prompt")
    assert _Incoming(ours, taken).chunk() == b"prompt"


def test_a_certificate_that_was_renewed_is_taken_up(tmp_path: Path) -> None:
    made = self_signed(tmp_path, [])
    config = SimpleNamespace(certfile=str(made.path), keyfile=str(made.key_path))
    contexts = _Contexts()

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
