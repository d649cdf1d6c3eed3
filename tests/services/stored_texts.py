"""Every text in the stores: rows, bodies of documents, and properties of the graph."""

from collections.abc import Iterator

import sqlalchemy

from graph.engine import Stores
from graph.record.documents import unpacked_body


def stored_texts(stores: Stores) -> Iterator[str]:
    """Each text with the place where it is stored."""
    yield from _rows(stores)
    yield from _bodies(stores)
    yield from _properties(stores)


def _rows(stores: Stores) -> Iterator[str]:
    with stores.engine.connect() as connection:
        for table in sqlalchemy.inspect(connection).get_table_names():
            # Bodies are compressed, so they follow.
            row = "to_jsonb(t) - 'body'" if table == "documents" else "to_jsonb(t)"
            for (text,) in connection.exec_driver_sql(f"SELECT ({row})::text FROM {table} t"):
                yield f"{table}: {text}"


def _bodies(stores: Stores) -> Iterator[str]:
    with stores.engine.connect() as connection:
        # Tests write documents without a body for rows that need one.
        query = (
            "SELECT document_id, kind, size_bytes, body, location FROM documents"
            " WHERE size_bytes > 0"
        )
        for row in connection.exec_driver_sql(query):
            body = unpacked_body(stores.settings, row).decode("utf-8", "replace")
            yield f"body of {row.kind}: {body}"


def _properties(stores: Stores) -> Iterator[str]:
    with stores.driver.session(database=stores.database) as session:
        for query in ("MATCH (n) RETURN properties(n)", "MATCH ()-[n]->() RETURN properties(n)"):
            for (properties,) in session.run(query):
                yield f"graph: {properties}"
