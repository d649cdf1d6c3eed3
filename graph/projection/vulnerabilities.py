"""Vulnerabilities; which versions they affect is written with the versions."""

from __future__ import annotations

from sqlalchemy import select

from graph.projection.model import NodeKind, listed, origin, utc_text
from graph.projection.mutable import Mutable
from graph.projection.revisions import unsettle_affected
from graph.tables import Document, VulnerabilityRow

VULNERABILITY = NodeKind(
    label="Vulnerability",
    rows=select(
        VulnerabilityRow.vulnerability_id,
        listed(VulnerabilityRow.aliases).label("aliases"),
        VulnerabilityRow.summary,
        VulnerabilityRow.severity,
        VulnerabilityRow.score,
        VulnerabilityRow.vector,
        utc_text(VulnerabilityRow.published_at).label("published_at"),
        utc_text(VulnerabilityRow.modified_at).label("modified_at"),
        utc_text(VulnerabilityRow.withdrawn_at).label("withdrawn_at"),
        VulnerabilityRow.document_id,
        *origin(),
    ).join(Document, Document.document_id == VulnerabilityRow.document_id),
    owner=VulnerabilityRow.vulnerability_id,
    times=frozenset({"published_at", "modified_at", "withdrawn_at", "ingested_at"}),
)

VULNERABILITIES = Mutable(node=VULNERABILITY, written=unsettle_affected)
