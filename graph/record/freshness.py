"""How far the graph is, and of when the knowledge in it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select, text, update

from graph.tables import KnowledgeRow

_PROGRESS = text(
    """
    SELECT
        (
            SELECT max(ingested_at) FROM documents
            WHERE kind IN ('inspection', 'release', 'advisory', 'analysis')
        ) AS as_of,
        coalesce(
            (SELECT min(entry_id) - 1 FROM outbox),
            (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_entry_id_seq)
        ) AS revision
    """
)
_BACKLOG = text(
    """
    SELECT
        (SELECT max(asked_at) FROM index_projects) AS asked_at,
        greatest(
            (SELECT max(as_of) FROM index_projects),
            (SELECT max(as_of) FROM advisory_sources WHERE advisories > 0)
        ) AS answered_at,
        (SELECT count(*) FROM (SELECT FROM outbox LIMIT :counted) few) AS waiting,
        (SELECT created_at FROM outbox ORDER BY entry_id LIMIT 1) AS waiting_since
    """
)
#: Entries that wait are counted no further: that is asked by whoever likes, as often as it likes.
COUNTED = 100_000
_CHANGES = select(KnowledgeRow.changes)


@dataclass(frozen=True, slots=True)
class Progress:
    """Of when an answer from the stores is.

    :param as_of: when the record last took knowledge in; ``None`` if it has none
    :param revision: of the graph: all outbox entries up to this one are in it
    """

    as_of: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the graph does not show yet.

    :param asked_at: when an index was last asked, whether or not it answered
    :param answered_at: when an index or a source of advisories last answered
    :param waiting: entries of the outbox, counted up to :data:`COUNTED`
    :param waiting_since: when the oldest of them was written
    """

    asked_at: datetime | None
    answered_at: datetime | None
    waiting: int
    waiting_since: datetime | None

    @property
    def lag_s(self) -> float:
        """How long the oldest entry has waited, in seconds; 0 if none does."""
        if self.waiting_since is None:
            return 0.0
        return max(0.0, (datetime.now(UTC) - self.waiting_since).total_seconds())


def progress(connection: Connection) -> Progress:
    """Of when an answer is; one query, which costs the same however much there is."""
    return Progress(*connection.execute(_PROGRESS).one())


def backlog(connection: Connection) -> Backlog:
    """How far the graph is behind the record; one query."""
    return Backlog(*connection.execute(_BACKLOG, {"counted": COUNTED}).one())


def count_change(connection: Connection) -> None:
    """Have answers that were kept for later be given no more.

    Triggers do so for new documents. Called last in a transaction, nobody waits in a circle.
    """
    connection.execute(update(KnowledgeRow).values(changes=KnowledgeRow.changes + 1))


def changes(connection: Connection) -> int:
    """How often the record took knowledge in, or asked where there is some.

    Counted up in each transaction as it commits, so that whoever sees a number sees all that was
    written up to it. Times do not promise that: they are of when a transaction began.
    """
    return connection.scalar(_CHANGES) or 0
