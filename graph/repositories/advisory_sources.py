"""Where advisories come from, and how far each source was read."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from graph.repositories.advisories import KIND
from graph.repositories.texts import storable
from graph.tables import AdvisorySource, Document

_COLUMNS = ("source", "etag", "last_modified", "sha256", "advisories", "as_of")


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source, as it was when all of it was read.

    :param etag: and ``last_modified``: what its server called that version
    :param sha256: of the archive, ``None`` for what is no single file
    :param advisories: those about Python packages in it
    :param as_of: when it was like that
    """

    source: str
    etag: str | None
    last_modified: str | None
    sha256: str | None
    advisories: int
    as_of: datetime


#: Earlier releases recorded sources that could not be read, too, as having no advisories.
HAS_ADVISORIES = AdvisorySource.advisories > 0


def source_states(connection: Connection) -> list[SourceState]:
    """All sources that advisories were read from, to their end, by name."""
    columns = (getattr(AdvisorySource, name) for name in _COLUMNS)
    query = select(*columns).where(HAS_ADVISORIES).order_by(AdvisorySource.source)
    return [SourceState(*row) for row in connection.execute(query)]


def save_source(connection: Connection, state: SourceState) -> None:
    """Remember how far a source was read, in place of what was known of it."""
    values = dict(zip(_COLUMNS, astuple(state), strict=True)) | {"source": storable(state.source)}
    statement = insert(AdvisorySource).values(values)
    others = {name: statement.excluded[name] for name in _COLUMNS[1:]}
    connection.execute(statement.on_conflict_do_update(index_elements=["source"], set_=others))


def known_advisories(connection: Connection) -> set[str]:
    """Digests of all advisory documents in the record, whose content need not be read again."""
    return set(connection.scalars(select(Document.document_id).where(Document.kind == KIND)))
