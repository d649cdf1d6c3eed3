"""Changes to tables that have many rows and that others read and write meanwhile."""

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
    """Create an index concurrently: others write into the table meanwhile.

    The index is committed at once, so call this before all other changes of the step. A step that
    was interrupted can be run again: it keeps valid indexes and replaces invalid ones. If the
    caller migrates within a transaction, as a restoration does, the index is created in it.

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
    """Raise the timeouts: the statement waits for older transactions, but blocks nobody."""
    before = connection.execute(_TIMEOUTS).one()._asdict()
    long = {"locks": f"{STATEMENT_TIMEOUT_S}s", "statements": "0"}
    connection.execute(_SET_TIMEOUTS, long)
    try:
        yield connection
    finally:
        connection.execute(_SET_TIMEOUTS, before)
