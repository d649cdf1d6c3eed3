"""What a process of the service holds open, and hands to whoever answers a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import cast

import sqlalchemy
from flask import current_app

from api.jobs.queue import Queue
from common.settings import Settings
from graph.engine import (
    STATEMENT_TIMEOUT_S,
    Stores,
    graph_driver,
    graph_errors,
    relational_engine,
    relational_errors,
)

#: Of the object in ``app.extensions``.
EXTENSION = "thoth"


class Service:
    """Connections that requests share: PostgreSQL must answer, the graph may be away.

    A graph that went away is reached anew by the next request, at its new port if it has one.
    """

    def __init__(
        self, settings: Settings, statement_timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> None:
        self.settings = settings
        self.engine: sqlalchemy.Engine = relational_engine(settings, statement_timeout_s)
        self.queue = Queue(self.engine, settings.queue_limit)
        self._lock = Lock()
        self._stores: Stores | None = None

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
            try:
                yield self._opened()
            except BaseException:
                self.forget_graph()
                raise

    def forget_graph(self) -> None:
        """Reach the graph anew from the next request on."""
        with self._lock:
            stores, self._stores = self._stores, None
        if stores is not None:
            stores.driver.close()

    def close(self) -> None:
        """Close what is open."""
        self.forget_graph()
        self.engine.dispose()

    def _opened(self) -> Stores:
        with self._lock:
            if self._stores is None:
                self._stores = Stores(self.settings, self.engine, graph_driver(self.settings))
            return self._stores


def service() -> Service:
    """The service of the application that answers this request."""
    return cast(Service, current_app.extensions[EXTENSION])
