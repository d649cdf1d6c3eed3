"""Connections to PostgreSQL and the graph; translates the errors of their drivers."""

from __future__ import annotations

import math
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg2

from common import __version__
from common.settings import Settings
from graph.embedded import arcadedb as embedded_graph
from graph.embedded import postgresql as embedded_database
from graph.embedded.home import FREE_SPACE, Passwords, has_full_disk
from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import StoreProcess, last_lines
from model.errors import (
    AccessDenied,
    GraphOutOfMemory,
    InvalidSettings,
    SchemaMismatch,
    StoreUnavailable,
)

# The driver of the graph takes a tenth of the time of an advice that does not use the graph, so
# it is imported where a connection opens or failed.
if TYPE_CHECKING:
    import neo4j
    import sqlalchemy
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import DBAPIError

POSTGRESQL, GRAPH = "PostgreSQL", "the graph"

#: Access mode of sessions that only read, as ``neo4j.READ_ACCESS``.
READ_ACCESS = "READ"

#: A statement that takes longer waits for a lock that is never released. ``options=`` in
#: ``DATABASE_URL`` overrides this limit.
STATEMENT_TIMEOUT_S = 600

#: A connection without any answer counts as lost after this time.
_ANSWER_TIMEOUT_S = 30

#: Last words of a JVM that ends because its heap is full.
_OUT_OF_MEMORY = "Terminating due to java.lang.OutOfMemoryError"

_UNDEFINED_TABLE, _UNDEFINED_COLUMN = "42P01", "42703"
_MISSING_PRIVILEGE, _READ_ONLY_TRANSACTION = "42501", "25006"

_WRONG_CREDENTIALS = (
    "Neo.ClientError.Security.Unauthorized",
    "Neo.ClientError.Security.AuthenticationRateLimit",
    "Neo.ClientError.Database.DatabaseNotFound",
)


def relational_url(settings: Settings) -> URL:
    """URL of PostgreSQL with its password, which ``render_as_string()`` hides."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if settings.database_url is None:
        port, passwords = _endpoint(settings, embedded_database.PostgreSQL)
        return URL.create(
            "postgresql+psycopg2",
            embedded_database.USER,
            passwords.postgresql,
            "127.0.0.1",
            port,
            embedded_database.DATABASE,
            {"sslmode": "disable"},
        )
    try:
        return make_url(settings.database_url).set(drivername="postgresql+psycopg2")
    except (ArgumentError, ValueError):
        # The message of the driver would contain the password.
        raise InvalidSettings("DATABASE_URL: the URL cannot be parsed") from None


def relational_engine(
    settings: Settings,
    statement_timeout_s: float = STATEMENT_TIMEOUT_S,
    connections: int | None = None,
) -> sqlalchemy.Engine:
    """A SQLAlchemy engine for PostgreSQL, which connects on first use and limits every wait.

    :param connections: fixed size of the pool; by default a small pool with overflow
    """
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    url = relational_url(settings)
    wanted = _connect_arguments(settings, statement_timeout_s)
    arguments = {name: value for name, value in wanted.items() if name not in url.query}
    try:
        engine = create_engine(
            url,
            connect_args=arguments,
            pool_timeout=_ANSWER_TIMEOUT_S,
            **({} if connections is None else {"pool_size": connections, "max_overflow": 0}),
        )
    except (ArgumentError, NoSuchModuleError):
        raise InvalidSettings("DATABASE_URL: the URL cannot be used") from None
    event.listen(engine, "checkout", _replace_ended)
    return engine


def _replace_ended(connection: psycopg2.extensions.connection, *_of_pool: object) -> None:
    """Have the pool connect again if the server ended this connection while it was idle.

    An idle connection has nothing to read, unless the server or the kernel ended it. This check
    costs no round trip, as SQLAlchemy's ``pool_pre_ping`` would.
    """
    from sqlalchemy.exc import DisconnectionError

    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if waiting.poll(0):
        raise DisconnectionError


def _connect_arguments(settings: Settings, statement_timeout_s: float) -> dict[str, Any]:
    """Timeouts of a connection, as parameters of libpq."""
    return {
        "application_name": "thoth",
        # The timeout is in whole seconds; libpq raises values below 2 to 2.
        "connect_timeout": max(2, math.ceil(settings.connect_timeout_s)),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": _ANSWER_TIMEOUT_S * 1000,
        "options": f"-c statement_timeout={math.ceil(statement_timeout_s * 1000)}"
        f" -c idle_in_transaction_session_timeout={STATEMENT_TIMEOUT_S}s",
    }


@dataclass(frozen=True, slots=True)
class DriverConnection:
    """A connection of PostgreSQL's driver, without SQLAlchemy.

    :param url: the address without the password
    """

    url: str
    connection: psycopg2.extensions.connection

    def row(self, statement: str) -> tuple[Any, ...]:
        """Run a query without parameters and return its only row."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
        if row is None:
            raise LookupError(statement)
        return row


