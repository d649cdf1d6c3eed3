"""Changes to tables that have many rows and that others read and write meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic import op
from sqlalchemy import Connection, text

from graph.engine import STATEMENT_TIMEOUT_S

_LOG = logging.getLogger(__name__)

_IS_INVALID = text(
    "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid)"
)
_TIMEOUTS = text(
    "SELECT current_setting('lock_timeout') AS locks,"
    " current_setting('statement_timeout') AS statements"
)
_SET_TIMEOUTS = text(
    "SELECT set_config('lock_timeout', :locks, false),"
    " set_config('statement_timeout', :statements, false)"
)


def create_index(name: str, table: str, columns: list[str], **options: Any) -> None:
    """As ``op.create_index``, but others write into the table meanwhile.

    The index is committed at once, so it is the first change of its step or follows such ones. A
    step that was cut is run again: an index that is there is kept, and one that was cut half-built
    is built anew. Within a transaction of the caller's, nobody else sees the table, and the index
    is created in this transaction.

    :param options: as of ``op.create_index``
    """
    context = op.get_context()
    if context.config is None or context.config.attributes["within_transaction"]:
        op.create_index(name, table, columns, **options)
        return
    _LOG.info("index_is_created", extra={"index": name, "table": table})
    with context.autocommit_block(), _long_timeouts(op.get_bind()) as connection:
        if connection.scalar(_IS_INVALID, {"name": name}):
            op.drop_index(name, table, postgresql_concurrently=True)
        op.create_index(
            name, table, columns, if_not_exists=True, postgresql_concurrently=True, **options
        )


@contextmanager
def _long_timeouts(connection: Connection) -> Iterator[Connection]:
    """Wait long for older transactions: nobody waits behind this wait, as behind other locks."""
    before = connection.execute(_TIMEOUTS).one()._asdict()
    long = {"locks": f"{STATEMENT_TIMEOUT_S}s", "statements": "0"}
    connection.execute(_SET_TIMEOUTS, long)
    try:
        yield connection
    finally:
        connection.execute(_SET_TIMEOUTS, before)
