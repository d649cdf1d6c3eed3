"""Rows of advisories and vulnerabilities, and what the domain makes of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from common.advisories import Advisory, AdvisoryHead, AffectedPackage, Rating, Severity
from graph.repositories.vulnerabilities import Vulnerability
from graph.tables import AdvisoryRow, VulnerabilityRow, table_of

HEAD_COLUMNS = (
    "advisory_id",
    "vulnerability_id",
    "aliases",
    "summary",
    "severity",
    "score",
    "vector",
    "published_at",
    "modified_at",
    "withdrawn_at",
    "document_id",
)
VULNERABILITY_COLUMNS = tuple(name for name in HEAD_COLUMNS if name != "advisory_id")
PACKAGE_COLUMNS = ("advisory_id", "position", "name", "ranges", "versions")


def recorded_heads(
    connection: Connection, condition: ColumnElement[bool]
) -> tuple[dict[str, AdvisoryHead], dict[str, str]]:
    """Advisories by identifier, and the vulnerability that each is about."""
    columns = table_of(AdvisoryRow).c
    query = select(*(columns[name] for name in HEAD_COLUMNS)).where(condition)
    heads, vulnerabilities = {}, {}
    for row in connection.execute(query):
        severity = Severity(row.severity) if row.severity in set(Severity) else None
        heads[row.advisory_id] = AdvisoryHead(
            row.advisory_id, tuple(row.aliases), row.summary,
            Rating(severity, row.score, row.vector),
            row.published_at, row.modified_at, row.withdrawn_at, row.document_id,
        )  # fmt: skip
        vulnerabilities[row.advisory_id] = row.vulnerability_id
    return heads, vulnerabilities


def recorded_vulnerabilities(
    connection: Connection, condition: ColumnElement[bool]
) -> dict[str, tuple[Any, ...]]:
    """Rows of vulnerabilities, as :func:`vulnerability_row` makes them, by identifier."""
    columns = table_of(VulnerabilityRow).c
    query = select(*(columns[name] for name in VULNERABILITY_COLUMNS)).where(condition)
    return {row[0]: tuple(row) for row in connection.execute(query)}


def head_row(it: AdvisoryHead, vulnerability_id: str) -> tuple[Any, ...]:
    """Values in the order of :data:`HEAD_COLUMNS`."""
    return (
        it.advisory_id, vulnerability_id, list(it.aliases), it.summary, *_rating_row(it.rating),
        it.published_at, it.modified_at, it.withdrawn_at, it.document_id,
    )  # fmt: skip


def vulnerability_row(it: Vulnerability) -> tuple[Any, ...]:
    """Values in the order of :data:`VULNERABILITY_COLUMNS`."""
    return (
        it.vulnerability_id, list(it.aliases), it.summary, *_rating_row(it.rating),
        it.published_at, it.modified_at, it.withdrawn_at, it.document_id,
    )  # fmt: skip


def package_rows(advisory: Advisory) -> list[tuple[Any, ...]]:
    """Values in the order of :data:`PACKAGE_COLUMNS`, a row an affected package."""
    return [
        (advisory.head.advisory_id, position, it.name, _ranges(it), list(it.versions))
        for position, it in enumerate(advisory.packages)
    ]


def _ranges(package: AffectedPackage) -> list[list[dict[str, str]]]:
    return [[{it.kind.value: it.version} for it in events] for events in package.ranges]


def _rating_row(rating: Rating) -> tuple[str | None, float | None, str | None]:
    severity = None if rating.severity is None else rating.severity.value
    return severity, rating.score, rating.vector
