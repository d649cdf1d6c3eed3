"""Connections: the loop waits for clients, and threads are for requests that are there.

gunicorn's threads wait for whoever connects, and its loop for whoever does not hang up. Here
neither does: handshakes, heads of requests and farewells go on beside each other in the loop, and
all that a client may hold a thread with, a body or an answer, has a time to end by.
"""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Semaphore
from typing import Any

from gunicorn.http import get_parser
from gunicorn.http.unreader import SocketUnreader
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from api.bodies import TooManySlow
from api.unread import write_problem

#: From the first byte of a handshake, or of a request, to the end of its head.
HEAD_S = 10.0
#: What a head may have; the address and each field in it have smaller limits.
HEAD_BYTES = 65_536
#: How long a client is waited for while it sends a body, or reads an answer, ...
BODY_S = 10.0
#: ... and for how much more of it a second longer.
BYTES_PER_S = 16_384
#: A body that keeps a thread waiting for longer takes one of the places for slow ones.
PROMPT_S = 0.25
#: Until a client hung up that was told to, or that a server which stops still listens to.
FAREWELL_S = 2.0
_HEAD_ENDS = b"\r\n\r\n"
_READ_BYTES = 8192


@dataclass(slots=True)
class Patience:
    """How much longer a client is waited for: the more it moves, the longer."""

    moved_bytes: int = 0
    waited_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds; none if zero or less.

        >>> Patience(moved_bytes=2 * 16_384, waited_s=11.0).left_s
        1.0
        """
        return BODY_S + self.moved_bytes / BYTES_PER_S - self.waited_s

    @contextmanager
    def waiting(self, sock: socket.socket, at_most_s: float = float("inf")) -> Iterator[None]:
        """Let ``sock`` block for no longer than what is left.

        :raises TimeoutError: if it did, or if there is nothing left
        """
        before = sock.gettimeout()
        bounds = [self.left_s, at_most_s, *([] if before is None else [before])]
        if min(bounds) <= 0:
            raise TimeoutError("the client is too slow")
        started = time.monotonic()
        sock.settimeout(min(bounds))
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - started
            sock.settimeout(before)


class _Incoming(SocketUnreader):
    """Reads the body of a request in a thread."""

    def __init__(self, sock: socket.socket, slow: Semaphore) -> None:
        super().__init__(sock)
        self._slow = slow
        self._patience = Patience()

    def begin(self, head: bytes) -> None:
        """A new request, of which this was read."""
        self.unread(head)
        self._patience = Patience()

    def chunk(self, size_hint: int | None = None) -> bytes:
        """What came next.

        :raises TimeoutError: if nothing came in time
        """
        prompt_s = PROMPT_S - self._patience.waited_s
        if prompt_s > 0:
            try:
                return self._receive(size_hint, prompt_s)
            except TimeoutError:
                pass
        if not self._slow.acquire(blocking=False):
            raise TooManySlow
        try:
            return self._receive(size_hint)
        finally:
            self._slow.release()

    def _receive(self, size_hint: int | None, at_most_s: float = float("inf")) -> bytes:
        with self._patience.waiting(self.sock, at_most_s):
            data: bytes = super().chunk(size_hint)
        self._patience.moved_bytes += len(data)
        return data


class _Outgoing:
    """Writes an answer in a thread: all that gunicorn asks of a socket meanwhile."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._patience = Patience()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        """:raises BrokenPipeError: if the client does not read in time"""
        rest = memoryview(data)
        while rest:
            try:
                with self._patience.waiting(self._sock):
                    sent = self._sock.send(rest)
            except TimeoutError as error:
                raise BrokenPipeError(errno.EPIPE, "the client does not read") from error
            self._patience.moved_bytes += sent
            rest = rest[sent:]


@dataclass(frozen=True, slots=True)
class _Answering:
    """A connection as requests see it."""

    sock: _Outgoing
    client: Any
    server: Any


@dataclass(slots=True)
class _Watched:
    """A connection that the loop waits for.

    :param since: in seconds of the monotonic clock
    :param farewell: whether only its end is waited for
    """

    head: bytearray
    handshake: bool = False
    farewell: bool = False
    since: float = field(default_factory=time.monotonic)
    events: int = 0


class Worker(ThreadWorker):
    """gunicorn's threaded worker, whose threads get requests and not connections."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._watched: dict[TConn, _Watched] = {}
        self._slow = Semaphore(max(1, self.cfg.threads * 3 // 4))
        self._swept = 0.0

    def enqueue_req(self, conn: TConn) -> None:
        """Answer the next request of a connection, new or kept, once its head is there."""
        conn.sock.setblocking(False)
        fresh = not conn.initialized
        if fresh:
            try:
                self._open(conn)
            except OSError:
                self._drop(conn)
                return
        begun = bytearray(conn.parser.unreader.take_buffered())
        self._watched[conn] = _Watched(begun, handshake=fresh and self.cfg.is_ssl)
        self._read_head(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Answer it to a client that may not read."""
        answering = _Answering(_Outgoing(conn.sock), conn.client, conn.server)
        return super().handle_request(req, answering)

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """Keep the connection, or have the client hang up."""
        if not fs.cancelled() and fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
        else:
            self._say_farewell(conn)

    def murder_pending(self) -> None:
        """End what was waited for long enough."""
        now = time.monotonic()
        if now - self._swept < 0.5:
            return
        self._swept = now
        for conn, watched in list(self._watched.items()):
            brief = watched.farewell or not self.alive
            if now - watched.since < (FAREWELL_S if brief else HEAD_S):
                continue
            if watched.head and not watched.farewell:
                self._refuse(conn, 408, "Request Timeout", "the request's head did not end in time")
            else:
                self._drop(conn)

    def _open(self, conn: TConn) -> None:
        """What gunicorn would do in a thread; the handshake is left to the loop."""
        if self.cfg.is_ssl:
            conn.sock = ssl_wrap_socket(conn.sock, self.cfg)
        conn.parser = get_parser(self.cfg, conn.sock, conn.client)
        conn.parser.unreader = _Incoming(conn.sock, self._slow)
        conn.initialized = True

    def _read_head(self, conn: TConn, _sock: Any = None) -> None:
        watched = self._watched[conn]
        head = watched.head
        try:
            if watched.handshake:
                conn.sock.do_handshake()
                watched.handshake = False
            while not _has_ended(head):
                if len(head) > HEAD_BYTES:
                    self._refuse(
                        conn, 431, "Request Header Fields Too Large", "the head is too large"
                    )
                    return
                data = conn.sock.recv(_READ_BYTES)
                if not data:
                    self._drop(conn)
                    return
                head += data
        except (BlockingIOError, ssl.SSLWantReadError):
            self._watch(conn, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(conn, selectors.EVENT_WRITE)
        except OSError:
            self._drop(conn)
        else:
            self._forget(conn)
            conn.parser.unreader.begin(bytes(head))
            super().enqueue_req(conn)

    def _refuse(self, conn: TConn, status: int, reason: str, detail: str) -> None:
        try:
            write_problem(conn.sock, status, reason, detail)
        except OSError:
            self._drop(conn)
        else:
            self._say_farewell(conn)

    def _say_farewell(self, conn: TConn) -> None:
        """Wait for the client's end; before it, our own would undo what it has not read yet."""
        self._forget(conn)
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        self._watched[conn] = _Watched(bytearray(), farewell=True)
        self._watch(conn, selectors.EVENT_READ)

    def _discard(self, conn: TConn, _sock: Any) -> None:
        try:
            if conn.sock.recv(HEAD_BYTES):
                return
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            pass
        self._drop(conn)

    def _watch(self, conn: TConn, events: int) -> None:
        watched = self._watched[conn]
        if watched.events == events:
            return
        act = partial(self._discard if watched.farewell else self._read_head, conn)
        change = self.poller.modify if watched.events else self.poller.register
        change(conn.sock, events, act)
        watched.events = events

    def _forget(self, conn: TConn) -> None:
        watched = self._watched.pop(conn, None)
        if watched is not None and watched.events:
            self.poller.unregister(conn.sock)

    def _drop(self, conn: TConn) -> None:
        self._forget(conn)
        self.nr_conns -= 1
        conn.close()


def _has_ended(head: bytearray) -> bool:
    """Whether the head of a request is whole; empty lines before it are no part of it.

    >>> [_has_ended(bytearray(it)) for it in (b"\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\n\\r\\n")]
    [False, True]
    """
    while head.startswith(b"\r\n"):
        del head[:2]
    return _HEAD_ENDS in head