@contextmanager
def driver_connection(settings: Settings) -> Iterator[DriverConnection]:
    """Connect to PostgreSQL without SQLAlchemy, which takes 0.1 s to load, and translate errors.

    Used by commands that run often. SQLAlchemy still parses the URL of an external store.
    """
    arguments = _connect_arguments(settings, STATEMENT_TIMEOUT_S)
    if settings.database_url is None:
        port, passwords = _endpoint(settings, embedded_database.PostgreSQL)
        user, name = embedded_database.USER, embedded_database.DATABASE
        url = f"postgresql+psycopg2://{user}:***@127.0.0.1:{port}/{name}?sslmode=disable"
        arguments |= {
            "host": "127.0.0.1", "port": port, "user": user, "dbname": name,
            "password": passwords.postgresql, "sslmode": "disable",
        }  # fmt: skip
    else:
        external = relational_url(settings)
        url = external.render_as_string(hide_password=True)
        parts = external.translate_connect_args(username="user", database="dbname")
        arguments |= {**parts, **external.query}
    try:
        connection = psycopg2.connect(**arguments)
        try:
            yield DriverConnection(url, connection)
        finally:
            connection.close()
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise _relational_failure(_first_line(error), settings) from error
    except psycopg2.ProgrammingError as error:
        if error.pgcode not in {_UNDEFINED_TABLE, _UNDEFINED_COLUMN}:
            raise
        raise _outdated(error) from error


def graph_url(settings: Settings) -> str:
    """URL of the graph, without credentials."""
    if settings.graph_url is not None:
        return settings.graph_url
    port, _ = _endpoint(settings, embedded_graph.ArcadeDB)
    return f"bolt://127.0.0.1:{port}"


def graph_driver(settings: Settings) -> neo4j.Driver:
    """A driver for the graph with write access."""
    if settings.graph_url is None:
        _, passwords = _endpoint(settings, embedded_graph.ArcadeDB)
        return _driver(settings, embedded_graph.USER, passwords.graph)
    return _driver(settings, settings.graph_user, settings.graph_password)


def reader_driver(settings: Settings) -> neo4j.Driver:
    """A driver for analysts' queries; it uses the read-only user if the settings have one.

    Sessions must also request read access: a Neo4j without roles refuses writes only in such
    sessions.
    """
    if settings.graph_url is None:
        _, passwords = _endpoint(settings, embedded_graph.ArcadeDB)
        return _driver(settings, embedded_graph.READER, passwords.analyst)
    if settings.graph_reader_user is None:
        return graph_driver(settings)
    if settings.graph_reader_password is None:
        raise InvalidSettings("GRAPH_READER_PASSWORD: needed with GRAPH_READER_USER")
    return _driver(settings, settings.graph_reader_user, settings.graph_reader_password)


def graph_database(settings: Settings) -> str:
    """Name of the database on the graph server."""
    return embedded_graph.DATABASE if settings.graph_url is None else settings.graph_database


