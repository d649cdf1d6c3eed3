"""The outbox: changes of the record that the graph does not show yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from graph.record.bulk import copy_rows
from graph.tables import OutboxEntry, table_of


def add_entries(connection: Connection, keys: Mapping[str, Iterable[str]]) -> None:
    """Write outbox entries, kind by kind.

    :param keys: keys of the entries, by kind
    """
    rows = [(kind, key) for kind, of_kind in keys.items() for key in sorted(of_kind)]
    if rows:
        outbox = table_of(OutboxEntry)
        copy_rows(connection, outbox.name, outbox, rows, ("kind", "key"))
