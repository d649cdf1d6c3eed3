"""How far the graph is, and of when the knowledge in it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select, text

from graph.tables import KnowledgeRow

_PROGRESS = text(
    """
    SELECT
        (
            SELECT max(ingested_at) FROM documents
            WHERE kind IN ('inspection', 'release', 'advisory', 'analysis')
        ) AS as_of,
        greatest(
            (SELECT max(asked_at) FROM index_projects), (SELECT max(as_of) FROM advisory_sources)
        ) AS asked_at,
        coalesce(
            (SELECT min(entry_id) - 1 FROM outbox),
            (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_entry_id_seq)
        ) AS revision,
        (SELECT count(*) FROM outbox) AS waiting,
        (SELECT min(created_at) FROM outbox) AS waiting_since
    """
)
_CHANGES = select(KnowledgeRow.changes)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the projection is.

    :param as_of: when the record last took knowledge in; ``None`` if it has none
    :param asked_at: when an index or a source of advisories was last asked
    :param revision: of the graph: all outbox entries up to this one are in it
    :param waiting: entries that are not
    :param waiting_since: when the oldest of them was written
    """

    as_of: datetime | None
    asked_at: datetime | None
    revision: int
    waiting: int
    waiting_since: datetime | None


def progress(connection: Connection) -> Progress:
    """How far the graph is behind the record; one query."""
    return Progress(*connection.execute(_PROGRESS).one())


def changes(connection: Connection) -> int:
    """How often the record took knowledge in, or asked where there is some.

    Counted up in each transaction as it commits, so that whoever sees a number sees all that was
    written up to it. Times do not promise that: they are of when a transaction began.
    """
    return connection.scalar(_CHANGES) or 0
