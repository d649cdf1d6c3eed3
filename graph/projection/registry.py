"""All kinds of nodes, edges and outbox entries of the projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import neo4j
from sqlalchemy import ColumnElement, Connection

from graph.projection.advice import (
    ADVICE,
    ANSWERS,
    BASED_ON,
    BASELINE,
    CANDIDATE,
    CLAIM,
    CLAIMS,
    DIFFERS_IN,
    RECOMMENDED,
    REQUEST,
    REQUESTS,
    project_advice,
    project_claims,
)
from graph.projection.benchmarks import (
    BENCHMARK,
    BENCHMARK_ENTRY,
    BENCHMARK_RESULT,
    BENCHMARK_SYSTEM,
    FIRST_OF_PART,
    HAD,
    HARDWARE_PART,
    HARDWARE_PARTS,
    HAS_PART,
    PART_KEY,
    PART_OF,
    REPORTED,
    RESULT_OF,
    SAME_AS,
    SOFTWARE,
    SOFTWARE_NODES,
    USED,
    VERSION_OF,
    project_benchmarks,
    project_entries,
    project_results,
)
from graph.projection.inspections import (
    BASE_IMAGE,
    FROM_IMAGE,
    HARDWARE,
    HARDWARE_CLASSES,
    IN,
    INSPECTED,
    INSPECTION,
    INSTALLS,
    NATIVE_PACKAGE,
    OBSERVATION,
    OBSERVED,
    OF,
    PERFORMANCE_INDICATOR,
    PERFORMANCE_INDICATORS,
    RAN_ON,
    RUNTIME_ENVIRONMENT,
    RUNTIME_ENVIRONMENTS,
    project_corrected_inspections,
    project_inspections,
)
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.packages import (
    AFFECTS,
    ARTIFACT,
    ARTIFACTS,
    BUILT_AS,
    HAS_STATUS,
    HAS_VERSION,
    INCLUDES,
    NATIVE_ENVIRONMENT,
    NATIVE_ENVIRONMENTS,
    NATIVE_INTERFACE,
    NATIVE_INTERFACES,
    NEEDS,
    PACKAGE,
    PACKAGE_INDEX,
    PACKAGE_VERSION,
    PACKAGE_VERSIONS,
    PACKAGES,
    PROVIDES,
    PUBLISHED_ON,
    REQUIRES,
    STACK,
    VULNERABILITIES,
    VULNERABILITY,
    project_stacks,
)
from graph.projection.upsert import ImmutableNode, MutableNode, create_missing, upsert
from graph.tables import (
    AdviceRow,
    ArtifactRow,
    BenchmarkEntryRow,
    BenchmarkRow,
    BenchmarkSoftwareRow,
    ClaimRow,
    HardwarePartRow,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    PackageRow,
    PackageVersionRow,
    RequestRow,
    RuntimeEnvironmentRow,
    StackRow,
    VulnerabilityRow,
)

#: All kinds of nodes; each comes before the kinds that point at it.
NODES: tuple[NodeKind, ...] = (
    PACKAGE,
    PACKAGE_INDEX,
    VULNERABILITY,
    PACKAGE_VERSION,
    NATIVE_INTERFACE,
    ARTIFACT,
    NATIVE_ENVIRONMENT,
    STACK,
    HARDWARE,
    BASE_IMAGE,
    NATIVE_PACKAGE,
    RUNTIME_ENVIRONMENT,
    PERFORMANCE_INDICATOR,
    INSPECTION,
    OBSERVATION,
    CLAIM,
    REQUEST,
    ADVICE,
    SOFTWARE,
    HARDWARE_PART,
    BENCHMARK_SYSTEM,
    BENCHMARK,
    BENCHMARK_ENTRY,
    BENCHMARK_RESULT,
)

EDGES: tuple[EdgeKind, ...] = (
    HAS_VERSION,
    HAS_STATUS,
    PUBLISHED_ON,
    REQUIRES,
    AFFECTS,
    BUILT_AS,
    NEEDS,
    PROVIDES,
    INCLUDES,
    FROM_IMAGE,
    INSTALLS,
    INSPECTED,
    RAN_ON,
    IN,
    OBSERVED,
    OF,
    CANDIDATE,
    BASELINE,
    DIFFERS_IN,
    RECOMMENDED,
    BASED_ON,
    CLAIMS,
    ANSWERS,
    VERSION_OF,
    SAME_AS,
    HAS_PART,
    PART_OF,
    USED,
    HAD,
    REPORTED,
    RESULT_OF,
)


#: Writes the nodes with the given keys, and their edges.
Projector = Callable[[Connection, neo4j.Session, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class ProjectedKind:
    """A kind of outbox entry.

    :param key: the column with all keys of the kind; ``None`` if a rebuild needs no such entries
    :param rows: condition for the rows of that column, if not every row is a key
    """

    key: ColumnElement[str] | None
    project: Projector
    rows: ColumnElement[bool] | None = None


def _created(node: ImmutableNode) -> Projector:
    return lambda connection, session, keys: create_missing(connection, session, node, keys)


def _followed(node: MutableNode) -> Projector:
    return lambda connection, session, keys: upsert(connection, session, node, keys)


#: What is projected, by kind of outbox entry; nodes come before nodes that point at them. The
#: outbox holds back packages until all versions that their revision covers are projected; versions
#: create missing packages without a revision.
PROJECTED: dict[str, ProjectedKind] = {
    "package": ProjectedKind(PackageRow.name, _followed(PACKAGES)),
    "vulnerability": ProjectedKind(VulnerabilityRow.vulnerability_id, _followed(VULNERABILITIES)),
    "package_version": ProjectedKind(PackageVersionRow.purl, _followed(PACKAGE_VERSIONS)),
    "native_interface": ProjectedKind(NativeInterfaceRow.interface, _followed(NATIVE_INTERFACES)),
    "artifact": ProjectedKind(ArtifactRow.sha256, _followed(ARTIFACTS)),
    "native_environment": ProjectedKind(
        NativeEnvironmentRow.digest, _followed(NATIVE_ENVIRONMENTS)
    ),
    "stack": ProjectedKind(StackRow.digest, project_stacks),
    "hardware": ProjectedKind(HardwareRow.digest, _created(HARDWARE_CLASSES)),
    "runtime_environment": ProjectedKind(
        RuntimeEnvironmentRow.digest, _created(RUNTIME_ENVIRONMENTS)
    ),
    "indicator": ProjectedKind(IndicatorRow.indicator_id, _created(PERFORMANCE_INDICATORS)),
    "inspection": ProjectedKind(InspectionRow.document_id, project_inspections),
    "corrected_inspection": ProjectedKind(None, project_corrected_inspections),
    "claim": ProjectedKind(ClaimRow.claim_id, project_claims),
    "request": ProjectedKind(RequestRow.document_id, _followed(REQUESTS)),
    "advice": ProjectedKind(AdviceRow.advice_id, project_advice),
    "software": ProjectedKind(BenchmarkSoftwareRow.software_id, _followed(SOFTWARE_NODES)),
    "hardware_part": ProjectedKind(HardwarePartRow.part_id, _followed(HARDWARE_PARTS)),
    "benchmark": ProjectedKind(BenchmarkRow.benchmark_id, project_benchmarks),
    "benchmark_entry": ProjectedKind(BenchmarkEntryRow.entry_id, project_entries),
    "benchmark_results": ProjectedKind(PART_KEY, project_results, FIRST_OF_PART),
}
