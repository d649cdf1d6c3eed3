"""The tables of the record, one module per subject."""

from graph.tables.advice import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    ClaimPackage,
    ClaimRow,
    RequestRow,
)
from graph.tables.advisories import (
    AdvisoryPackage,
    AdvisoryRow,
    AdvisorySource,
    AffectedVersion,
    VulnerabilityRow,
)
from graph.tables.base import Base, table_of
from graph.tables.crawls import IndexProject, QueuedRelease, WatchedPackage
from graph.tables.documents import (
    Document,
    OutboxEntry,
    QuarantinedDocument,
    RecordCheckRow,
)
from graph.tables.inspections import (
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)
from graph.tables.native import (
    ArtifactInterface,
    ArtifactRow,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
)
from graph.tables.packages import (
    PackageEvent,
    PackageRow,
    PackageVersionRow,
    ReleaseFileRow,
    RequirementRow,
    StackPackage,
    StackRow,
)
from graph.tables.service import AnalysisRow, AuditRow, KnowledgeRow, TokenRow

__all__ = [
    "AdviceClaim",
    "AdviceObservation",
    "AdviceRow",
    "AdvisedStack",
    "AdvisoryPackage",
    "AdvisoryRow",
    "AdvisorySource",
    "AffectedVersion",
    "AnalysisRow",
    "ArtifactInterface",
    "ArtifactRow",
    "AuditRow",
    "Base",
    "ClaimPackage",
    "ClaimRow",
    "Document",
    "HardwareRow",
    "IndexProject",
    "IndicatorRow",
    "InspectionRow",
    "KnowledgeRow",
    "NativeEnvironmentInterface",
    "NativeEnvironmentRow",
    "NativeInterfaceRow",
    "ObservationRow",
    "OutboxEntry",
    "PackageEvent",
    "PackageRow",
    "PackageVersionRow",
    "QuarantinedDocument",
    "QueuedRelease",
    "RecordCheckRow",
    "ReleaseFileRow",
    "RequestRow",
    "RequirementRow",
    "RuntimeEnvironmentRow",
    "StackPackage",
    "StackRow",
    "TokenRow",
    "VulnerabilityRow",
    "WatchedPackage",
    "table_of",
]
