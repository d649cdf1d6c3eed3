"""Helpers for PostgreSQL: array parameters, text from outside, advisory locks."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum, unique
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Connection,
    Engine,
    Text,
    bindparam,
    func,
    select,
)
from sqlalchemy.exc import DBAPIError

#: Pause between two attempts to get a lock.
_POLL_S = 0.1
_ESCAPED = re.compile(r"\\udc([89a-f][0-9a-f])")
#: Three of them fit a row of a B-tree index, which holds 2,704 bytes.
LIMIT_BYTES = 800


def storable(text: str) -> str:
    """``text`` with bytes that are no characters, and NUL, written as escapes.

    A file name may be any bytes; Python shows those that are not UTF-8 as lone surrogates.
    Text above :data:`LIMIT_BYTES` is cut and ends in its digest, so that it stays distinct.

    >>> storable("caf\\udce9")
    'caf\\\\udce9'
    """
    data = text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
    if len(data) <= LIMIT_BYTES:
        return data.decode()
    mark = f"… (sha256 {hashlib.sha256(data).hexdigest()[:16]})"
    return data[: LIMIT_BYTES - len(mark.encode())].decode("utf-8", "ignore") + mark


def as_named(text: str) -> str:
    """The name of a file of which :func:`storable` made ``text``, to open it again.

    >>> as_named("caf\\\\udce9") == "caf\\udce9"
    True
    """
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


def texts(values: Iterable[str]) -> BindParameter[Any]:
    """One array parameter, however many values."""
    return bindparam(None, list(values), ARRAY(Text))


@unique
class AdvisoryLock(IntEnum):
    """Keys of advisory locks; the number spells the name in ASCII where it can."""

    #: Held while versions (shared) or advisories (alone) are added.
    ADVISORIES = 0x61647669
    #: Held by the one process that projects.
    PROJECTION = 0x70726F6A
    #: Held by a process that migrates: "thoth".
    MIGRATION = 0x74686F7468


def lock_transaction(connection: Connection, lock: AdvisoryLock, *, shared: bool = False) -> None:
    """Hold an advisory lock until the transaction ends; a second call costs a round trip."""
    function = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
    connection.execute(select(function(lock.value)))


def lock_name(
    connection: Connection, name: str, *, namespace: int = 0, shared: bool = False
) -> None:
    """:func:`lock_transaction` for a name of any length, such as an identifier.

    :param namespace: keeps equal names of different things apart
    """
    function = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
    connection.execute(select(function(func.hashtextextended(name, namespace))))


@contextmanager
def session_lock(
    engine: Engine, lock: int, wait_s: float | None = None
) -> Iterator[Connection | None]:
    """Hold an advisory lock on a connection of its own; a process that dies releases it.

    :param wait_s: how long to wait; ``None`` waits without limit
    :returns: the connection, or ``None`` if another process holds the lock after ``wait_s``
    """
    with engine.connect() as connection:
        # Not handed back to the pool: closing the connection releases the lock.
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
