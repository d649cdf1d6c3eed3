"""Spans of the statements of PostgreSQL and of the queries of the graph.

A span has the kind of a statement only: its text and its values may be private.
"""

import functools
from collections.abc import Callable
from typing import Any

import neo4j
import sqlalchemy
from sqlalchemy import event

from common.tracing import span_below

_OPERATIONS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "COPY", "SET", "LOCK"})
#: Attribute of SQLAlchemy's execution context that holds the open span.
_SPAN = "_thoth_span"


@functools.cache
def trace_stores() -> None:
    """Make all connections of this process record spans, while traces are on."""
    event.listen(sqlalchemy.Engine, "before_cursor_execute", _begin)
    event.listen(sqlalchemy.Engine, "after_cursor_execute", _end)
    event.listen(sqlalchemy.Engine, "handle_error", _fail)
    for kind in (neo4j.Session, neo4j.Transaction, neo4j.ManagedTransaction):
        kind.run = _traced(kind.run)  # type: ignore[method-assign]


def _begin(
    _connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _many: bool
) -> None:
    word = (statement.split(maxsplit=1) or [""])[0].upper()
    operation = word if word in _OPERATIONS else "OTHER"
    attributes = {"db.system.name": "postgresql", "db.operation.name": operation}
    opened = span_below(f"postgresql {operation}", attributes)
    opened.__enter__()
    setattr(context, _SPAN, opened)


def _end(
    _connection: Any, _cursor: Any, _statement: str, _values: Any, context: Any, _many: bool
) -> None:
    getattr(context, _SPAN).__exit__(None, None, None)
    delattr(context, _SPAN)


def _fail(failure: sqlalchemy.engine.ExceptionContext) -> None:
    opened = getattr(failure.execution_context, _SPAN, None)
    if opened is not None:
        delattr(failure.execution_context, _SPAN)
        error = failure.original_exception
        opened.__exit__(type(error), error, error.__traceback__)


def _traced(run: Callable[..., neo4j.Result]) -> Callable[..., neo4j.Result]:
    """A method that sends a query; the span ends when the graph has accepted the query."""

    @functools.wraps(run)
    def traced(*arguments: Any, **values: Any) -> neo4j.Result:
        with span_below("graph query", {"db.system.name": "neo4j"}):
            return run(*arguments, **values)

    return traced
