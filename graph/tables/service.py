"""What the service keeps: requests with their state, tokens, and who wrote what."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class TokenRow(Base):
    """A bearer token: what it may do, never the token itself."""

    __tablename__ = "tokens"

    token_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    #: What of the token is shown, to tell it from others.
    prefix: Mapped[str]
    #: SHA-256 of the token, which is random and long: nothing slower is needed.
    digest: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    #: To the minute: not every use is worth a write.
    last_used_at: Mapped[datetime | None]


class AnalysisRow(Base):
    """A request that is answered later: an advice, a check of provenance, an inspection.

    Its identifier is known from the moment on that it is accepted, and its state is terminal
    once it is ``succeeded``, ``failed`` (it cannot be answered) or ``error`` (we broke down).
    """

    __tablename__ = "analyses"
    __table_args__ = (
        CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'error')", name="state_known"
        ),
        Index("ix_analyses_cache_key", "kind", "cache_key", "accepted_at"),
        Index("ix_analyses_accepted_at", "kind", "accepted_at", "analysis_id"),
        # What waits or runs is little of all that was ever asked, and looked for all the time.
        Index(
            "ix_analyses_open",
            "accepted_at",
            postgresql_where=text("state IN ('pending', 'running')"),
        ),
        Index("ix_analyses_finished_at", "finished_at"),
        Index("ix_analyses_token_id", "token_id", postgresql_where=text("token_id IS NOT NULL")),
        Index("ix_analyses_request_document_id", "request_document_id", postgresql_using="hash"),
        Index("ix_analyses_result_document_id", "result_document_id", postgresql_using="hash"),
    )

    analysis_id: Mapped[str] = mapped_column(primary_key=True)
    #: What its identifier begins with: ``adviser``, ``provenance-checker``, ``inspection``.
    kind: Mapped[str]
    state: Mapped[str] = mapped_column(server_default=text("'pending'"))
    #: Why it is in a terminal state other than success, or what it waits for; for a person.
    reason: Mapped[str | None]
    #: What was asked, as given back to whoever asks for the state.
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    #: The whole request, as canonical JSON.
    request_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    result_document_id: Mapped[str | None] = mapped_column(ForeignKey("documents.document_id"))
    #: Of what makes two requests the same.
    cache_key: Mapped[str]
    #: Lines for people, one JSON object each.
    log: Mapped[str] = mapped_column(server_default=text("''"))
    #: Whether whoever asked showed a token, and which.
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.token_id"))
    accepted_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    #: Since when it has waited for a store that was away.
    postponed_at: Mapped[datetime | None]
    #: Of the newest knowledge that the result may rest on, and how far the graph was.
    as_of: Mapped[datetime | None]
    graph_revision: Mapped[int | None] = mapped_column(BigInteger)
    #: How often a worker took it.
    attempts: Mapped[int] = mapped_column(server_default=text("0"))


class AuditRow(Base):
    """One write that a request caused: who, what, from where, and how it ended."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_at", "at"),)

    entry_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    request_id: Mapped[str]
    token_id: Mapped[str | None]
    address: Mapped[str]
    method: Mapped[str]
    #: The route, not the URL: what a stranger writes in one is not ours to keep.
    route: Mapped[str]
    status: Mapped[int]
    #: Identifier of what was made or changed, if there is one.
    subject: Mapped[str | None]


class KnowledgeRow(Base):
    """How often the record took knowledge in: one row, counted up by triggers at each commit.

    The time at which something was written says less: a transaction that began early may commit
    late, and whoever looked in between has not seen what it wrote.
    """

    __tablename__ = "knowledge"
    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    changes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
