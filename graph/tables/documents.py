"""Documents as they were delivered, those refused, and the outbox of the graph."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, LargeBinary, func, text
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class Document(Base):
    """One delivered document, stored once by the digest of its content.

    The body is here, compressed, or at ``location`` in the document store if it is large.
    """

    __tablename__ = "documents"
    __table_args__ = (
        CheckConstraint("(body IS NULL) <> (location IS NULL)", name="body_or_location"),
        # Every answer of the service says of when its knowledge is; requests and answers are none.
        Index(
            "ix_documents_knowledge",
            "ingested_at",
            postgresql_where=text("kind IN ('inspection', 'release', 'advisory', 'analysis')"),
        ),
        # Inspections are listed in the order in which they came.
        Index(
            "ix_documents_inspections",
            "ingested_at",
            "document_id",
            postgresql_where=text("kind = 'inspection'"),
        ),
        # Bodies of uploads are deleted after a time, the oldest first.
        Index("ix_documents_uploads", "ingested_at", postgresql_where=text("kind = 'upload'")),
    )

    document_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    schema_version: Mapped[str]
    #: Where it was first read from.
    source: Mapped[str]
    #: Program or database that made it; ``None`` where that was not recorded.
    collector: Mapped[str | None]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    location: Mapped[str | None]
    ingested_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: Of the parsers that made the rows (:mod:`common.parser_version`); 0 if it was not kept.
    parser_version: Mapped[int] = mapped_column(server_default=text("0"))


class RecordCheckRow(Base):
    """How far ``thoth record verify`` has compared rows with documents: one row.

    Documents are compared in the order of their identifiers, in rounds.
    """

    __tablename__ = "record_checks"
    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    #: The document that was compared last; empty at the start of a round.
    position: Mapped[str] = mapped_column(server_default=text("''"))
    round_began_at: Mapped[datetime | None]
    #: When the last whole round began and ended.
    complete_since: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]


class QuarantinedDocument(Base):
    """A document that was refused: why, where, and how often it was tried.

    One row for one field of one place in one source, since a dictionary of inspections
    may hold several that are refused; a retry that succeeds sets ``resolved_at``.
    """

    __tablename__ = "quarantine"
    __table_args__ = (
        Index("uq_quarantine_source_place_field", "source", "place", "field", unique=True),
        Index("ix_quarantine_open", "reason", postgresql_where=text("resolved_at IS NULL")),
    )

    quarantine_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str]
    source: Mapped[str]
    #: Inside the source: a member of an archive, a key of a dictionary, or nothing.
    place: Mapped[str]
    reason: Mapped[str]
    field: Mapped[str]
    message: Mapped[str]
    attempts: Mapped[int] = mapped_column(server_default=text("1"))
    first_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    resolved_at: Mapped[datetime | None]


class OutboxEntry(Base):
    """A row that the graph does not show yet; deleted once it does.

    Written in the transaction that writes the row. An entry whose transaction
    commits late is found all the same, because no position is remembered.
    """

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_package", "key", postgresql_where=text("kind = 'package'")),)

    entry_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str]
    key: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
