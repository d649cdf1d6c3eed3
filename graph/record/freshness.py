"""How current the knowledge is: age of the record, lag of the graph, success of each source."""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, exists, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from graph.record.postgresql_helpers import storable
from graph.tables import AdvisorySource, KnowledgeRow, SourceSuccessRow
from model.text import counted

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
_LAG = text(
    """
    SELECT
        (SELECT count(*) FROM (SELECT FROM outbox LIMIT :most) AS counted) AS entries,
        (SELECT created_at FROM outbox ORDER BY entry_id LIMIT 1) AS since
    """
)
_PENDING_PACKAGES = text(
    """
    SELECT name FROM unnest(:names) AS name
    WHERE EXISTS (
        SELECT FROM outbox WHERE kind = 'rebuild' OR (kind = 'package' AND key = name)
    )
    """
)
_ANSWERS = text(
    """
    SELECT
        (SELECT max(asked_at) FROM index_projects) AS asked_at,
        greatest(
            (SELECT max(as_of) FROM index_projects),
            (SELECT max(as_of) FROM advisory_sources WHERE advisories > 0)
        ) AS answered_at
    """
)
#: Limit for counting pending entries in requests of the API, which has no rate limit.
COUNTED = 100_000
_CHANGES = select(KnowledgeRow.changes)


#: Earlier releases also recorded unreadable sources, which have no advisories.
HAS_ADVISORIES = AdvisorySource.advisories > 0


def knows_advisories(connection: Connection) -> bool:
    """Whether an archive of advisories was read; otherwise vulnerabilities are unknown."""
    return bool(connection.scalar(select(exists().where(HAS_ADVISORIES))))


@dataclass(frozen=True, slots=True)
class KnowledgeState:
    """The state of knowledge behind an answer.

    :param as_of: when the newest document was stored; ``None`` for an empty record
    :param revision: the graph contains all outbox entries up to this number
    """

    as_of: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the graph is behind the record.

    :param count: number of pending outbox entries, or the limit for counting
    :param since: when the oldest pending entry was written; ``None`` if none is pending
    """

    count: int
    since: datetime | None

    @property
    def pending_text(self) -> str:
        """Number of pending entries, for people."""
        return f"{counted(self.count, 'entry', 'entries')} pending"

    @property
    def oldest_s(self) -> float:
        """Age of the oldest pending entry in seconds; 0 if none is pending."""
        if self.since is None:
            return 0.0
        return max(0.0, (datetime.now(UTC) - self.since).total_seconds())


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """When the sources of knowledge were last queried.

    :param asked_at: when an index was last queried, successfully or not
    :param answered_at: when an index or a source of advisories last answered
    """

    asked_at: datetime | None
    answered_at: datetime | None


def progress(connection: Connection) -> KnowledgeState:
    """The current state of knowledge; one query, which takes no longer as the record grows."""
    return KnowledgeState(*connection.execute(_PROGRESS).one())


#: Waiting entries that a request projects at once, after it has written a few rows.
FEW_ENTRIES = 50


def lag_of(connection: Connection, most: int | None = None) -> Lag:
    """How far the graph is behind the record; one query to PostgreSQL, none to the graph.

    :param most: limit for counting; ``None`` counts all entries
    """
    return Lag(*connection.execute(_LAG, {"most": most}).one())


def source_times(connection: Connection) -> SourceTimes:
    """When the sources were last queried; one query."""
    return SourceTimes(*connection.execute(_ANSWERS).one())


def count_change(connection: Connection) -> None:
    """Invalidate cached answers; triggers in PostgreSQL do this when a document is added.

    Call this last in a transaction; otherwise two writers may deadlock.
    """
    connection.execute(update(KnowledgeRow).values(changes=KnowledgeRow.changes + 1))


def changes(connection: Connection) -> int:
    """Number of changes to the knowledge; querying an index counts as a change.

    Each transaction increments the number when it commits, so a reader of number N sees everything
    that was written up to N. A timestamp does not guarantee this, because it records when a
    transaction began.
    """
    return connection.scalar(_CHANGES) or 0


def evidence_position(connection: Connection) -> Hashable:
    """The state that evidence depends on: the number of changes to the knowledge, and the day."""
    return changes(connection), datetime.now(UTC).date()


def pending_packages(connection: Connection, names: Collection[str]) -> set[str]:
    """The given packages whose versions in the graph may differ from the record.

    The entry of a package stays pending until the graph contains all its versions.
    """
    return set(connection.scalars(_PENDING_PACKAGES, {"names": list(names)}))


#: Kinds of sources.
INSPECTIONS, INDEX, ADVISORIES = "inspections", "index", "advisories"
#: The record was compared with its documents, the graph with the record, and a night of the loop
#: finished.
RECORD, GRAPH_SOURCE, LOOP = "record", "graph", "loop"
#: A complete backup was written.
BACKUP = "backup"
#: Time of a source that was never read completely.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SourceSuccess:
    """A source, and when it was last read completely.

    :param source: address without credentials, or name of an index
    :param succeeded_at: :data:`NEVER` if it failed each time
    """

    kind: str
    source: str
    succeeded_at: datetime


def add_successes(connection: Connection, kind: str, sources: Iterable[str]) -> None:
    """Record that sources were read completely now."""
    for source in sources:
        connection.execute(
            insert(SourceSuccessRow)
            .values(kind=kind, source=storable(source), succeeded_at=func.now())
            .on_conflict_do_update(
                index_elements=["kind", "source"], set_={"succeeded_at": func.now()}
            )
        )


def set_sources(connection: Connection, kind: str, sources: Iterable[str]) -> None:
    """List the configured sources of a kind, and forget all others of this kind."""
    kept = [storable(source) for source in sources]
    connection.execute(
        delete(SourceSuccessRow).where(
            SourceSuccessRow.kind == kind, SourceSuccessRow.source.not_in(kept)
        )
    )
    for source in kept:
        connection.execute(
            insert(SourceSuccessRow)
            .values(kind=kind, source=source, succeeded_at=NEVER)
            .on_conflict_do_nothing()
        )


def source_successes(connection: Connection) -> list[SourceSuccess]:
    """All sources with their last success, by kind and name."""
    columns = (SourceSuccessRow.kind, SourceSuccessRow.source, SourceSuccessRow.succeeded_at)
    query = select(*columns).order_by(SourceSuccessRow.kind, SourceSuccessRow.source)
    return [SourceSuccess(*row) for row in connection.execute(query)]
