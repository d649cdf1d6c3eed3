"""Advice that was given, and all that it was made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Double, ForeignKey, Index, Text, func
from sqlalchemy.dialects.postgresql import JSONB
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


class RequestRow(Base):
    """What was asked of the adviser: equal requests, whenever they are made, are one row."""

    __tablename__ = "requests"

    #: The request itself, as canonical JSON.
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"), primary_key=True)
    recommendation_type: Mapped[str]
    python_version: Mapped[str | None]
    platform: Mapped[str | None]
    #: The hardware class that was asked about, whether or not anything was measured on it.
    hardware_digest: Mapped[str | None]
    #: By PEP 508, sorted.
    requirements: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Names of the packages that these ask for, sorted.
    packages: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Stacks that were asked for.
    stack_count: Mapped[int]


class ClaimRow(Base):
    """A verdict on one measured stack next to another, by the content of the claim.

    Equal evidence gives equal claims, so that a claim of many advices is one row.
    """

    __tablename__ = "claims"
    __table_args__ = (
        Index("ix_claims_stack_digest", "stack_digest"),
        # A document that is deleted must be looked for wherever it may be named.
        Index("ix_claims_document_id", "document_id", postgresql_using="hash"),
    )

    claim_id: Mapped[str] = mapped_column(primary_key=True)
    #: The one package in which the stacks differ; ``None`` where they differ in several.
    package: Mapped[str | None]
    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    baseline_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    indicator: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    device: Mapped[str | None]
    unit: Mapped[str]
    comparison_key: Mapped[str]
    hardware_digest: Mapped[str]
    python_version: Mapped[str | None]
    same_hardware: Mapped[bool]
    same_python: Mapped[bool]
    verdict: Mapped[str]
    effect_pct: Mapped[float | None] = mapped_column(Double)
    observed_pct: Mapped[float | None] = mapped_column(Double)
    interval_low_pct: Mapped[float | None] = mapped_column(Double)
    interval_high_pct: Mapped[float | None] = mapped_column(Double)
    delta_pct: Mapped[float] = mapped_column(Double)
    p_value: Mapped[float | None] = mapped_column(Double)
    method: Mapped[str]
    jobs: Mapped[int]
    baseline_jobs: Mapped[int]
    runs: Mapped[int]
    baseline_runs: Mapped[int]
    pairs: Mapped[int]
    hosts: Mapped[int | None]
    needs: Mapped[str | None]
    jobs_missing: Mapped[int]
    baseline_jobs_missing: Mapped[int]
    scored: Mapped[bool]
    as_of: Mapped[datetime | None]
    #: The report that first made it.
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class ClaimPackage(Base):
    """A package in which the stacks of a claim differ; ``None`` for the stack that lacks it."""

    __tablename__ = "claim_packages"

    claim_id: Mapped[str] = mapped_column(ForeignKey("claims.claim_id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str | None]
    index_name: Mapped[str | None]
    #: Sorts by code point as versions do: :func:`common.packages.version_key`.
    version_key: Mapped[str | None]
    baseline_version: Mapped[str | None]
    baseline_index_name: Mapped[str | None]
    baseline_version_key: Mapped[str | None]


class AdviceClaim(Base):
    """A claim that was made for an advice, whether or not it is about an advised stack."""

    __tablename__ = "advice_claims"
    __table_args__ = (Index("ix_advice_claims_claim_id", "claim_id"),)

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    claim_id: Mapped[str] = mapped_column(ForeignKey("claims.claim_id"), primary_key=True)
