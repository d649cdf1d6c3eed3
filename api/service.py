"""What a process of the service holds open, and hands to whoever answers a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import cast

import sqlalchemy
from flask import current_app

from api.jobs.queue import Queue
from common.errors import StoreUnavailable
from common.settings import Settings
from graph.engine import (
    GRAPH,
    STATEMENT_TIMEOUT_S,
    Stores,
    graph_driver,
    graph_errors,
    relational_engine,
    relational_errors,
)

#: Of the object in ``app.extensions``.
EXTENSION = "thoth"


@dataclass(slots=True)
class _Opened:
    """Both stores, and how many requests are using them."""

    stores: Stores
    users: int = 0


class ServiceStores:
    """Connections that requests share: PostgreSQL must answer, the graph may be away.

    A graph that went away is reached anew by the next request, at its new port if it has one.
    """

    def __init__(
        self,
        settings: Settings,
        statement_timeout_s: float = STATEMENT_TIMEOUT_S,
        connections: int | None = None,
    ) -> None:
        """:param connections: to PostgreSQL, at most: one for each request at a time"""
        self.settings = settings
        self.engine: sqlalchemy.Engine = relational_engine(
            settings, statement_timeout_s, connections
        )
        self.queue = Queue(self.engine, settings.queue_limit)
        self._lock = Lock()
        self._opened: _Opened | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlalchemy.Connection]:
        """A connection to PostgreSQL, for questions.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def glancing(self) -> Iterator[sqlalchemy.Connection]:
        """The same for small questions that need not see one state: half the round trips.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def writing(self) -> Iterator[sqlalchemy.Connection]:
        """A transaction on PostgreSQL.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def relational(self) -> Iterator[Stores]:
        """PostgreSQL alone, for what needs no graph.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings):
            yield Stores(self.settings, self.engine, None)

    @contextmanager
    def stores(self) -> Iterator[Stores]:
        """Both stores.

        :raises StoreUnavailable: if the graph is not there; what the block asks of it is
            translated in the same way
        """
        with relational_errors(self.settings), graph_errors(self.settings):
            used = self._taken()
        try:
            with relational_errors(self.settings), graph_errors(self.settings):
                yield used.stores
        except StoreUnavailable as error:
            if error.store == GRAPH:
                self._forget(used)
            raise
        finally:
            self._leave(used)

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            opened = self._opened
        if opened is not None:
            self._forget(opened)
        self.engine.dispose()

    def _taken(self) -> _Opened:
        with self._lock:
            if self._opened is None:
                stores = Stores(self.settings, self.engine, graph_driver(self.settings))
                self._opened = _Opened(stores)
            self._opened.users += 1
            return self._opened

    def _forget(self, opened: _Opened) -> None:
        """Reach the graph anew from the next request on; those under way keep what they have."""
        with self._lock:
            if self._opened is opened:
                self._opened = None
        self._close_unused(opened)

    def _leave(self, used: _Opened) -> None:
        with self._lock:
            used.users -= 1
        self._close_unused(used)

    def _close_unused(self, opened: _Opened) -> None:
        with self._lock:
            unused = opened is not self._opened and opened.users == 0
        if unused:
            opened.stores.driver.close()


def service() -> ServiceStores:
    """The service of the application that answers this request."""
    return cast(ServiceStores, current_app.extensions[EXTENSION])