def _driver(settings: Settings, user: str, password: str | None) -> neo4j.Driver:
    import neo4j
    from neo4j.exceptions import ConfigurationError

    try:
        return neo4j.GraphDatabase.driver(
            graph_url(settings),
            auth=None if password is None else (user, password),
            user_agent=f"thoth/{__version__}",
            connection_timeout=settings.connect_timeout_s,
            # Limits the handshake as well, because a port may accept connections and never answer.
            connection_acquisition_timeout=settings.connect_timeout_s * 2,
            max_transaction_retry_time=settings.connect_timeout_s * 2,
            connection_write_timeout=_ANSWER_TIMEOUT_S,
            liveness_check_timeout=_ANSWER_TIMEOUT_S,
            keep_alive=True,
            telemetry_disabled=True,
        )
    except (ConfigurationError, ValueError):
        raise InvalidSettings("GRAPH_URL: the URL cannot be used") from None


def _endpoint(settings: Settings, kind: type[StoreProcess]) -> tuple[int, Passwords]:
    stores = EmbeddedStores(settings)
    record, passwords = stores.record_of(kind), stores.passwords()
    if record is None or passwords is None:
        raise StoreUnavailable(kind.name, f"not running in {settings.home}", "run `thoth up`")
    return record.port, passwords


def server_agent(driver: neo4j.Driver, database: str) -> str:
    """Name and version of the graph server; the query proves that the database exists."""
    with driver.session(database=database) as session:
        agent = session.run("RETURN 1").consume().server.agent
    return str(agent)


@dataclass(frozen=True, slots=True)
class Stores:
    """Open connections to the stores that were requested in :func:`open_stores`.

    :param connect_graph: connects to the graph on its first use, and returns the same driver later
    """

    settings: Settings
    opened_engine: sqlalchemy.Engine | None
    opened_driver: neo4j.Driver | None
    connect_graph: Callable[[], neo4j.Driver] | None = None

    @property
    def engine(self) -> sqlalchemy.Engine:
        """PostgreSQL."""
        if self.opened_engine is None:
            raise RuntimeError("these stores were opened without PostgreSQL")
        return self.opened_engine

    @property
    def driver(self) -> neo4j.Driver:
        """The graph, for writing."""
        if self.opened_driver is not None:
            return self.opened_driver
        if self.connect_graph is None:
            raise RuntimeError("these stores were opened without the graph")
        return self.connect_graph()

    @property
    def database(self) -> str:
        """The graph's database, for ``driver.session(database=…)``."""
        return graph_database(self.settings)


