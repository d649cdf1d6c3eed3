"""Performance indicators: the scripts that measured."""

from __future__ import annotations

from sqlalchemy import select

from graph.projection.model import NodeKind, Subject
from graph.tables import IndicatorRow

PERFORMANCE_INDICATOR = NodeKind(
    label="PerformanceIndicator",
    rows=select(
        IndicatorRow.indicator_id,
        IndicatorRow.name,
        IndicatorRow.component,
        IndicatorRow.script_sha256,
        IndicatorRow.document_id,
    ),
    owner=IndicatorRow.indicator_id,
)

PERFORMANCE_INDICATORS = Subject(node=PERFORMANCE_INDICATOR)
