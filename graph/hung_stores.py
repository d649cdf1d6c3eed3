"""Ends the wait for a store that no longer answers.

Neither driver has a client-side read timeout, and a stopped or hung server or proxy keeps its
connections open and acknowledges what it receives, so neither TCP nor ``statement_timeout`` ends
the wait.

A command does not share its process with other work, so an alarm signal can end the wait:
:func:`watchdog`. Threads of the service get no signals. :class:`StatementWatch` therefore watches
PostgreSQL from a thread: if a statement takes long and the server does not answer a new connection,
either, the server hangs, and the thread shuts down the sockets of all waiting statements. Their
drivers then raise the error of a lost connection. A request may send several statements. So while
the server does not answer new connections, further statements and connections fail at once, until
the thread finds that it answers again.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import FrameType
from typing import Any

import psycopg2
import sqlalchemy
from psycopg2 import extensions
from sqlalchemy import event

from model.errors import StoreUnavailable

#: Closing a connection to a hung server may hang too; the alarm repeats after this time.
_REPEAT_S = 2.0


class _DeadlinePassed(BaseException):
    """Ends the block of a :func:`watchdog`.

    It is no :exc:`Exception`, because the alarm may interrupt any library. The driver of the graph
    keeps an :exc:`Exception` from the decoding of a value and raises a ``BrokenRecordError`` later.
    """


@contextmanager
def watchdog(store: str, seconds: float) -> Iterator[Callable[[], None]]:
    """Raise :exc:`StoreUnavailable` if the yielded function is not called for ``seconds``.

    The watchdog does nothing outside the main thread, because signals are delivered to the main
    thread only.

    :param store: name of the store in the error message
    :raises StoreUnavailable: after the alarm, which may end the block at any point
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise _DeadlinePassed

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_S)
        yield lambda: signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_S) and None
    except _DeadlinePassed:
        cause = f"no answer for {seconds:.0f} s"
        raise StoreUnavailable(store, cause, "see `thoth status`") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


