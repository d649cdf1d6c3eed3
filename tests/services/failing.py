"""Statements that PostgreSQL refuses, and connections that it cuts."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from sqlalchemy import event

#: What PostgreSQL is made to do instead of a statement: a serialization failure, a deadlock, and
#: the end of the connection.
FAULTS = (
    "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END $$",
    "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40P01'; END $$",
    "SELECT pg_terminate_backend(pg_backend_pid())",
)


@contextmanager
def failing(share: float, seed: int) -> Iterator[list[str]]:
    """Let a share of all statements fail in PostgreSQL itself.

    :returns: the injected faults so far
    """
    draw, injected, lock = random.Random(seed), [], threading.Lock()

    def before(_c: Any, cursor: Any, _s: Any, _p: Any, _x: Any, _m: Any) -> None:
        # PostgreSQL reports a failed transaction to later statements, and nothing else.
        if cursor.connection.info.transaction_status == TRANSACTION_STATUS_INERROR:
            return
        with lock:
            fault = draw.choice(FAULTS) if draw.random() < share else None
        if fault is not None:
            injected.append(fault)
            cursor.execute(fault)

    event.listen(sqlalchemy.Engine, "before_cursor_execute", before)
    try:
        yield injected
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", before)
