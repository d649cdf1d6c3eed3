"""Ends statements that wait for a PostgreSQL that no longer answers.

A stopped server or proxy keeps its connections open and acknowledges what it receives, so neither
TCP nor ``statement_timeout`` ends the wait. Threads get no signals, and libpq has no timeout for
reading. This module therefore watches from a thread: if a statement takes long and a new connection
is not answered either, the server hangs, and the sockets of all waiting statements are shut down.
Their drivers then raise the error of a lost connection.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any

import psycopg2
import sqlalchemy
from psycopg2 import extensions
from sqlalchemy import event

#: A statement that takes longer causes a probe, s.
SLOW_S = 1.0
#: How long a new connection may take before the server counts as hanging, s, in whole seconds.
PROBE_S = 3
#: Pause between two looks at the running statements, s.
_LOOK_S = 0.25
#: Pause after a probe that was answered, s: the statement is slow, or waits for a lock.
_ANSWERED_S = 2.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A statement that waits for its answer.

    :param inode: of the socket, since the number of a closed file is used again
    """

    descriptor: int
    inode: int
    since: float


class StatementWatch:
    """Watches the statements of one process. Its thread starts with the first statement."""

    def __init__(self, probe: Callable[[int], object]) -> None:
        """:param probe: opens a connection within as many seconds, and closes it"""
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
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="statement-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[key]

    def refuse(self) -> None:
        """:raises psycopg2.OperationalError: while the server hangs"""
        if self._hangs:
            raise psycopg2.OperationalError(f"no answer for {PROBE_S} s")

    def close(self) -> None:
        """End the thread."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if not self._hangs and not self._slow():
                continue
            self._hangs = not self._answers()
            if self._hangs:
                self._end_all()
            elif self._over.wait(_ANSWERED_S):
                return

    def _slow(self) -> bool:
        until = time.monotonic() - SLOW_S
        with self._lock:
            return any(it.since < until for it in self._waiting.values())

    def _answers(self) -> bool:
        """Whether the server answers a new connection, be it with an error."""
        began = time.monotonic()
        with suppress(psycopg2.Error):
            self._probe(PROBE_S)
        answers = time.monotonic() - began < PROBE_S
        if answers is self._hangs:
            _LOG.warning("postgresql_answers_again" if answers else "postgresql_hangs")
        return answers

    def _end_all(self) -> None:
        # Nobody leaves the block meanwhile, so the driver does not close these connections.
        with self._lock:
            for waiting in self._waiting.values():
                with suppress(OSError):
                    if os.fstat(waiting.descriptor).st_ino == waiting.inode:
                        with socket.socket(fileno=os.dup(waiting.descriptor)) as shared:
                            shared.shutdown(socket.SHUT_RDWR)


def watch_statements(engine: sqlalchemy.Engine) -> StatementWatch:
    """Watch all statements of an engine that has not connected yet."""
    arguments, more = engine.dialect.create_connect_args(engine.url)

    def probe(seconds: int) -> None:
        psycopg2.connect(*arguments, **{**more, "connect_timeout": seconds}).close()

    watch = StatementWatch(probe)

    class _Watched(WatchedConnection):
        pass

    _Watched.watch = watch

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, _arguments: object, more: Any) -> None:
        watch.refuse()
        more["connection_factory"] = _Watched
        more["connect_timeout"] = min(PROBE_S, int(more.get("connect_timeout", PROBE_S)))

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
