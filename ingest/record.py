"""The record by itself: opened with its schema in place, and locked for what only one may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from common.errors import AlreadyRunning
from common.settings import Settings
from graph.migrate import migrated_stores


@contextmanager
def open_record(settings: Settings) -> Iterator[Engine]:
    """The record, with its schema in place; the graph is left alone."""
    with migrated_stores(settings, graph=False) as stores:
        yield stores.engine


@contextmanager
def only_one(engine: Engine, key: int, words: str) -> Iterator[Connection]:
    """A connection that holds a lock, which goes with the process, however that ends.

    :raises AlreadyRunning: with ``words``, if another process holds it
    """
    with engine.connect() as connection:
        # Not handed back to the pool, where it would keep the lock.
        connection.detach()
        if not connection.scalar(select(func.pg_try_advisory_lock(key))):
            raise AlreadyRunning(words)
        connection.commit()
        try:
            yield connection
        finally:
            # The server needs a moment to miss a connection that was closed.
            with suppress(DBAPIError):
                connection.execute(select(func.pg_advisory_unlock(key)))
