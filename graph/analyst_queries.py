"""Analysts' queries: read only, within a limit of time and a limit on the rows that they return.

A query passes three gates. The store's own plan of it (``EXPLAIN``) may neither write nor load
files nor call procedures outside :data:`PROCEDURES`; it runs as a user who may only read
(ArcadeDB) or in read access mode (Neo4j); and the store ends it at the limit of time. Rows are
fetched up to their limit and one more, which tells whether there are more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from threading import Timer
from typing import Any
from uuid import uuid4

import neo4j
from neo4j.exceptions import ClientError, DatabaseError, Neo4jError, TransientError

from common.errors import InvalidSettings, QueryRefused
from common.settings import Settings
from graph import dialect
from graph.engine import graph_errors, reader_driver

#: What an analyst may call: which labels, types and keys there are, in the same form on both
#: products. Algorithms, facts about the server and its settings are not for everybody to ask.
PROCEDURES = frozenset({"db.labels", "db.relationshiptypes", "db.propertykeys"})

#: How plans name the steps that write: ``SetProperty`` on Neo4j, ``DETACH DELETE`` on ArcadeDB.
_WRITES = re.compile(
    r"(?:Create|Merge|Set|Remove|Delete|DetachDelete|Foreach)(?![a-z])"
    r"|(?:CREATE|MERGE|SET|REMOVE|DELETE|DETACH DELETE|FOREACH)\b"
)
_READ_ONLY = "this session may only read"

_TIMED_OUT = ("Transaction.TransactionTimedOut", "Transaction.Terminated")
_FORBIDDEN = ("Statement.AccessMode", "Security.Forbidden")
_OUT_OF_MEMORY = "General.MemoryPoolOutOfMemoryError"
_NOT_OF_A_QUERY = (
    "Security.Unauthorized",
    "Security.Authentication",
    "Security.CredentialsExpired",
    "Database.",
)

#: All that ArcadeDB says in production mode, whatever was wrong.
_CONCEALED = "Check the server log"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query gave: rows in the store's order, each as long as ``columns``.

    :param truncated: whether there were more rows than the limit
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


@contextmanager
def open_reader(settings: Settings) -> Iterator[neo4j.Driver]:
    """A driver for analysts' queries; the store must run.

    :raises InvalidSettings: if the store could not refuse a write: ArcadeDB takes no notice
        of read access mode, so that nothing would hold without a read-only user
    :raises StoreUnavailable: if it does not answer
    """
    with graph_errors(settings), reader_driver(settings) as driver:
        unguarded = settings.graph_url is not None and settings.graph_reader_user is None
        if unguarded and dialect.is_arcadedb(driver):
            raise InvalidSettings("GRAPH_READER_USER: ArcadeDB needs a user who may only read")
        yield driver


def run_query(
    driver: neo4j.Driver,
    query: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout_s: float,
    row_limit: int,
    database: str,
) -> QueryResult:
    """Run ``query`` and give its first ``row_limit`` rows.

    :param driver: of :func:`open_reader`
    :raises QueryRefused: with the store's reason, or the limit that was reached
    """
    mark = uuid4().hex
    # On a line of its own: columns in the store's messages stay right.
    marked = f"/* {mark} */\n{query}"
    values = dict(parameters or {})
    with (
        _refusals(timeout_s),
        _time_limit(driver, database, mark, timeout_s),
        driver.session(
            database=database,
            default_access_mode=neo4j.READ_ACCESS,
            fetch_size=min(row_limit + 1, 1000),
        ) as session,
    ):
        with _transaction(session, timeout_s) as transaction:
            plan = transaction.run(f"EXPLAIN {marked}", values).consume()
            _refuse_unwanted_steps(plan, query)
        with _transaction(session, timeout_s) as transaction:
            result = transaction.run(marked, values)
            columns = tuple(result.keys())
            rows = [tuple(record.values()) for record in islice(result, row_limit + 1)]
            if len(rows) > row_limit:
                # ArcadeDB would work out all that is left only to throw it away.
                _end_on_arcadedb(driver, database, mark)
            else:
                _refuse_writes(result.consume())
    return QueryResult(columns, tuple(rows[:row_limit]), truncated=len(rows) > row_limit)


@contextmanager
def _transaction(session: neo4j.Session, timeout_s: float) -> Iterator[neo4j.Transaction]:
    """A transaction that is never committed."""
    transaction = session.begin_transaction(timeout=timeout_s)
    try:
        yield transaction
    finally:
        # A query that was ended says so once more.
        with suppress(Neo4jError):
            transaction.close()


@contextmanager
def _time_limit(driver: neo4j.Driver, database: str, mark: str, timeout_s: float) -> Iterator[None]:
    """Have ArcadeDB end the query in time; Neo4j does by itself, at the transaction's timeout."""
    timer = Timer(timeout_s, _end_on_arcadedb, (driver, database, mark))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_on_arcadedb(driver: neo4j.Driver, database: str, mark: str) -> None:
    if dialect.is_arcadedb(driver):
        dialect.end_query(driver, database, mark)


