"""Advice that was given, and all that it was made of."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class AdviceRow(Base):
    """One answer of the adviser, also one that says there is none.

    What it was made of are documents, named by their content: a snapshot on which a hundred
    answers rest is stored once.
    """

    __tablename__ = "advice"
    __table_args__ = (Index("ix_advice_created_at", "created_at"),)

    advice_id: Mapped[str] = mapped_column(primary_key=True)
    recommendation_type: Mapped[str]
    #: How the search ended: ``optimal``, ``feasible``, ``infeasible`` or ``unknown``.
    status: Mapped[str]
    snapshot_revision: Mapped[str]
    request_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    snapshot_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    evidence_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    files_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    report_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    #: Digest of the part of the report that does not depend on when it was made.
    result_digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
