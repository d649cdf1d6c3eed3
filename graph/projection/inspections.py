"""Projects inspections with their observations, hardware classes, environments and indicators."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any, LiteralString

import neo4j
import orjson
from sqlalchemy import Connection, Double, Integer, func, null, select

from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    Row,
    edge_kind,
    filled_columns,
    origin,
    properties_of,
    row_of,
    rows_of,
    utc_text,
)
from graph.projection.packages import STACK, project_stacks
from graph.projection.upsert import ImmutableNode, create_missing, missing, write
from graph.tables import (
    Document,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)
from model.json_documents import canonical_json
from model.measurements.units import PARAMETERS

_DIGEST = RuntimeEnvironmentRow.digest
_IMAGE = RuntimeEnvironmentRow.base_image

#: Query with one row for each native package of each environment, without duplicates.
_INSTALLED = (
    select(
        _DIGEST,
        func.unnest(RuntimeEnvironmentRow.native_packages).label("name"),
        RuntimeEnvironmentRow.document_id,
    )
    .distinct()
    .subquery()
)

RUNTIME_ENVIRONMENT = NodeKind(
    label="RuntimeEnvironment",
    rows=select(*properties_of(RuntimeEnvironmentRow, without=("base_image", "native_packages"))),
    owner=_DIGEST,
)

BASE_IMAGE = NodeKind(
    label="BaseImage",
    rows=select(
        _IMAGE.label("name"), func.min(RuntimeEnvironmentRow.document_id).label("document_id")
    )
    .where(_IMAGE.is_not(None))
    .group_by(_IMAGE),
    owner=_DIGEST,
    shared=True,
)

NATIVE_PACKAGE = NodeKind(
    label="NativePackage",
    rows=select(
        _INSTALLED.c.name, func.min(_INSTALLED.c.document_id).label("document_id")
    ).group_by(_INSTALLED.c.name),
    owner=_INSTALLED.c.digest,
    shared=True,
)

FROM_IMAGE = EdgeKind(
    type="FROM_IMAGE",
    start=RUNTIME_ENVIRONMENT,
    end=BASE_IMAGE,
    rows=select(_DIGEST.label("start"), _IMAGE.label("end")).where(_IMAGE.is_not(None)),
    owner=_DIGEST,
)

INSTALLS = edge_kind(
    "INSTALLS", RUNTIME_ENVIRONMENT, NATIVE_PACKAGE, (_INSTALLED.c.digest, _INSTALLED.c.name)
)

RUNTIME_ENVIRONMENTS = ImmutableNode(
    node=RUNTIME_ENVIRONMENT, shared=(BASE_IMAGE, NATIVE_PACKAGE), edges=(FROM_IMAGE, INSTALLS)
)


_IDENTITY = HardwareRow.identity

HARDWARE = NodeKind(
    label="Hardware",
    rows=select(
        HardwareRow.digest,
        HardwareRow.label,
        _IDENTITY["vendor"].astext.label("cpu_vendor"),
        _IDENTITY["family"].astext.cast(Integer).label("cpu_family"),
        _IDENTITY["model"].astext.cast(Integer).label("cpu_model"),
        _IDENTITY["stepping"].astext.cast(Integer).label("cpu_stepping"),
        _IDENTITY["cpus"].astext.cast(Integer).label("logical_cpus"),
        _IDENTITY["cpu_quota"].astext.cast(Double).label("cpu_quota"),
        # A class has at most one kind of accelerator; the label contains the number of
        # accelerators.
        _IDENTITY["gpus"][0]["name"].astext.label("gpu_name"),
        HardwareRow.document_id,
    ),
    owner=HardwareRow.digest,
)

HARDWARE_CLASSES = ImmutableNode(node=HARDWARE)


PERFORMANCE_INDICATOR = NodeKind(
    label="PerformanceIndicator",
    rows=select(*properties_of(IndicatorRow)),
    owner=IndicatorRow.indicator_id,
)

PERFORMANCE_INDICATORS = ImmutableNode(node=PERFORMANCE_INDICATOR)


#: Type of a parameter that the graph can store as a property of a node.
Scalar = bool | int | float | str | None

#: Limit for the observations in one transaction of the graph, unless one inspection has more.
_OBSERVATIONS = 1_000

INSPECTION = NodeKind(
    label="Inspection",
    rows=select(
        InspectionRow.document_id,
        InspectionRow.name,
        Document.schema_version,
        InspectionRow.job_count,
        utc_text(InspectionRow.created_at).label("created_at"),
        InspectionRow.stack_digest.is_not(None).label("stack_known"),
        InspectionRow.stack_note,
        *origin(),
    ).join(Document, Document.document_id == InspectionRow.document_id),
    owner=InspectionRow.document_id,
)


def _complete(row: Row) -> None:
    """Write parameters as canonical JSON, and known parameters also as properties."""
    row[_PARAMETERS], row[-len(PARAMETERS) :] = typed_parameters(row[_PARAMETERS])


_NOT_PROJECTED = ("position", "indicator_id", "environment_digest", "repetitions_s")

OBSERVATION = NodeKind(
    label="Observation",
    rows=select(
        # Durations are left in the record, because a batch may have millions.
        *properties_of(ObservationRow, _NOT_PROJECTED, hardware_digest="hardware"),
        InspectionRow.stack_digest.label("stack"),
        # Series differ by minor version, such as 3.11 for 3.11.7.
        func.substring(RuntimeEnvironmentRow.python_version, r"^[^.]*\.?[^.]*").label(
            "python_version"
        ),
        func.nullif(func.cardinality(ObservationRow.repetitions_s), 0).label("repetitions"),
        *(null().label(f"parameter_{name}") for name in PARAMETERS),
    )
    .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
    .join(RuntimeEnvironmentRow, RuntimeEnvironmentRow.digest == ObservationRow.environment_digest),
    owner=ObservationRow.document_id,
    complete=_complete,
)
_DOCUMENT, _PARAMETERS = (
    OBSERVATION.properties.index(name) for name in ("document_id", "parameters")
)

INSPECTED = EdgeKind(
    type="INSPECTED",
    start=INSPECTION,
    end=STACK,
    rows=select(
        InspectionRow.document_id.label("start"), InspectionRow.stack_digest.label("end")
    ).where(InspectionRow.stack_digest.is_not(None)),
    owner=InspectionRow.document_id,
)


def _edge_of_observations(type: str, end: NodeKind, column: Any) -> EdgeKind:
    """Edges of an inspection: one for each distinct value of ``column`` in its observations."""
    pairs = select(ObservationRow.document_id.label("start"), column.label("end")).distinct()
    return EdgeKind(type, INSPECTION, end, pairs, ObservationRow.document_id)


RAN_ON = _edge_of_observations("RAN_ON", HARDWARE, ObservationRow.hardware_digest)
IN = _edge_of_observations("IN", RUNTIME_ENVIRONMENT, ObservationRow.environment_digest)

OBSERVED = edge_kind(
    "OBSERVED", INSPECTION, OBSERVATION, (ObservationRow.document_id, ObservationRow.observation_id)
)

OF = EdgeKind(
    type="OF",
    start=OBSERVATION,
    end=PERFORMANCE_INDICATOR,
    rows=select(
        ObservationRow.observation_id.label("start"), ObservationRow.indicator_id.label("end")
    ),
    owner=ObservationRow.document_id,
)

NODES = (
    HARDWARE, BASE_IMAGE, NATIVE_PACKAGE, RUNTIME_ENVIRONMENT, PERFORMANCE_INDICATOR, INSPECTION,
    OBSERVATION,
)  # fmt: skip
EDGES = (FROM_IMAGE, INSTALLS, INSPECTED, RAN_ON, IN, OBSERVED, OF)


@dataclass(slots=True)
class _Inspection:
    """One inspection, with its rows and the keys of the target nodes of its edges."""

    properties: Row
    stack: str | None
    hardware: dict[str, None] = field(default_factory=dict)
    environments: dict[str, None] = field(default_factory=dict)
    #: Each row ends with its indicator.
    observations: list[Row] = field(default_factory=list)

    @property
    def group(self) -> tuple[str | None, ...]:
        """Keys of the nodes in :data:`_SHARED`; the first machine if there are several."""
        indicators = {row[-1] for row in self.observations}
        return (
            self.stack,
            next(iter(self.hardware), None),
            next(iter(self.environments), None),
            indicators.pop() if len(indicators) == 1 else None,
        )


#: Nodes that many inspections share, by their names in :func:`_statement`.
_SHARED = {
    "stack": STACK,
    "hardware": HARDWARE,
    "environment": RUNTIME_ENVIRONMENT,
    "indicator": PERFORMANCE_INDICATOR,
}
#: Edges from an inspection to such nodes.
_SHARED_EDGES = {"stack": INSPECTED, "hardware": RAN_ON, "environment": IN}


def project_inspections(
    connection: Connection, session: neo4j.Session, keys: Iterable[str]
) -> None:
    """Create the missing inspections among ``keys``, after the target nodes of their edges."""
    for chunk in _chunks(_read(connection, missing(session, INSPECTION, keys))):
        # These nodes usually exist, because their entries come first; an entry may be lost.
        indicators = {row[-1] for each in chunk for row in each.observations}
        hardware = {digest for each in chunk for digest in each.hardware}
        environments = {digest for each in chunk for digest in each.environments}
        project_stacks(connection, session, {each.stack for each in chunk if each.stack})
        create_missing(connection, session, HARDWARE_CLASSES, hardware)
        create_missing(connection, session, RUNTIME_ENVIRONMENTS, environments)
        create_missing(connection, session, PERFORMANCE_INDICATORS, indicators)
        session.execute_write(_create, chunk)


def project_corrected_inspections(
    connection: Connection, session: neo4j.Session, keys: Iterable[str]
) -> None:
    """Create or overwrite inspections and their observations by ``keys``; edges stay unchanged."""
    unique = list(dict.fromkeys(keys))
    project_inspections(connection, session, unique)
    for chunk in _chunks(_read(connection, unique)):
        session.execute_write(_update, chunk)


def _read(connection: Connection, keys: Sequence[str]) -> Iterator[_Inspection]:
    if not keys:
        return
    stack = InspectionRow.stack_digest.label("known_stack")
    inspections = connection.execute(rows_of(INSPECTION, keys).add_columns(stack))
    unread = {row[0]: _Inspection(list(row[:-1]), row[-1]) for row in inspections}
    for key, rows in groupby(_observations(connection, keys), lambda row: row[_DOCUMENT]):
        inspection = unread.pop(key)
        for *properties, indicator, environment, hardware in rows:
            row = row_of(OBSERVATION, properties)
            row.append(indicator)
            inspection.observations.append(row)
            inspection.hardware[hardware] = inspection.environments[environment] = None
        yield inspection
    yield from unread.values()


def _observations(connection: Connection, keys: Sequence[str]) -> Iterator[Any]:
    """Observations of a batch, read with a server-side cursor and grouped by inspection."""
    query = (
        rows_of(OBSERVATION, keys)
        .add_columns(
            ObservationRow.indicator_id,
            ObservationRow.environment_digest,
            ObservationRow.hardware_digest.label("hardware_digest"),
        )
        .order_by(ObservationRow.document_id, ObservationRow.position)
    )
    return iter(connection.execute(query, execution_options={"yield_per": 5_000}))


def _chunks(inspections: Iterable[_Inspection]) -> Iterator[list[_Inspection]]:
    chunk: list[_Inspection] = []
    count = 0
    for inspection in inspections:
        chunk.append(inspection)
        count += max(1, len(inspection.observations))
        if count >= _OBSERVATIONS:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def _create(tx: neo4j.ManagedTransaction, inspections: list[_Inspection]) -> None:
    # Most of the properties of an observation depend on its indicator and are null in all rows.
    filled = filled_columns([row for each in inspections for row in each.observations])
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for each in inspections:
        observations = [[row[number] for number in filled] for row in each.observations]
        groups.setdefault(each.group, []).append([observations, *each.properties])
    by_shape: dict[tuple[bool, ...], list[Row]] = {}
    for group, rows in groups.items():
        shape = tuple(key is not None for key in group)
        by_shape.setdefault(shape, []).append([*group, rows])
    for shape, grouped in by_shape.items():
        write(tx, _statement(shape, filled[:-1]), grouped)
    # The statement writes one machine and environment each; inspections with more are rare.
    write(tx, RAN_ON.create, _further_edges(inspections, "hardware"))
    write(tx, IN.create, _further_edges(inspections, "environments"))


def _update(tx: neo4j.ManagedTransaction, inspections: list[_Inspection]) -> None:
    write(tx, INSPECTION.update, [each.properties for each in inspections])
    observations = [row[:-1] for each in inspections for row in each.observations]
    write(tx, OBSERVATION.update, observations)


def _further_edges(inspections: list[_Inspection], name: str) -> list[Row]:
    return [
        [each.properties[0], digest]
        for each in inspections
        for digest in list(getattr(each, name))[1:]
    ]


@lru_cache
def _statement(shape: tuple[bool, ...], filled: tuple[int, ...]) -> LiteralString:
    """Cypher that creates groups of inspections with their edges and observations.

    A row is ``[*group, inspections]``, and an inspection is ``[observations, *properties]``. An
    observation is the ``filled`` columns of its properties, and its indicator. With separate
    statements, each edge would need a look-up of the inspection. Each group needs one look-up of a
    shared node, which takes a seventh less time than one for each inspection.

    :param shape: which of :data:`_SHARED` the groups have; observations without a shared indicator
        name their own
    :param filled: as :func:`filled_columns` returns it
    """
    nodes = {name: number for number, name in enumerate(_SHARED) if shape[number]}
    matches = (
        f" MATCH ({name}:{_SHARED[name].label} {{{_SHARED[name].key}: row[{number}]}})"
        for name, number in nodes.items()
    )
    edges = (
        f", (inspection)-[:{edge.type}]->({name})"
        for name, edge in _SHARED_EDGES.items()
        if name in nodes
    )
    query = (
        f"UNWIND $rows AS row{''.join(matches)}"
        f" WITH {', '.join([*nodes, f'row[{len(_SHARED)}] AS inspections'])}"
        " UNWIND inspections AS row"
        f" CREATE (inspection:Inspection {INSPECTION.values('row', 1)}){''.join(edges)}"
    )
    if "hardware" in nodes:
        carried, match = "inspection, indicator", ""
        if "indicator" not in nodes:
            carried = "inspection"
            match = f" MATCH (indicator:PerformanceIndicator {{indicator_id: row[{len(filled)}]}})"
        query += (
            f" WITH {carried}, row[0] AS observations"
            f" UNWIND observations AS row{match} CREATE (inspection)-[:OBSERVED]->"
            f"(:Observation {OBSERVATION.values('row', filled=filled)})-[:OF]->(indicator)"
        )
    return query


@lru_cache(maxsize=4_096)
def typed_parameters(parameters: str) -> tuple[str, tuple[Scalar, ...]]:
    """Parameters as canonical JSON, and the values of :data:`PARAMETERS`; cached.

    >>> text, typed = typed_parameters('{"matrix_size": 512, "dtype": "float32"}')
    >>> text, typed[PARAMETERS.index("matrix_size")], typed[PARAMETERS.index("batch")]
    ('{"dtype":"float32","matrix_size":512}', 512, None)
    """
    values = orjson.loads(parameters)
    return canonical_parameters(parameters), tuple(_scalar(values.get(name)) for name in PARAMETERS)


def canonical_parameters(parameters: str) -> str:
    """Parameters as canonical JSON.

    >>> canonical_parameters('{"size": 512, "dtype": "float32"}')
    '{"dtype":"float32","size":512}'
    """
    return canonical_json(orjson.loads(parameters)).decode()


def _scalar(value: Any) -> Scalar:
    """``value`` if it can be a property; ``None`` for lists, objects and integers above 64 bits."""
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    return value if isinstance(value, float | str) else None
