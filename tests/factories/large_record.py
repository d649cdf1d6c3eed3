"""A record with many rows in every table that the graph shows, made by PostgreSQL itself."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    Connection,
    Double,
    Integer,
    Table,
    Text,
    case,
    cast,
    column,
    func,
    insert,
    literal,
    null,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, array
from sqlalchemy.sql import visitors

from graph.projection.outbox import EDGES, NODES
from graph.tables import (
    Document,
    IndexProject,
    ObservationRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
)

_NUMBER: Any = column("number", Integer)
_NAME = literal("name-") + func.lpad(cast(_NUMBER, Text), 6, "0")
#: Four of five observations are measured.
_IS_MEASURED = _NUMBER % 5 != 0

#: Values that a constraint or a test asks for.
_SPECIAL: dict[Column[Any] | Any, Any] = {
    Document.location: null(),
    PackageVersionRow.state: literal("solved"),
    IndexProject.state: literal("known"),
    ObservationRow.outcome: case((_IS_MEASURED, "measured"), else_="crashed"),
    ObservationRow.rate: case((_IS_MEASURED, cast(_NUMBER, Double)), else_=null()),
    ObservationRow.unit: case((_IS_MEASURED, "FLOP/s"), else_=null()),
    RuntimeEnvironmentRow.python_version: literal("3.") + cast(10 + _NUMBER % 3, Text),
}


def fill(connection: Connection, count: int) -> None:
    """Insert ``count`` rows into each table that the graph shows; the caller owns the transaction.

    All names and keys of row ``n`` are ``name-n``, so that every foreign key leads from row
    ``n`` to row ``n`` and need not be checked. Nothing is put into the outbox.
    """
    connection.execute(text("SET LOCAL session_replication_role = replica"))
    special = {one.expression: value for one, value in _SPECIAL.items()}
    elements = (it for kind in (*NODES, *EDGES) for it in visitors.iterate(kind.rows))
    shown = {it for it in (getattr(it, "table", it) for it in elements) if isinstance(it, Table)}
    for table in shown:
        columns = list(table.columns)
        values = [special.get(one, _value(one)).label(one.name) for one in columns]
        numbers = func.generate_series(1, count).table_valued(_NUMBER).render_derived()
        rows = select(*values).select_from(numbers)
        connection.execute(insert(table).from_select([one.name for one in columns], rows))


def _value(column: Column[Any]) -> Any:
    """An expression for row ``number`` of a column."""
    if isinstance(column.type, ARRAY):
        item = _NAME if isinstance(column.type.item_type, Text) else cast(_NUMBER, Double)
        return array([item])
    if isinstance(column.type, JSONB):
        return cast(literal("{}"), JSONB)
    by_type = {
        str: _NAME,
        bool: _NUMBER % 2 == 0,
        bytes: literal(b"{}"),
        datetime: func.to_timestamp(_NUMBER),
    }
    return by_type.get(column.type.python_type, _NUMBER)
