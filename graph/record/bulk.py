"""Bulk writes: COPY into a staging table, then one INSERT that skips existing rows; the outbox."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from io import StringIO
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import ARRAY, Connection, Table, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.types import LargeBinary

from graph.tables import Base, OutboxEntry, table_of

_ESCAPES = str.maketrans(
    {
        "\\": "\\\\",
        "\t": "\\t",
        "\n": "\\n",
        "\r": "\\r",
        # PostgreSQL cannot store NUL in text, so it is written as an escape.
        "\0": "\\\\0",
    }
)
#: So many rows are deleted more quickly than a table is truncated.
_FEW = 1000


@cache
def columns_of(model: type[Base]) -> tuple[str, ...]:
    """Names of the columns, in the order of the table; the primary key comes first."""
    return tuple(table_of(model).columns.keys())


def copy_new(
    connection: Connection, model: type[Base], rows: Sequence[Sequence[Any]], columns: Sequence[str]
) -> list[str]:
    """Like :func:`insert_new`, but faster if all rows are new.

    Rows are copied into the table directly. If a row exists already, the copy is rolled back and
    :func:`insert_new` is called instead.

    :returns: the first column of each inserted row
    """
    table = table_of(model)
    ordered = sorted(rows, key=itemgetter(0))
    try:
        with connection.begin_nested():
            copy_rows(connection, table.name, table, ordered, columns)
    except IntegrityError:
        return insert_new(connection, model, rows, columns, columns[0])
    return [row[0] for row in ordered]


def insert_new(
    connection: Connection,
    model: type[Base],
    rows: Sequence[Sequence[Any]],
    columns: Sequence[str],
    key: str | None = None,
) -> list[str]:
    """Insert the rows that do not exist yet, and return the ``key`` of each inserted row.

    Rows are inserted in the order of their first column. Two writers of the same rows therefore
    wait for each other instead of deadlocking.

    :param rows: one value for each column: text, numbers, bytes, times, or a value for the type
        of the column (a list for an array, a dictionary for JSONB)
    :param key: text column to return; ``None`` returns nothing
    """
    if not rows:
        return []
    table = table_of(model)
    names = ", ".join(columns)
    staging = _staged(connection, table, rows, columns)
    returning = f" RETURNING {key}" if key else ""
    # Names come from table definitions, never from a document.
    result = connection.execute(
        text(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {staging}"
            f' ORDER BY {columns[0]} COLLATE "C" ON CONFLICT DO NOTHING{returning}'
        )
    )
    keys = list(result.scalars()) if key else []
    _empty(connection, staging, len(rows))
    return keys


def update_rows(
    connection: Connection, model: type[Base], rows: Sequence[Sequence[Any]], columns: Sequence[str]
) -> None:
    """Overwrite existing rows; the first column identifies a row.

    To avoid deadlocks, lock the rows first, in the order of that column.
    """
    if not rows:
        return
    table = table_of(model)
    staging = _staged(connection, table, rows, columns)
    key, *others = columns
    values = ", ".join(f"{name} = new.{name}" for name in others)
    connection.exec_driver_sql(
        f"UPDATE {table.name} SET {values} FROM {staging} AS new"
        f" WHERE {table.name}.{key} = new.{key}"
    )
    _empty(connection, staging, len(rows))


def _staged(
    connection: Connection, table: Table, rows: Sequence[Sequence[Any]], columns: Sequence[str]
) -> str:
    """Copy ``rows`` into a temporary table of the connection, and return its name."""
    names = ", ".join(columns)
    # One table for each set of columns, because connections are reused.
    staging = f"staging_{table.name}_{zlib.crc32(names.encode()):08x}"
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {staging} ON COMMIT DELETE ROWS "
        f"AS SELECT {names} FROM {table.name} WITH NO DATA"
    )
    copy_rows(connection, staging, table, rows, columns)
    return staging


def _empty(connection: Connection, staging: str, rows: int) -> None:
    """Empty a staging table, because a later call in the transaction must not see its rows."""
    # TRUNCATE creates a file, which takes longer than to delete a few rows.
    connection.exec_driver_sql(f"{'TRUNCATE' if rows > _FEW else 'DELETE FROM'} {staging}")


def copy_rows(
    connection: Connection,
    target: str,
    table: Table,
    rows: Iterable[Sequence[Any]],
    columns: Sequence[str],
) -> None:
    """COPY ``rows`` into ``target``, whose columns have the same types as in ``table``."""
    encoders = [_encoder(table, column) for column in columns]
    buffer = StringIO()
    for row in rows:
        fields = [
            "\\N" if value is None else encode(value)
            for encode, value in zip(encoders, row, strict=True)
        ]
        buffer.write("\t".join(fields))
        buffer.write("\n")
    buffer.seek(0)
    copy_expert(connection, f"COPY {target} ({', '.join(columns)}) FROM STDIN", buffer)


def copy_expert(connection: Connection, statement: str, file: Any) -> None:
    """Run a COPY statement from or to a file, in the transaction of ``connection``."""
    # SQLAlchemy does not support COPY, the DBAPI connection does.
    cursor: Any = connection.connection.cursor()
    try:
        cursor.copy_expert(statement, file, 1 << 16)
    except connection.dialect.loaded_dbapi.Error as error:
        # The driver's error bypasses SQLAlchemy, so it is wrapped here.
        raise DBAPIError.instance(
            statement, None, error, connection.dialect.loaded_dbapi.Error
        ) from error
    finally:
        cursor.close()


@cache
def _encoder(table: Table, column: str) -> Any:
    kind = table.c[column].type
    if isinstance(kind, LargeBinary):
        return _encode_bytes
    if isinstance(kind, JSONB):
        return _encode_json
    if isinstance(kind, ARRAY):
        return _encode_array
    return _encode_scalar


def _encode_scalar(value: Any) -> str:
    return _escape(value) if isinstance(value, str) else str(value)


def _escape(text: str) -> str:
    # Most text needs no escapes, and searching is cheaper than translating.
    if "\\" in text or "\n" in text or "\t" in text or "\r" in text or "\0" in text:
        return text.translate(_ESCAPES)
    return text


def _encode_bytes(value: bytes) -> str:
    return f"\\\\x{value.hex()}"


def _encode_json(value: Any) -> str:
    return _escape(orjson.dumps(value).decode())


def _encode_array(values: Sequence[Any]) -> str:
    """An array literal with quoted texts, so that commas and braces are literal."""
    items = (_quote(value) if isinstance(value, str) else repr(value) for value in values)
    return "{" + _escape(",".join(items)) + "}"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def add_entries(connection: Connection, keys: Mapping[str, Iterable[str]]) -> None:
    """Write outbox entries, kind by kind.

    :param keys: keys of the entries, by kind
    """
    rows = [(kind, key) for kind, of_kind in keys.items() for key in sorted(of_kind)]
    if rows:
        outbox = table_of(OutboxEntry)
        copy_rows(connection, outbox.name, outbox, rows, ("kind", "key"))