def to_stderr(text: str) -> None:
    """Print a message to standard error."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def open_stores(
    settings: Settings,
    *,
    relational: bool = True,
    graph: bool = True,
    graph_on_use: bool = False,
    announce: Callable[[str], None] = to_stderr,
) -> Iterator[Stores]:
    """Open connections for the length of a ``with`` block, without migrating the schemas.

    ``announce`` is called before an embedded store is started. The stores must answer, and drivers'
    errors inside the block are translated.

    :param graph_on_use: start the embedded graph, but connect only when the graph is first used
    :raises StoreUnavailable: if a store does not answer within the connect timeout
    :raises ServiceFailed: if an embedded store cannot be started
    """
    EmbeddedStores(settings).start(announce, relational=relational, graph=graph)
    with relational_errors(settings), graph_errors(settings), ExitStack() as opened:
        engine = driver = None
        if relational:
            engine = relational_engine(settings)
            opened.callback(engine.dispose)
            engine.connect().close()

        @cache
        def connect_graph() -> neo4j.Driver:
            with graph_errors(settings):
                connected = opened.enter_context(graph_driver(settings))
                server_agent(connected, graph_database(settings))
            return connected

        if graph and not graph_on_use:
            driver = connect_graph()
        yield Stores(settings, engine, driver, connect_graph if graph else None)


@contextmanager
def relational_errors(settings: Settings | None = None) -> Iterator[None]:
    """Translate PostgreSQL's failures into errors with a remedy; errors from bugs pass unchanged.

    :param settings: determine the hint; without settings, the hint covers embedded and external
        stores
    """
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ProgrammingError
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    try:
        yield
    except ProgrammingError as error:
        _raise_denied(error)
        if getattr(error.orig, "pgcode", None) not in {_UNDEFINED_TABLE, _UNDEFINED_COLUMN}:
            raise
        raise _outdated(error.orig) from error
    except (OperationalError, InterfaceError) as error:
        raise _relational_failure(_first_line(error.orig), settings) from error
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        # Raised by the driver directly when a connection returns to the pool.
        raise _relational_failure(_first_line(error), settings) from error
    except DBAPIError as error:
        _raise_denied(error)
        if not error.connection_invalidated:
            raise
        raise _relational_failure(_first_line(error.orig), settings) from error
    except PoolTimeout as error:
        raise _relational_failure("all connections are in use", settings) from error


def _outdated(error: BaseException | None) -> SchemaMismatch:
    """The error for a PostgreSQL schema that lacks a table or column."""
    return SchemaMismatch(f"{POSTGRESQL}: {_first_line(error)}", "run `thoth migrate`")


def _raise_denied(error: DBAPIError) -> None:
    """:raises AccessDenied: if the user of PostgreSQL lacks a privilege, or can only read"""
    if getattr(error.orig, "pgcode", None) in {_MISSING_PRIVILEGE, _READ_ONLY_TRANSACTION}:
        raise AccessDenied(
            f"DATABASE_URL: {POSTGRESQL} refuses its user: {_first_line(error.orig)}",
            hint="use a user who may do this",
        ) from error


def _relational_failure(cause: str, settings: Settings | None) -> StoreUnavailable:
    transient = False
    if "statement timeout" in cause:
        hint = "find the process that holds a lock, then run the command again"
    elif "No space left" in cause or "could not extend file" in cause:
        hint = FREE_SPACE
    else:
        external = settings is not None and not settings.embedded_database
        hint = _remedy(settings, external=external, variable="DATABASE_URL")
        transient = hint != FREE_SPACE
    return StoreUnavailable(POSTGRESQL, cause, hint, transient=transient)


@contextmanager
def graph_errors(settings: Settings | None = None) -> Iterator[None]:
    """Translate the graph's failures into errors with a remedy.

    Errors about the query itself pass unchanged: their cause is a bug or an analyst's query.
    """
    try:
        yield
    except Exception as error:
        if not _is_graph_failure(error) and not _lacks_space(error, settings):
            raise
        raise _graph_failure(error, settings) from error


def _lacks_space(error: Exception, settings: Settings | None) -> bool:
    """Whether the embedded graph reports an error of its own while the disk is full."""
    from neo4j.exceptions import DatabaseError

    if settings is None or not settings.embedded_graph or not isinstance(error, DatabaseError):
        return False
    return has_full_disk(settings.home)


def _is_graph_failure(error: Exception) -> bool:
    """Whether the driver of the graph reports that the graph does not answer."""
    from neo4j.exceptions import (
        AuthError,
        ClientError,
        ConnectionPoolError,
        ServiceUnavailable,
        SessionExpired,
        TransientError,
    )

    if isinstance(error, ClientError) and error.code in _WRONG_CREDENTIALS:
        return True
    failures = AuthError, ConnectionPoolError, ServiceUnavailable, SessionExpired, TransientError
    return isinstance(error, failures)


def _graph_failure(error: Exception, settings: Settings | None) -> StoreUnavailable:
    if settings is not None and settings.embedded_graph:
        # Whether it ended because its heap was full, and was not started since.
        logs = EmbeddedStores(settings).home.logs
        if _OUT_OF_MEMORY in last_lines(logs / f"{embedded_graph.ArcadeDB.key}.log", 1):
            return GraphOutOfMemory(settings.graph_memory_mb)
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    external = settings is not None and not settings.embedded_graph
    variables = "GRAPH_URL, GRAPH_USER, GRAPH_PASSWORD and GRAPH_DATABASE"
    hint = _remedy(settings, external=external, variable=variables)
    return StoreUnavailable(GRAPH, text.splitlines()[0].removesuffix(":"), hint)


def _remedy(settings: Settings | None, *, external: bool, variable: str) -> str:
    if external:
        return f"check {variable}, and that the server runs"
    if settings is None:
        return f"run `thoth up`, or check {variable}"
    if has_full_disk(settings.home):
        return FREE_SPACE
    return f"run `thoth up`; if it happens again, see {settings.home / 'logs'}"


def _first_line(error: BaseException | None) -> str:
    """First line of the driver's message: host, port and user, never the password."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
