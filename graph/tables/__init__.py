"""The tables of the record, one module per subject."""

from graph.tables.base import Base, table_of
from graph.tables.documents import Document, OutboxEntry, QuarantinedDocument
from graph.tables.inspections import (
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)
from graph.tables.packages import PackageVersionRow, StackPackage, StackRow

__all__ = [
    "Base",
    "Document",
    "HardwareRow",
    "IndicatorRow",
    "InspectionRow",
    "ObservationRow",
    "OutboxEntry",
    "PackageVersionRow",
    "QuarantinedDocument",
    "RuntimeEnvironmentRow",
    "StackPackage",
    "StackRow",
    "table_of",
]
