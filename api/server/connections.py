"""Connections: the event loop waits for clients, and threads only run complete requests.

In gunicorn's own worker, a slow handshake or request head holds a thread, and the loop waits for
clients that do not close their connections. In this worker, the loop handles the TLS handshakes,
request heads and closing of all connections concurrently. A client can hold a thread only while it
sends a body or receives a response, and both have a time limit.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Semaphore
from typing import Any

from gunicorn.http import get_parser
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from api.server.raw_errors import write_problem
from api.server.slow_clients import RECORD_BYTES, AnswerWriter, BodyReader

#: Time limit from the first byte of a handshake or request to the end of the head, s.
HEAD_S = 10.0
#: Maximum size of a head; its URL and each field have smaller limits.
HEAD_BYTES = 65_536
#: Empty lines that are ignored before a head; RFC 9112, 2.2, asks for at least one.
EMPTY_LINES = 4
#: Time limit for a client to close a connection, or to finish a head during shutdown, s.
CLOSE_TIMEOUT_S = 2.0
#: Requests that get threads of their own, as long as one is free: all others may be in use.
_PROBES = (b"GET /livez", b"GET /liveness")
_PROBE_THREADS = 4
_EMPTY_LINE = b"\r\n"
_HEAD_ENDS = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class _Answering:
    """The part of a connection that requests use."""

    sock: AnswerWriter
    client: Any
    server: Any


@dataclass(slots=True)
class _Watched:
    """A connection that the loop watches.

    :param since: in seconds of the monotonic clock
    :param closing: whether the connection is closing
    """

    head: bytearray
    handshake: bool = False
    closing: bool = False
    since: float = field(default_factory=time.monotonic)
    events: int = 0


class ConnectionWorker(ThreadWorker):
    """gunicorn's threaded worker, except that threads get requests instead of connections."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._watched: dict[TConn, _Watched] = {}
        self._slow = Semaphore(max(1, self.cfg.threads * 3 // 4))
        self._swept = 0.0
        self._probes = ThreadPoolExecutor(_PROBE_THREADS, "liveness")
        self._free_probes = Semaphore(_PROBE_THREADS)

    def enqueue_req(self, conn: TConn) -> None:
        """Run the next request of a new or kept connection once its head is complete."""
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
        """Run a request; its response has a time limit in case the client does not read."""
        return super().handle_request(req, conn.answering)

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """Keep the connection, or start closing it."""
        if not fs.cancelled() and fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
        else:
            self._close_after_client(conn)

    def murder_pending(self) -> None:
        """Refuse or close connections whose time limit has passed."""
        now = time.monotonic()
        if now - self._swept < 0.5:
            return
        self._swept = now
        for conn, watched in list(self._watched.items()):
            brief = watched.closing or not self.alive
            if now - watched.since < (CLOSE_TIMEOUT_S if brief else HEAD_S):
                continue
            begun = len(watched.head) > _begin(watched.head)
            if begun and not watched.closing:
                self._refuse(
                    conn, 408, "Request Timeout", "the head of the request did not arrive in time"
                )
            else:
                self._drop(conn)

    def _open(self, conn: TConn) -> None:
        """Set up a connection, as gunicorn does in a thread, but without the handshake."""
        if self.cfg.is_ssl:
            conn.sock = ssl_wrap_socket(conn.sock, self.cfg)
        conn.parser = get_parser(self.cfg, conn.sock, conn.client)
        conn.parser.unreader = BodyReader(conn.sock, self._slow)
        conn.answering = _Answering(AnswerWriter(conn.sock, self._slow), conn.client, conn.server)
        conn.initialized = True

    def _read_head(self, conn: TConn, _sock: Any = None) -> None:
        """Read only once, so that a fast client cannot keep the loop from other clients."""
        watched = self._watched[conn]
        head = watched.head
        try:
            if watched.handshake:
                conn.sock.do_handshake()
                watched.handshake = False
            if not _has_ended(head):
                data = conn.sock.recv(RECORD_BYTES)
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
            self._look_at(conn, head)

    def _look_at(self, conn: TConn, head: bytearray) -> None:
        if _begin(head) > EMPTY_LINES * len(_EMPTY_LINE):
            self._refuse(conn, 400, "Bad Request", "there are empty lines where a request begins")
        elif _has_ended(head):
            self._forget(conn)
            conn.parser.unreader.begin(bytes(head[_begin(head) :]))
            probes = head.startswith(_PROBES, _begin(head))
            # Clients that do not read may hold them; then a probe waits like all other requests.
            if probes and self._free_probes.acquire(blocking=False):
                answered = self._probes.submit(self.handle, conn)
                answered.add_done_callback(lambda _done: self._free_probes.release())
            else:
                answered = self.tpool.submit(self.handle, conn)
            answered.add_done_callback(
                lambda done: self.method_queue.defer(self.finish_request, conn, done)
            )
        elif len(head) > HEAD_BYTES:
            self._refuse(conn, 431, "Request Header Fields Too Large", "the head is too large")
        else:
            self._watch(conn, selectors.EVENT_READ)

    def _refuse(self, conn: TConn, status: int, reason: str, detail: str) -> None:
        try:
            write_problem(conn.sock, status, reason, detail)
        except OSError:
            self._drop(conn)
        else:
            self._close_after_client(conn)

    def _close_after_client(self, conn: TConn) -> None:
        """Wait until the client closes; if the server closed first, unread data could be lost."""
        self._forget(conn)
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        self._watched[conn] = _Watched(bytearray(), closing=True)
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
        act = partial(self._discard if watched.closing else self._read_head, conn)
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


def _begin(head: bytearray) -> int:
    """Offset of a request's head after empty lines; a number above the limit if they are too many.

    >>> [_begin(bytearray(it)) for it in (b"GET /", b"\\r\\nGET /", b"\\r\\n" * 1_000_000)]
    [0, 2, 10]
    """
    begin = 0
    while begin <= EMPTY_LINES * len(_EMPTY_LINE) and head.startswith(_EMPTY_LINE, begin):
        begin += len(_EMPTY_LINE)
    return begin


def _has_ended(head: bytearray) -> bool:
    """Whether the head of a request is complete; empty lines before it do not count.

    >>> [_has_ended(bytearray(it)) for it in (b"\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\n\\r\\n")]
    [False, True]
    """
    return head.find(_HEAD_ENDS, _begin(head)) >= 0
