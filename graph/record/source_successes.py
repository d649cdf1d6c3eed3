"""When each source of knowledge was last read completely, for monitoring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from graph.record.postgresql_helpers import storable
from graph.tables import SourceSuccessRow

#: Kinds of sources.
INSPECTIONS, INDEX, ADVISORIES = "inspections", "index", "advisories"
#: The record was compared with its documents, the graph with the record, and a night of the loop
#: finished.
RECORD, GRAPH, LOOP = "record", "graph", "loop"
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