def _refuse_unwanted_steps(plan: neo4j.ResultSummary, query: str) -> None:
    steps = dialect.steps_of(plan, query)
    if not steps or any(step.kind.startswith(("Show", "Terminate")) for step in steps):
        raise QueryRefused("refused: commands to the server are not for analysts")
    for step in steps:
        if _WRITES.match(step.kind):
            raise QueryRefused(f"refused: the query writes, and {_READ_ONLY}")
        if step.kind == dialect.LOAD:
            raise QueryRefused("refused: a query may not load files or addresses")
        if step.kind == dialect.PROCEDURE and step.name.lower() not in PROCEDURES:
            raise QueryRefused(
                f"refused: {step.name or 'a procedure'} is not on the list of procedures",
                f"these are: {', '.join(sorted(PROCEDURES))}",
            )
    if dialect.tells_kind(plan):
        _refuse_writes(plan)


def _refuse_writes(summary: neo4j.ResultSummary) -> None:
    if summary.query_type != "r":
        raise QueryRefused(f"refused: the query does more than read, and {_READ_ONLY}")


@contextmanager
def _refusals(timeout_s: float) -> Iterator[None]:
    """Turn what a store says about a query into a refusal in plain words."""
    try:
        yield
    except (ClientError, DatabaseError, TransientError) as error:
        code = str(error.code).partition("Error.")[2]
        if code.startswith(_NOT_OF_A_QUERY):
            raise
        if isinstance(error, TransientError) and code not in (*_TIMED_OUT, _OUT_OF_MEMORY):
            raise
        raise _refusal(error, code, timeout_s) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise QueryRefused(f"the query or a parameter cannot be sent: {error}") from error


def _refusal(error: Neo4jError, code: str, timeout_s: float) -> QueryRefused:
    if code.startswith(_TIMED_OUT):
        return QueryRefused(
            f"the store ended the query at its limit of {timeout_s:g} s",
            "ask for less, or allow more time with --timeout",
        )
    if code == _OUT_OF_MEMORY:
        return QueryRefused("the store ended the query at its limit of memory", "ask for less")
    if code.startswith(_FORBIDDEN):
        return QueryRefused(f"refused by the store: {_words(error) or _READ_ONLY}")
    return QueryRefused(_words(error) or f"the store cannot run the query ({code})")


def _words(error: Neo4jError) -> str:
    """The store's first line, with the lines of the query counted as its author does."""
    lines = (error.message or "").splitlines()
    if not lines or _CONCEALED in lines[0]:
        return ""
    words = re.sub(r" \(offset: \d+\)", "", lines[0])
    return re.sub(r"\bline ([1-9]\d*)", lambda found: f"line {int(found[1]) - 1}", words)
