"""Connections of a process of the service, and limits of time for readings of the graph."""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Event, Lock
from typing import Any, TypeVar, cast

import sqlalchemy
from flask import current_app

from api.http.comparison_cache import ComparisonCache
from api.http.errors import ApiError, ProblemType
from api.jobs.queue import Queue, QueueClient, room_for
from common.settings import Settings
from common.versioned_cache import VersionedCache
from graph.engine import (
    GRAPH,
    STATEMENT_TIMEOUT_S,
    Stores,
    graph_driver,
    graph_errors,
    relational_engine,
    relational_errors,
)
from graph.hung_stores import watch_statements
from graph.record.freshness import changes
from graph.record.measurements import SeriesMark, series_marks
from graph.snapshot_reader import CheckTime
from model.errors import ProjectError, StoreUnavailable

T = TypeVar("T")

#: Maximum number of concurrent readings of one process. One that never returns keeps its place.
MAX_READINGS = 4

_pool = ThreadPoolExecutor(MAX_READINGS, "graph-question")


def answer_within(seconds: float, ask: Callable[[CheckTime], T]) -> T:
    """Run ``ask``, which waits for the graph, in a thread and return its result.

    :param ask: gets a function that raises :exc:`StoreUnavailable` after ``seconds``; work of
        several steps calls it before each step, so that it ends when nobody waits for it
    :raises StoreUnavailable: after ``seconds``, including the wait for a free thread
    """
    over = Event()
    no_answer = StoreUnavailable(GRAPH, f"no answer for {seconds:.0f} s", "see `thoth status`")

    def check_time() -> None:
        if over.is_set():
            raise no_answer

    future = _pool.submit(ask, check_time)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # `ask` raised it, or has ended just now
            return future.result()
        over.set()
        future.cancel()
        raise no_answer from None


#: Key of the object in ``app.extensions``.
EXTENSION = "thoth"

#: Maximum number of values of :meth:`ServiceStores.record_value`.
_MOST_VALUES = 100
#: Seconds after which a refused client may try again; most requests take less.
_RETRY_AFTER_S = 5
#: Measurements that are read before a waiting request comes next; they take some 0.5 s.
_STEP_JOBS = 5_000

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Opened:
    """Stores that are open, with the number of requests that use them."""

    stores: Stores
    users: int = 0


