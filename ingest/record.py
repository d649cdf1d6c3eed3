"""Opens the record without the graph, and prevents concurrent runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.postgresql_helpers import session_lock
from model.errors import AlreadyRunning


@contextmanager
def open_record(settings: Settings) -> Iterator[Engine]:
    """Open the record and migrate its schema if necessary; the graph is not opened."""
    with migrated_stores(settings, graph=False) as stores:
        yield stores.engine


@contextmanager
def exclusive_run(engine: Engine, key: int, message: str) -> Iterator[Connection]:
    """Yield a connection that holds an advisory lock, which ends with the process.

    :param key: key of the lock
    :param message: message of the error
    :raises AlreadyRunning: if another process holds the lock
    """
    with session_lock(engine, key, wait_s=0.0) as connection:
        if connection is None:
            raise AlreadyRunning(message)
        yield connection
