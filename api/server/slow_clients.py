"""Limits for clients that send or read slowly: waiting times, and the number of waiting threads."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Semaphore
from typing import TypeVar

from gunicorn.http.unreader import SocketUnreader

from api.http.request_bodies import TooManySlow

#: Time limit for a client to send a body or to read responses, s, ...
BODY_S = 10.0
#: ... extended by a second for each so many bytes.
BYTES_PER_S = 16_384
#: A client that makes a thread wait for longer needs a place for slow clients, s, ...
PROMPT_S = 0.25
#: ... extended by a second for each so many bytes.
PROMPT_BYTES_PER_S = 1_048_576
#: Maximum size of a TLS record. Reading as much leaves nothing that only the TLS layer buffers.
RECORD_BYTES = 16_384

_T = TypeVar("_T")


@dataclass(slots=True)
class WaitBudget:
    """The time that is left for a client; it grows with the bytes that the client sends or reads.

    :param slow: number of free places for slow clients
    """

    slow: Semaphore
    moved_bytes: int = 0
    waited_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the time limit; 0 or negative after it.

        >>> WaitBudget(Semaphore(), moved_bytes=2 * 16_384, waited_s=11.0).left_s
        1.0
        """
        return BODY_S + self.moved_bytes / BYTES_PER_S - self.waited_s

    @property
    def prompt_s(self) -> float:
        """Seconds until the client counts as slow and needs a place; 0 or negative after that.

        >>> WaitBudget(Semaphore(), moved_bytes=2 * 1_048_576, waited_s=2.0).prompt_s
        0.25
        """
        return PROMPT_S + self.moved_bytes / PROMPT_BYTES_PER_S - self.waited_s

    def move(self, sock: socket.socket, act: Callable[[], _T]) -> _T:
        """Run an operation on ``sock`` that may block.

        :raises TooManySlow: if it needs a place for slow clients and none is free
        :raises TimeoutError: if the time limit passes
        """
        try:
            with _timeout(sock, 0.0):
                return act()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        if self.prompt_s > 0:
            try:
                with self._waiting(sock, self.prompt_s):
                    return act()
            except TimeoutError:
                pass
        if not self.slow.acquire(blocking=False):
            raise TooManySlow
        try:
            with self._waiting(sock):
                return act()
        finally:
            self.slow.release()

    @contextmanager
    def _waiting(self, sock: socket.socket, at_most_s: float = float("inf")) -> Iterator[None]:
        before = sock.gettimeout()
        bound_s = min(self.left_s, at_most_s, float("inf") if before is None else before)
        if bound_s <= 0:
            raise TimeoutError("the client is too slow")
        started = time.monotonic()
        try:
            with _timeout(sock, bound_s):
                yield
        finally:
            self.waited_s += time.monotonic() - started


class BodyReader(SocketUnreader):
    """Reads the body of a request in a thread."""

    def __init__(self, sock: socket.socket, slow: Semaphore) -> None:
        super().__init__(sock, RECORD_BYTES)
        self._slow = slow
        self._patience = WaitBudget(slow)

    def begin(self, head: bytes) -> None:
        """Start a new request with the data that was read already."""
        self.unread(head)
        self._patience = WaitBudget(self._slow)

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Read the next data.

        :raises TooManySlow: if it arrives slowly while too many other clients are slow
        :raises TimeoutError: if nothing arrives in time
        """
        data: bytes = self._patience.move(self.sock, partial(super().chunk, size_hint))
        self._patience.moved_bytes += len(data)
        return data


class AnswerWriter:
    """Writes the responses of a connection; gunicorn uses it as the socket.

    All responses share one time limit, so that pipelined requests do not extend it.
    """

    def __init__(self, sock: socket.socket, slow: Semaphore) -> None:
        self._sock = sock
        self._patience = WaitBudget(slow)

    def send(self, data: bytes) -> int:
        """Write all of ``data``, and return its length."""
        self.sendall(data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Write all of ``data``.

        :raises BrokenPipeError: if the client reads too slowly
        """
        rest = memoryview(data)
        while rest:
            # TLS sends a record completely or not at all.
            part = rest[:RECORD_BYTES]
            try:
                sent = self._patience.move(self._sock, partial(self._sock.send, part))
            except TimeoutError as error:
                raise BrokenPipeError(errno.EPIPE, "the client does not read") from error
            # Data that did not have to wait went to buffers; the client may not have read any.
            if self._patience.waited_s:
                self._patience.moved_bytes += sent
            rest = rest[sent:]

    def shutdown(self, _how: int) -> None:
        """:raises OSError: always: the loop ends connections, and holds no thread for that"""
        raise OSError(errno.EOPNOTSUPP, "the loop ends connections")

    def close(self) -> None:
        """Do nothing: the loop closes connections."""


@contextmanager
def _timeout(sock: socket.socket, seconds: float) -> Iterator[None]:
    before = sock.gettimeout()
    sock.settimeout(seconds)
    try:
        yield
    finally:
        sock.settimeout(before)
