"""Which tables a backup has, and in which order they are restored."""

from __future__ import annotations

from sqlalchemy import Connection, text

from graph.tables import Base

#: Tables of the queue, which brings its own schema, after those that they refer to.
QUEUE_TABLES = (
    "procrastinate_workers",
    "procrastinate_jobs",
    "procrastinate_periodic_defers",
    "procrastinate_events",
)
#: Left out: the graph is built again from the record, people log in again, and requests are
#: counted anew. The document store that the documents are restored into gets an identifier anew.
LEFT_OUT = frozenset(
    {"document_store", "outbox", "graph_checkpoints", "page_sessions", "request_counts"}
)
#: Tables that may have rows in an empty record.
FILLED_FROM_THE_START = frozenset(
    {"document_store", "graph_checkpoints", "knowledge", "record_checks", "request_counts"}
)

_COLUMNS = text(
    """
    SELECT relname::text AS name, array_agg(attname::text ORDER BY attnum) AS columns
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    GROUP BY relname
    """
)


def stored_tables(connection: Connection) -> dict[str, tuple[str, ...]]:
    """The tables of the record in this database with their columns, referred ones first.

    Tables that another program keeps in the same database do not count.
    """
    existing = {row.name: tuple(row.columns) for row in connection.execute(_COLUMNS)}
    names = [*(table.name for table in Base.metadata.sorted_tables), *QUEUE_TABLES]
    return {name: existing[name] for name in names if name in existing}


def quoted_names(connection: Connection, *names: str) -> str:
    """Identifiers as SQL, separated by commas."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ", ".join(map(quote, names))
