"""All kinds of nodes, edges and outbox entries of the projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import neo4j
from sqlalchemy import ColumnElement, Connection

from graph.projection import advice, benchmarks, inspections, packages
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.upsert import ImmutableNode, MutableNode, create_missing, upsert

#: All kinds of nodes; each comes before the kinds that point at it.
NODES: tuple[NodeKind, ...] = (
    *packages.NODES, *inspections.NODES, *advice.NODES, *benchmarks.NODES,
)  # fmt: skip
EDGES: tuple[EdgeKind, ...] = (
    *packages.EDGES, *inspections.EDGES, *advice.EDGES, *benchmarks.EDGES,
)  # fmt: skip


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


def _created(kind: ImmutableNode) -> ProjectedKind:
    return ProjectedKind(
        kind.node.owner,
        lambda connection, session, keys: create_missing(connection, session, kind, keys),
    )


def _followed(kind: MutableNode) -> ProjectedKind:
    return ProjectedKind(
        kind.node.owner, lambda connection, session, keys: upsert(connection, session, kind, keys)
    )


def _with(node: NodeKind, project: Projector) -> ProjectedKind:
    return ProjectedKind(node.owner, project)


#: What is projected, by kind of outbox entry; nodes come before nodes that point at them. The
#: outbox holds back packages until all versions that their revision covers are projected; versions
#: create missing packages without a revision.
PROJECTED: dict[str, ProjectedKind] = {
    "package": _followed(packages.PACKAGES),
    "vulnerability": _followed(packages.VULNERABILITIES),
    "package_version": _followed(packages.PACKAGE_VERSIONS),
    "native_interface": _followed(packages.NATIVE_INTERFACES),
    "artifact": _followed(packages.ARTIFACTS),
    "native_environment": _followed(packages.NATIVE_ENVIRONMENTS),
    "stack": _with(packages.STACK, packages.project_stacks),
    "hardware": _created(inspections.HARDWARE_CLASSES),
    "runtime_environment": _created(inspections.RUNTIME_ENVIRONMENTS),
    "indicator": _created(inspections.PERFORMANCE_INDICATORS),
    "inspection": _with(inspections.INSPECTION, inspections.project_inspections),
    "corrected_inspection": ProjectedKind(None, inspections.project_corrected_inspections),
    "claim": _with(advice.CLAIM, advice.project_claims),
    "request": _followed(advice.REQUESTS),
    "advice": _with(advice.ADVICE, advice.project_advice),
    "software": _followed(benchmarks.SOFTWARE_NODES),
    "hardware_part": _followed(benchmarks.HARDWARE_PARTS),
    "benchmark": _with(benchmarks.BENCHMARK, benchmarks.project_benchmarks),
    "benchmark_entry": _with(benchmarks.BENCHMARK_ENTRY, benchmarks.project_entries),
    "benchmark_results": ProjectedKind(
        benchmarks.PART_KEY, benchmarks.project_results, benchmarks.FIRST_OF_PART
    ),
}
