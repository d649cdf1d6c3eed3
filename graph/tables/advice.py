"""Advice that was given, and all that it was made of."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Double, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class AdviceRow(Base):
    """One answer of the adviser, also one that says there is none.

    What it was made of are documents, named by their content: a snapshot on which a hundred
    answers rest is stored once.
    """

    __tablename__ = "advice"
    __table_args__ = (
        Index("ix_advice_created_at", "created_at"),
        # A document that is deleted must be looked for wherever it may be named.
        *(
            Index(f"ix_advice_{it}_document_id", f"{it}_document_id", postgresql_using="hash")
            for it in ("request", "snapshot", "evidence", "files", "report")
        ),
    )

    advice_id: Mapped[str] = mapped_column(primary_key=True)
    recommendation_type: Mapped[str]
    #: How the search ended: ``optimal``, ``feasible``, ``infeasible`` or ``unknown``.
    status: Mapped[str]
    #: Of the environment that was asked about, such as ``3.11``.
    python_version: Mapped[str | None]
    #: The same, as a wheel tag names it, such as ``manylinux_2_28_x86_64``.
    platform: Mapped[str | None]
    snapshot_revision: Mapped[str]
    request_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    snapshot_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    evidence_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    files_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    report_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    #: Digest of the part of the report that does not depend on when it was made.
    result_digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AdvisedStack(Base):
    """A stack that an advice recommends, the best of them at rank 1."""

    __tablename__ = "advised_stacks"
    __table_args__ = (Index("ix_advised_stacks_stack_digest", "stack_digest"),)

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    score: Mapped[float] = mapped_column(Double)


class AdviceObservation(Base):
    """An observation that a claim or a justification of an advice names as its evidence."""

    __tablename__ = "advice_observations"

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    observation_id: Mapped[str] = mapped_column(
        ForeignKey("observations.observation_id"), primary_key=True
    )
