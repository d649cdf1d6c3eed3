"""Clients that send or read slowly: how long a thread waits for them, and how many threads do."""

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

from api.request_bodies import TooManySlow

#: How long a client is waited for while it sends a body, or reads answers, ...
BODY_S = 10.0
#: ... and for how much more of it a second longer.
BYTES_PER_S = 16_384
#: Whoever keeps a thread waiting for longer takes one of the places for slow clients, ...
PROMPT_S = 0.25
#: ... and a second later for so much more of it.
PROMPT_BYTES_PER_S = 1_048_576
#: What one record of TLS may have. Whoever reads as much leaves none of it where no poll sees it.
RECORD_BYTES = 16_384

_T = TypeVar("_T")


@dataclass(slots=True)
class WaitBudget:
    """How much longer a client is waited for: the more it moves, the longer.

    :param slow: places for slow clients
    """

    slow: Semaphore
    moved_bytes: int = 0
    waited_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds; none if zero or less.

        >>> WaitBudget(Semaphore(), moved_bytes=2 * 16_384, waited_s=11.0).left_s
        1.0
        """
        return BODY_S + self.moved_bytes / BYTES_PER_S - self.waited_s

    @property
    def prompt_s(self) -> float:
        """How many seconds of these need no place; none if zero or less.

        >>> WaitBudget(Semaphore(), moved_bytes=2 * 1_048_576, waited_s=2.0).prompt_s
        0.25
        """
        return PROMPT_S + self.moved_bytes / PROMPT_BYTES_PER_S - self.waited_s

    def move(self, sock: socket.socket, act: Callable[[], _T]) -> _T:
        """Do what ``sock`` may block for.

        :raises TooManySlow: if that takes a place, and there is none
        :raises TimeoutError: if it takes too long
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
        """A new request, of which this was read."""
        self.unread(head)
        self._patience = WaitBudget(self._slow)

    def chunk(self, size_hint: int | None = None) -> bytes:
        """What came next.

        :raises TooManySlow: if it comes slowly, and too many others do
        :raises TimeoutError: if nothing came in time
        """
        data: bytes = self._patience.move(self.sock, partial(super().chunk, size_hint))
        self._patience.moved_bytes += len(data)
        return data


class AnswerWriter:
    """Writes the answers of a connection in threads: all that gunicorn asks of a socket meanwhile.

    They share one patience, so that nobody gets more of it who asks for many at once.
    """

    def __init__(self, sock: socket.socket, slow: Semaphore) -> None:
        self._sock = sock
        self._patience = WaitBudget(slow)

    def send(self, data: bytes) -> int:
        """The same as :meth:`sendall`; how much that was."""
        self.sendall(data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Write all of it.

        :raises BrokenPipeError: if the client does not read in time, or too many others do not
        """
        rest = memoryview(data)
        while rest:
            # TLS says of what it is given that it was sent, or nothing.
            part = rest[:RECORD_BYTES]
            try:
                sent = self._patience.move(self._sock, partial(self._sock.send, part))
            except TimeoutError as error:
                raise BrokenPipeError(errno.EPIPE, "the client does not read") from error
            # Before it had to wait, buffers took it: nobody need have read any.
            if self._patience.waited_s:
                self._patience.moved_bytes += sent
            rest = rest[sent:]

    def shutdown(self, _how: int) -> None:
        """:raises OSError: always: the loop ends connections, and holds no thread for that"""
        raise OSError(errno.EOPNOTSUPP, "the loop ends connections")

    def close(self) -> None:
        """Leave that to the loop."""


@contextmanager
def _timeout(sock: socket.socket, seconds: float) -> Iterator[None]:
    before = sock.gettimeout()
    sock.settimeout(seconds)
    try:
        yield
    finally:
        sock.settimeout(before)
