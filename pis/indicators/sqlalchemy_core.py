"""The indicator ``sqlalchemy``: statements of SQLAlchemy Core on SQLite in memory.

- ``insert``: insert 5,000 rows with one statement in a transaction, and undo it.
- ``select``: read about half of 5,000 rows in an order, as tuples.
- ``lookups``: 200 queries of one row by its primary key, each built anew, as a web service does.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_ROWS = 5_000
_SIZES = {"rows": _ROWS, "threads": 1}


def _filled(sqlalchemy: Any, seed: int) -> tuple[Any, Any, list[dict[str, Any]]]:
    """A connection, a table, and the rows that it has."""
    below = Random(seed).randrange  # noqa: S311
    integer, column = sqlalchemy.Integer, sqlalchemy.Column
    table = sqlalchemy.Table(
        "orders", sqlalchemy.MetaData(), column("id", integer, primary_key=True),
        column("customer", integer), column("amount", sqlalchemy.Float),
    )  # fmt: skip
    connection = sqlalchemy.create_engine("sqlite://").connect()
    rows = [
        {"id": number, "customer": below(500), "amount": below(10**6) / 64}
        for number in range(_ROWS)
    ]
    with connection.begin():
        table.create(connection)
        connection.execute(table.insert(), rows)
    return connection, table, rows


def insert(sqlalchemy: Any, seed: int) -> Made:
    connection, table, rows = _filled(sqlalchemy, seed)
    more = [{**row, "id": row["id"] + _ROWS} for row in rows]
    functions = sqlalchemy.func
    totals = sqlalchemy.select(functions.count(table.c.id), functions.sum(table.c.amount))

    def call() -> tuple[Any, ...]:
        with connection.begin() as transaction:
            connection.execute(table.insert(), more)
            found = tuple(connection.execute(totals).one())
            transaction.rollback()
        return found

    expected = (2 * _ROWS, 2 * sum(row["amount"] for row in rows))
    return Made(call, partial(same, expected), _SIZES)


def select(sqlalchemy: Any, seed: int) -> Made:
    connection, table, rows = _filled(sqlalchemy, seed)
    statement = sqlalchemy.select(table).where(table.c.customer < 250)
    statement = statement.order_by(table.c.amount, table.c.id)

    def call() -> list[tuple[Any, ...]]:
        with connection.begin():
            return [tuple(row) for row in connection.execute(statement)]

    half = (row for row in rows if row["customer"] < 250)
    expected = [tuple(it.values()) for it in sorted(half, key=lambda it: (it["amount"], it["id"]))]
    return Made(call, partial(same, expected), _SIZES)


def lookups(sqlalchemy: Any, seed: int) -> Made:
    connection, table, rows = _filled(sqlalchemy, seed)
    wanted = range(0, _ROWS, 25)

    def call() -> list[tuple[Any, ...]]:
        with connection.begin():
            queries = (sqlalchemy.select(table).where(table.c.id == key) for key in wanted)
            return [tuple(connection.execute(it).one()) for it in queries]

    return Made(call, partial(same, [tuple(rows[key].values()) for key in wanted]), _SIZES)


INDICATOR = library_indicator(
    "sqlalchemy",
    "PiSqlalchemy",
    "Insert into and select from SQLite in memory with SQLAlchemy Core.",
    {"insert": insert, "select": select, "lookups": lookups},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