#: A statement that takes longer causes a probe, s.
SLOW_S = 1.0
#: How long a new connection may take before the server counts as hanging, s.
PROBE_S = 3.0
#: Pause between two looks at the running statements, s.
_CHECK_INTERVAL_S = 0.25
#: Pause after a probe that was answered, s: the statement is slow, or waits for a lock. A statement
#: that the server receives just after the probe waits no longer than others.
_ANSWERED_S = SLOW_S
#: libpq's own limit for each address of the server, s. It only ends the threads that connect.
_ADDRESS_S = 10

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A statement that waits for its answer.

    :param inode: of the socket, since the number of a closed file is used again
    """

    descriptor: int
    inode: int
    since: float


class NoAnswer(psycopg2.OperationalError):
    """The server did not answer a new connection."""


class StatementWatch:
    """Watches the statements of one process. Its thread starts with the first wait."""

    def __init__(self, probe: Callable[[], extensions.connection]) -> None:
        """:param probe: opens a connection"""
        self._probe = probe
        self._waiting: dict[object, _Waiting] = {}
        self._lock = Lock()
        self._over = Event()
        self._thread: Thread | None = None
        self._hangs = False

    @contextmanager
    def statement(self, descriptor: int) -> Iterator[None]:
        """Watch a block that waits for an answer on a socket.

        :raises psycopg2.OperationalError: at once while the server hangs
        """
        self.refuse()
        key = object()
        inode = os.fstat(descriptor).st_ino
        with self._lock:
            self._waiting[key] = _Waiting(descriptor, inode, time.monotonic())
            self._start()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[key]

    def connection(self, connect: Callable[[], extensions.connection]) -> extensions.connection:
        """Open a connection with ``connect``.

        :raises NoAnswer: after :data:`PROBE_S`
        :raises psycopg2.OperationalError: at once while the server hangs
        """
        self.refuse()
        try:
            return _answered(connect)
        except NoAnswer:
            with self._lock:
                self._note(hangs=True)
                self._start()
            raise

    def refuse(self) -> None:
        """:raises psycopg2.OperationalError: while the server hangs"""
        if self._hangs:
            raise psycopg2.OperationalError("the server hangs")

    def close(self) -> None:
        """End the thread."""
        self._over.set()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="statement-watch", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(_CHECK_INTERVAL_S):
            if not self._hangs and not self._slow():
                continue
            answers = self._answers()
            with self._lock:
                self._note(hangs=not answers)
            if not answers:
                # Nobody leaves the block meanwhile, so the driver does not close these connections.
                with self._lock:
                    for waiting in self._waiting.values():
                        with suppress(OSError):
                            if os.fstat(waiting.descriptor).st_ino == waiting.inode:
                                with socket.socket(fileno=os.dup(waiting.descriptor)) as shared:
                                    shared.shutdown(socket.SHUT_RDWR)
            elif self._over.wait(_ANSWERED_S):
                return

    def _slow(self) -> bool:
        until = time.monotonic() - SLOW_S
        with self._lock:
            return any(it.since < until for it in self._waiting.values())

    def _answers(self) -> bool:
        """Whether the server answers a new connection, be it with an error."""
        try:
            _answered(self._probe).close()
        except Exception as error:  # must not end the thread, without which nothing is found again
            return not isinstance(error, NoAnswer)
        return True

    def _note(self, *, hangs: bool) -> None:
        if hangs is not self._hangs:
            _LOG.warning("postgresql_hangs" if hangs else "postgresql_answers_again")
        self._hangs = hangs


def _answered(connect: Callable[[], extensions.connection]) -> extensions.connection:
    """Open a connection within :data:`PROBE_S`, which includes name lookup and all addresses.

    libpq limits only the time for each address.

    :raises NoAnswer: after that time
    """
    opened: Future[extensions.connection] = Future()

    def run() -> None:
        try:
            opened.set_result(connect())
        except Exception as error:
            opened.set_exception(error)

    Thread(target=run, name="connect", daemon=True).start()
    try:
        return opened.result(PROBE_S)
    except TimeoutError:
        opened.add_done_callback(_close)
        raise NoAnswer(f"no answer to a new connection for {PROBE_S:.0f} s") from None


def _close(opened: Future[extensions.connection]) -> None:
    with suppress(Exception):
        opened.result().close()


def watch_statements(engine: sqlalchemy.Engine) -> StatementWatch:
    """Watch all connections of an engine that has not connected yet, and their statements."""
    arguments, more = engine.dialect.create_connect_args(engine.url)
    watch = StatementWatch(
        lambda: psycopg2.connect(*arguments, **{**more, "connect_timeout": _ADDRESS_S})
    )

    class _Watched(WatchedConnection):
        pass

    _Watched.watch = watch

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, arguments: Any, more: Any) -> Any:
        more |= {"connection_factory": _Watched, "connect_timeout": _ADDRESS_S}
        return watch.connection(lambda: psycopg2.connect(*arguments, **more))

    return watch


class _WatchedCursor(extensions.cursor):
    connection: WatchedConnection

    def execute(self, *arguments: Any, **more: Any) -> Any:
        with self.connection.watched():
            return super().execute(*arguments, **more)

    def executemany(self, *arguments: Any, **more: Any) -> Any:
        with self.connection.watched():
            return super().executemany(*arguments, **more)

    def copy_expert(self, *arguments: Any, **more: Any) -> Any:
        with self.connection.watched():
            return super().copy_expert(*arguments, **more)

    def fetchmany(self, *arguments: Any, **more: Any) -> Any:
        if self.name is None:  # the rows are here already
            return super().fetchmany(*arguments, **more)
        with self.connection.watched():
            return super().fetchmany(*arguments, **more)


class WatchedConnection(extensions.connection):
    """A connection whose statements a :class:`StatementWatch` watches.

    :param watch: set by the factory
    """

    watch: StatementWatch

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.cursor_factory = _WatchedCursor

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch a block that waits for an answer on this connection."""
        if self.closed or self.fileno() < 0:
            yield  # the driver raises its own error
            return
        with self.watch.statement(self.fileno()):
            yield

    def commit(self) -> None:
        """Commit, as the driver does."""
        with self.watched():
            super().commit()

    def rollback(self) -> None:
        """Roll back, as the driver does."""
        with self.watched():
            super().rollback()
