"""Inspections, what their jobs were seen to do, and on what."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, Double, ForeignKey, Index, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class HardwareRow(Base):
    """A hardware class: identities of machines whose measurements may be compared."""

    __tablename__ = "hardware"

    digest: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str]
    identity: Mapped[dict[str, Any]] = mapped_column(JSONB)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class RuntimeEnvironmentRow(Base):
    """Operating system, Python and image that stacks ran in."""

    __tablename__ = "runtime_environments"

    digest: Mapped[str] = mapped_column(primary_key=True)
    os_name: Mapped[str | None]
    os_version: Mapped[str | None]
    python_version: Mapped[str | None]
    cuda_version: Mapped[str | None]
    base_image: Mapped[str | None]
    native_packages: Mapped[list[str]] = mapped_column(ARRAY(Text))
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class IndicatorRow(Base):
    """A performance indicator: a script, by its content."""

    __tablename__ = "indicators"

    indicator_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    component: Mapped[str | None]
    script_sha256: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class InspectionRow(Base):
    """One stack, tried by a number of jobs."""

    __tablename__ = "inspections"
    __table_args__ = (Index("ix_inspections_stack_digest", "stack_digest"),)

    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"), primary_key=True)
    name: Mapped[str]
    stack_digest: Mapped[str | None] = mapped_column(ForeignKey("stacks.digest"))
    #: Why the stack is unknown, or which parts of the lock it leaves out.
    stack_note: Mapped[str | None]
    job_count: Mapped[int]
    created_at: Mapped[datetime | None]


class ObservationRow(Base):
    """What one job was seen to do, once; durations in s, rates in ``unit``, memory in bytes."""

    __tablename__ = "observations"
    __table_args__ = (
        Index("ix_observations_document_id", "document_id"),
        Index("ix_observations_comparison_key", "comparison_key"),
        Index("ix_observations_hardware_digest", "hardware_digest", "observation_id"),
        Index("ix_observations_indicator_id", "indicator_id", "observation_id"),
        CheckConstraint("rate > 0", name="rate_positive"),
        CheckConstraint("(outcome = 'measured') = (rate IS NOT NULL)", name="measured_has_rate"),
        CheckConstraint("(rate IS NULL) = (unit IS NULL)", name="rate_has_unit"),
    )

    observation_id: Mapped[str] = mapped_column(primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("inspections.document_id"))
    job_id: Mapped[str]
    position: Mapped[int]
    outcome: Mapped[str]
    exit_code: Mapped[int]
    indicator_id: Mapped[str] = mapped_column(ForeignKey("indicators.indicator_id"))
    hardware_digest: Mapped[str] = mapped_column(ForeignKey("hardware.digest"))
    environment_digest: Mapped[str] = mapped_column(ForeignKey("runtime_environments.digest"))
    comparison_key: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    device: Mapped[str | None]
    elapsed_s: Mapped[float | None] = mapped_column(Double)
    rate: Mapped[float | None] = mapped_column(Double)
    reported_rate: Mapped[float | None] = mapped_column(Double)
    unit: Mapped[str | None]
    repetitions_s: Mapped[list[float]] = mapped_column(ARRAY(Double))
    correction: Mapped[str | None]
    quarantine_reason: Mapped[str | None]
    unstable_reason: Mapped[str | None]
    failure_reason: Mapped[str | None]
    failure_message: Mapped[str | None]
    host: Mapped[str | None]
    block: Mapped[str | None]
    turn: Mapped[int | None]
    steal_share: Mapped[float | None] = mapped_column(Double)
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    user_s: Mapped[float | None] = mapped_column(Double)
    system_s: Mapped[float | None] = mapped_column(Double)
    #: Median absolute deviation of the repetitions over their median; ``None`` below two.
    spread: Mapped[float | None] = mapped_column(Double)
    minor_faults: Mapped[int | None] = mapped_column(BigInteger)
    major_faults: Mapped[int | None] = mapped_column(BigInteger)
    voluntary_switches: Mapped[int | None] = mapped_column(BigInteger)
    involuntary_switches: Mapped[int | None] = mapped_column(BigInteger)
    blocks_read: Mapped[int | None] = mapped_column(BigInteger)
    blocks_written: Mapped[int | None] = mapped_column(BigInteger)
    throttled: Mapped[bool | None]
    swapped: Mapped[bool | None]
    load: Mapped[float | None] = mapped_column(Double)
    launcher: Mapped[str | None]
    threads: Mapped[int | None]
    blas: Mapped[str | None]
