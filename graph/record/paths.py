"""Edges that answer "where does this come from": of an advice to jobs, of a stack to advisories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from graph.tables import (
    AdviceObservation,
    AffectedVersion,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    RequirementRow,
    StackPackage,
    VulnerabilityRow,
)


@dataclass(frozen=True, slots=True)
class SupportingJob:
    """A job that an advice is based on."""

    observation_id: str
    document_id: str
    inspection_name: str
    stack_digest: str | None
    indicator: str
    component: str | None
    rate: float | None
    unit: str | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class StackRequirement:
    """A requirement of a release in a stack, on another package of the stack.

    :param optional: whether only an extra needs it
    """

    source: str
    target: str
    raw: str
    optional: bool


@dataclass(frozen=True, slots=True)
class StackVulnerability:
    """A vulnerability of a release in a stack."""

    purl: str
    vulnerability_id: str
    severity: str | None
    summary: str | None


def supporting_jobs(connection: Connection, advice_id: str, limit: int) -> list[SupportingJob]:
    """Jobs that an advice is based on, by stack, inspection and time."""
    job, inspection = ObservationRow, InspectionRow
    query = (
        select(
            job.observation_id, job.document_id, inspection.name, inspection.stack_digest,
            IndicatorRow.name, IndicatorRow.component, job.rate, job.unit, job.started_at,
        )
        .join(AdviceObservation, AdviceObservation.observation_id == job.observation_id)
        .join(inspection, inspection.document_id == job.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == job.indicator_id)
        .where(AdviceObservation.advice_id == advice_id)
        .order_by(inspection.stack_digest, job.document_id, job.started_at, job.observation_id)
        .limit(limit)
    )  # fmt: skip
    return [SupportingJob(*row) for row in connection.execute(query)]


def stack_requirements(connection: Connection, digest: str) -> list[StackRequirement]:
    """Requirements of the releases in a stack on each other, as package URLs."""
    sources, targets = StackPackage.__table__.alias(), StackPackage.__table__.alias()
    version, requirement = PackageVersionRow, RequirementRow
    query = (
        select(sources.c.purl, targets.c.purl, requirement.raw, requirement.for_extras)
        .join(requirement, requirement.purl == sources.c.purl)
        .join(version, version.name == requirement.name)
        .join(targets, targets.c.purl == version.purl)
        .where(sources.c.stack_digest == digest, targets.c.stack_digest == digest)
        .where(sources.c.purl != targets.c.purl)
        .order_by(sources.c.purl, requirement.position)
    )
    rows = connection.execute(query)
    return [
        StackRequirement(source, target, raw, bool(extras)) for source, target, raw, extras in rows
    ]


def stack_vulnerabilities(connection: Connection, digest: str) -> list[StackVulnerability]:
    """Vulnerabilities of the releases in a stack, without withdrawn ones, by identifier."""
    row = VulnerabilityRow
    query = (
        select(StackPackage.purl, row.vulnerability_id, row.severity, row.summary)
        .join(AffectedVersion, AffectedVersion.purl == StackPackage.purl)
        .join(row, row.vulnerability_id == AffectedVersion.vulnerability_id)
        .where(StackPackage.stack_digest == digest, row.withdrawn_at.is_(None))
        .order_by(row.vulnerability_id, StackPackage.purl)
    )
    return [StackVulnerability(*it) for it in connection.execute(query)]
