"""Inspections and the hardware classes that they ran on, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, select, tuple_

from graph.tables import Document, HardwareRow, IndicatorRow, InspectionRow, ObservationRow


@dataclass(frozen=True, slots=True)
class InspectionHead:
    """One stack, tried by a number of jobs.

    :param stack_digest: ``None`` where the stack is not known, then ``stack_note`` says why
    :param created_at: when the document was made, as it says; ``None`` if it does not
    """

    document_id: str
    name: str
    schema_version: str
    stack_digest: str | None
    stack_note: str | None
    job_count: int
    created_at: datetime | None
    ingested_at: datetime


@dataclass(frozen=True, slots=True)
class InspectionSummary:
    """What the jobs of an inspection came to.

    :param outcomes: jobs by how they ended
    :param indicators: names of those that ran, sorted
    :param hardware: digests of the classes that they ran on, sorted
    """

    outcomes: dict[str, int]
    indicators: tuple[str, ...]
    hardware: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HardwareHead:
    """A hardware class; ``identity`` is what its digest is made of."""

    digest: str
    label: str
    identity: dict[str, Any]
    document_id: str


def browse_inspections(
    connection: Connection,
    *,
    stack: str | None = None,
    hardware: str | None = None,
    indicator: str | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[InspectionHead]:
    """Inspections, those first that came last.

    :param stack: digest of the stack that was tried
    :param hardware: digest of a class that a job ran on
    :param indicator: name of one that a job ran
    :param after: when the last one before came, and its identifier
    """
    query = _inspections()
    if stack is not None:
        query = query.where(InspectionRow.stack_digest == stack)
    seen = select(ObservationRow.document_id).where(
        ObservationRow.document_id == InspectionRow.document_id
    )
    if hardware is not None:
        query = query.where(seen.where(ObservationRow.hardware_digest == hardware).exists())
    if indicator is not None:
        named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == indicator)
        query = query.where(seen.where(ObservationRow.indicator_id.in_(named)).exists())
    place = tuple_(Document.ingested_at, Document.document_id)
    if after is not None:
        query = query.where(place < tuple_(*after))
    order = Document.ingested_at.desc(), Document.document_id.desc()
    return [InspectionHead(*it) for it in connection.execute(query.order_by(*order).limit(limit))]


def inspection_named(connection: Connection, document_id: str) -> InspectionHead | None:
    """An inspection by the digest of its document, or ``None``."""
    query = _inspections().where(InspectionRow.document_id == document_id)
    found = connection.execute(query).one_or_none()
    return None if found is None else InspectionHead(*found)


def inspection_summary(connection: Connection, document_id: str) -> InspectionSummary:
    """What the jobs of an inspection came to."""
    row = ObservationRow
    rows = connection.execute(
        select(row.outcome, IndicatorRow.name, row.hardware_digest, func.count())
        .join(IndicatorRow, IndicatorRow.indicator_id == row.indicator_id)
        .where(row.document_id == document_id)
        .group_by(row.outcome, IndicatorRow.name, row.hardware_digest)
        .order_by(row.outcome)
    ).all()
    outcomes: dict[str, int] = {}
    for outcome, _, _, count in rows:
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    return InspectionSummary(
        outcomes, tuple(sorted({it[1] for it in rows})), tuple(sorted({it[2] for it in rows}))
    )


def _inspections() -> Select[*tuple[Any, ...]]:
    row = InspectionRow
    return (
        select(
            row.document_id, row.name, Document.schema_version, row.stack_digest, row.stack_note,
            row.job_count, row.created_at, Document.ingested_at,
        )
        .join(Document, Document.document_id == row.document_id)
        .where(Document.kind == "inspection")
    )  # fmt: skip


def browse_hardware(
    connection: Connection, *, like: str | None = None, after: str | None = None, limit: int
) -> list[HardwareHead]:
    """Hardware classes by digest.

    :param like: part of a label, in any case
    """
    row = HardwareRow
    query = select(row.digest, row.label, row.identity, row.document_id)
    if like is not None:
        query = query.where(row.label.icontains(like, autoescape=True))
    if after is not None:
        query = query.where(row.digest > after)
    rows = connection.execute(query.order_by(row.digest).limit(limit))
    return [HardwareHead(*it) for it in rows]


def hardware_named(connection: Connection, digest: str) -> HardwareHead | None:
    """A hardware class by its digest, or ``None``."""
    row = HardwareRow
    found = connection.execute(
        select(row.digest, row.label, row.identity, row.document_id).where(row.digest == digest)
    ).one_or_none()
    return None if found is None else HardwareHead(*found)