class ClientShares:
    """Limits how many requests of a kind run at a time in a process.

    The shares of clients are those of the queue (:func:`api.jobs.queue.room_for`).
    """

    def __init__(self, places: int, each: int | None = None) -> None:
        """:param places: maximum number of requests at a time

        :param each: maximum of one client; by default, a client with a token may take all places
        """
        self._places = max(1, places)
        self._each = self._places if each is None else max(1, each)
        self._lock = Lock()
        self._running: Counter[QueueClient] = Counter()

    @contextmanager
    def place_for(self, client: QueueClient) -> Iterator[None]:
        """A place for a request, held for the length of a ``with`` block.

        :raises ApiError: 429 if no place is free for this client
        """
        room, own_room = room_for(client, self._places)
        with self._lock:
            own = self._running[client]
            if self._running.total() >= room or own >= min(own_room, self._each):
                raise ApiError(
                    429, ProblemType.OVERLOADED,
                    f"{self._running.total()} such requests run, {own} of them of this client:"
                    " try again later",
                    headers={"Retry-After": str(_RETRY_AFTER_S)},
                )  # fmt: skip
            self._running[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[client] -= 1
                self._running += Counter()  # forget clients without requests


class ServiceStores:
    """Connections that requests share. PostgreSQL is required; the graph may be unavailable.

    After a failure of the graph, the next request connects again, since the graph's port may have
    changed.
    """

    def __init__(
        self,
        settings: Settings,
        statement_timeout_s: float = STATEMENT_TIMEOUT_S,
        connections: int | None = None,
    ) -> None:
        """:param connections: maximum number to PostgreSQL, one for each concurrent request"""
        self.settings = settings
        self.engine: sqlalchemy.Engine = relational_engine(
            settings, statement_timeout_s, connections
        )
        self._statements = watch_statements(self.engine)
        self.queue = Queue(self.engine, settings.queue_limit)
        self.comparisons = ComparisonCache()
        #: Values that depend on the record only; the largest, a page of series, takes some 100 kB.
        self._record_values: VersionedCache[Hashable, Any] = VersionedCache(_MOST_VALUES)
        #: Limits clients that wait for a result, so that half the threads answer other requests.
        self.waiters = BoundedSemaphore(max(1, (connections or 0) // 2))
        #: Limits clients that compare locks, which takes seconds if the locks are large. More would
        #: wait for each other's readings until their time is over.
        self.lock_readers = ClientShares(min(MAX_READINGS, (connections or 0) // 2))
        #: Limits queries of analysts, which may take as long as ``QUERY_TIMEOUT_S``.
        self.analysts = ClientShares((connections or 0) // 4, each=(connections or 0) // 8)
        self._lock = Lock()
        self._opened: _Opened | None = None

    def read_comparisons(self) -> None:
        """Read all measured series, so that no request waits for more than those that change.

        This takes some 0.1 ms a measurement. A request that needs few series waits for one step.
        """
        try:
            with ExitStack() as opened:
                opened.enter_context(relational_errors(self.settings))
                # Requests need all connections of the other engine.
                engine = relational_engine(self.settings, connections=1)
                opened.callback(engine.dispose)
                with engine.connect() as connection:
                    marks = series_marks(connection)
                for keys in (*_steps(marks), None):
                    with engine.connect() as connection:
                        self.comparisons.family(connection, keys=keys)
        except ProjectError as error:
            _LOG.warning("comparisons_not_read", extra={"error": str(error)})
        else:
            _LOG.info("comparisons_read", extra={"series": len(marks)})

    def record_value(
        self, connection: sqlalchemy.Connection, key: Hashable, compute: Callable[[], T]
    ) -> T:
        """A value that is computed again only after the record has changed.

        Use this for queries whose time grows with the record. Callers must not change the value.

        :param key: name of the value, and all inputs beside the record
        """
        value: T = self._record_values.get(key, changes(connection), compute)
        return value

    @contextmanager
    def reading(self) -> Iterator[sqlalchemy.Connection]:
        """A connection to PostgreSQL for reading.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def glancing(self) -> Iterator[sqlalchemy.Connection]:
        """A connection in autocommit mode, in which a single query needs half the round trips.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.connect() as connection:
            # SQLAlchemy's option of this name has psycopg2 send a statement before and after.
            driver: Any = connection.connection.driver_connection
            driver.autocommit = True
            try:
                yield connection
            finally:
                if not driver.closed:
                    driver.autocommit = False

    @contextmanager
    def writing(self) -> Iterator[sqlalchemy.Connection]:
        """A transaction on PostgreSQL.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def relational(self) -> Iterator[Stores]:
        """Stores with a connection to PostgreSQL only.

        :raises StoreUnavailable: if it does not answer
        """
        with relational_errors(self.settings):
            yield Stores(self.settings, self.engine, None)

    @contextmanager
    def stores(self) -> Iterator[Stores]:
        """Connections to both stores.

        :raises StoreUnavailable: if a store is unavailable, also within the block
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
        """Close all connections."""
        with self._lock:
            opened = self._opened
        if opened is not None:
            self._forget(opened)
        self.engine.dispose()
        self._statements.close()

    def _taken(self) -> _Opened:
        with self._lock:
            if self._opened is None:
                stores = Stores(self.settings, self.engine, graph_driver(self.settings))
                self._opened = _Opened(stores)
            self._opened.users += 1
            return self._opened

    def _forget(self, opened: _Opened) -> None:
        """Let the next request connect again; running requests keep their connections."""
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
    """The connections of the current application."""
    return cast(ServiceStores, current_app.extensions[EXTENSION])


def _steps(marks: Mapping[str, SeriesMark]) -> Iterator[set[str]]:
    """The keys of series, in steps with few measurements each."""
    keys: set[str] = set()
    jobs = 0
    for key, (number, _) in sorted(marks.items()):
        if keys and jobs + number > _STEP_JOBS:
            yield keys
            keys, jobs = set(), 0
        keys.add(key)
        jobs += number
    if keys:
        yield keys
