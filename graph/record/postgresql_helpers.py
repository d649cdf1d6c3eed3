"""Helpers for PostgreSQL: array parameters, text from outside, advisory locks."""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from enum import IntEnum, unique
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Text,
    bindparam,
    func,
    select,
)
from sqlalchemy.exc import DBAPIError

from graph.tables import Base, table_of

Item = TypeVar("Item")

#: Pause between two attempts to get a lock.
_POLL_S = 0.1
_ESCAPED = re.compile(r"\\udc([89a-f][0-9a-f])")
#: Three texts of this length fit into a row of a B-tree index, which holds 2,704 bytes.
LIMIT_BYTES = 800


def storable(text: str) -> str:
    """``text`` as PostgreSQL can store and index it.

    NUL and lone surrogates are written as escapes. Python uses lone surrogates for the bytes of a
    file name that are not valid UTF-8. Text above :data:`LIMIT_BYTES` is cut, and its digest is
    appended to keep it unique.

    >>> storable("caf\\udce9")
    'caf\\\\udce9'
    """
    data = text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
    if len(data) <= LIMIT_BYTES:
        return data.decode()
    mark = f"… (sha256 {hashlib.sha256(data).hexdigest()[:16]})"
    return data[: LIMIT_BYTES - len(mark.encode())].decode("utf-8", "ignore") + mark


def current_time(connection: Connection) -> datetime:
    """The current time by PostgreSQL's clock; clocks of other machines may be wrong."""
    moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return moment


def as_named(text: str) -> str:
    """Undo :func:`storable` for a file name, to open the file again.

    >>> as_named("caf\\\\udce9") == "caf\\udce9"
    True
    """
    return _ESCAPED.sub(lambda match: chr(0xDC00 + int(match[1], 16)), text)


def texts(values: Iterable[str]) -> BindParameter[Any]:
    """One array parameter for any number of values."""
    return bindparam(None, list(values), ARRAY(Text))


def matching(values: Mapping[Any, object]) -> list[ColumnElement[bool]]:
    """Conditions that require columns to equal values; the value ``None`` matches everything.

    :param values: by column
    """
    return [column == value for column, value in values.items() if value is not None]


def columns_for(view: type, table: type[Base], **others: Any) -> list[ColumnElement[Any]]:
    """Columns for the fields of a dataclass, in their order and with their names.

    :param others: columns of fields that the table has under another name, or not at all
    """
    own: Mapping[str, Any] = {**table_of(table).columns, **others}
    return [own[it.name].label(it.name) for it in fields(view) if it.name in own]


def first_as(connection: Connection, query: Executable, kind: Callable[..., Item]) -> Item | None:
    """The only row of ``query`` as an object of ``kind``, or ``None`` if there is no row."""
    row = connection.execute(query).one_or_none()
    return None if row is None else kind(*row)


@unique
class AdvisoryLock(IntEnum):
    """Keys of advisory locks; each number spells a word in ASCII."""

    #: Transactions that add versions share this lock; those that add advisories hold it alone.
    ADVISORIES = 0x61647669
    #: Held by the transaction that adds changes of performance; spells "chan".
    CHANGES = 0x6368616E
    #: Held by the only process that projects.
    PROJECTION = 0x70726F6A
    #: Held by a backup, and shared by transactions that delete bodies from the document store.
    BACKUP = 0x6261636B
    #: Held by a transaction that adds or removes an evidence pack; spells "pack".
    PACKS = 0x7061636B
    #: Held by a process that migrates; spells "thoth".
    MIGRATION = 0x74686F7468


def lock_transaction(connection: Connection, lock: AdvisoryLock, *, shared: bool = False) -> None:
    """Hold an advisory lock until the transaction ends; one query, even if already held."""
    function = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
    connection.execute(select(function(lock.value)))


def shares_lock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Share an advisory lock until the transaction ends, unless another holds it exclusively."""
    shared = select(func.pg_try_advisory_xact_lock_shared(lock.value))
    return bool(connection.scalar(shared))


def lock_name(
    connection: Connection, name: str, *, namespace: int = 0, shared: bool = False
) -> None:
    """Like :func:`lock_transaction`, for a name of any length, such as an identifier.

    :param namespace: equal names in different namespaces are different locks
    """
    function = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
    connection.execute(select(function(func.hashtextextended(name, namespace))))


def commit_unflushed(connection: Connection) -> None:
    """Let the transaction end before it is on disk; a transaction that waits for it must follow.

    If PostgreSQL dies in between, it has lost both or only the second.
    """
    connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")


@contextmanager
def session_lock(
    engine: Engine, lock: int, wait_s: float | None = None
) -> Iterator[Connection | None]:
    """Hold an advisory lock on a separate connection; the lock ends with the process.

    :param wait_s: how long to wait; ``None`` waits without limit
    :returns: the connection, or ``None`` if another process holds the lock after ``wait_s``
    """
    with ExitStack() as last, engine.connect() as connection:
        # Not handed back to the pool: closing the connection releases the lock. SQLAlchemy leaves
        # the connection open if it cannot roll back, so the driver closes it.
        driver: Any = connection.connection.driver_connection
        last.callback(driver.close)
        connection.detach()
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while not connection.scalar(select(func.pg_try_advisory_lock(int(lock)))):
            connection.rollback()
            if deadline is not None and time.monotonic() > deadline:
                yield None
                return
            time.sleep(_POLL_S)
        connection.commit()
        try:
            yield connection
        finally:
            # The server notices a closed connection a moment later, so the lock is released here.
            with suppress(DBAPIError):
                connection.rollback()
                connection.execute(select(func.pg_advisory_unlock(int(lock))))
