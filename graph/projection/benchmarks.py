"""Projects results of other benchmark systems, and what they have in common with our evidence.

Software and parts of machines are separate nodes: an entry names them, and they are linked with a
package version or a hardware class as soon as the record has one that is certainly the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Any

import neo4j
from sqlalchemy import ARRAY, Connection, Integer, Text, column, func, literal, select, text

from graph.projection.inspections import HARDWARE, canonical_parameters
from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    Row,
    edge_kind,
    fixed_query,
    properties_of,
    row_of,
    rows_of,
    utc_text,
)
from graph.projection.packages import PACKAGE, PACKAGE_VERSION, PACKAGE_VERSIONS, PACKAGES
from graph.projection.upsert import (
    ImmutableNode,
    MutableNode,
    chunks,
    consume,
    create_missing,
    missing,
    upsert,
    write,
)
from graph.record.benchmark_entries import HAS_PART as IS_PART
from graph.record.benchmark_entries import RESULTS_IN_PART
from graph.tables import (
    BenchmarkEntryPart,
    BenchmarkEntryRow,
    BenchmarkEntrySoftware,
    BenchmarkResultRow,
    BenchmarkRow,
    BenchmarkSoftwareRow,
    HardwarePartRow,
    HardwareRow,
    PackageRow,
    PackageVersionRow,
    table_of,
)

_ENTRY, _RESULT = BenchmarkEntryRow, BenchmarkResultRow

#: Results in one transaction of the graph, unless one part has more.
_RESULTS = 2_000

SOFTWARE = NodeKind(
    label="Software",
    rows=select(
        BenchmarkSoftwareRow.software_id, BenchmarkSoftwareRow.name, BenchmarkSoftwareRow.version
    ),
    owner=BenchmarkSoftwareRow.software_id,
)
VERSION_OF = EdgeKind(
    type="VERSION_OF",
    start=SOFTWARE,
    end=PACKAGE,
    rows=select(BenchmarkSoftwareRow.software_id.label("start"), PackageRow.name.label("end")).join(
        PackageRow, PackageRow.name == BenchmarkSoftwareRow.package
    ),
    owner=BenchmarkSoftwareRow.software_id,
)
SAME_AS = EdgeKind(
    type="SAME_AS",
    start=SOFTWARE,
    end=PACKAGE_VERSION,
    rows=select(
        BenchmarkSoftwareRow.software_id.label("start"), PackageVersionRow.purl.label("end")
    ).join(PackageVersionRow, PackageVersionRow.purl == BenchmarkSoftwareRow.purl),
    owner=BenchmarkSoftwareRow.software_id,
)
SOFTWARE_NODES = MutableNode(
    node=SOFTWARE, edges=(VERSION_OF, SAME_AS), needs=(PACKAGES, PACKAGE_VERSIONS)
)

HARDWARE_PART = NodeKind(
    label="HardwarePart",
    rows=select(*properties_of(HardwarePartRow)),
    owner=HardwarePartRow.part_id,
)
_PART, _CLASS = table_of(HardwarePartRow).alias("part"), table_of(HardwareRow).alias("class")
HAS_PART = EdgeKind(
    type="HAS_PART",
    start=HARDWARE,
    end=HARDWARE_PART,
    rows=select(_CLASS.c.digest.label("start"), _PART.c.part_id.label("end")).join_from(
        _PART, _CLASS, text(IS_PART)
    ),
    owner=_PART.c.part_id,
    of_end=True,
)
HARDWARE_PARTS = MutableNode(
    node=HARDWARE_PART, edges=(HAS_PART,), needs=(MutableNode(node=HARDWARE),)
)

BENCHMARK_SYSTEM = NodeKind(
    label="BenchmarkSystem",
    rows=select(BenchmarkRow.system.label("key")).group_by(BenchmarkRow.system),
    owner=BenchmarkRow.system,
)
BENCHMARK = NodeKind(
    label="Benchmark",
    rows=select(BenchmarkRow.benchmark_id, BenchmarkRow.name, BenchmarkRow.system),
    owner=BenchmarkRow.benchmark_id,
)
PART_OF = edge_kind(
    "PART_OF", BENCHMARK, BENCHMARK_SYSTEM, (BenchmarkRow.benchmark_id, BenchmarkRow.system)
)
_BENCHMARKS = ImmutableNode(node=BENCHMARK, edges=(PART_OF,))

BENCHMARK_ENTRY = NodeKind(
    label="BenchmarkEntry",
    rows=select(
        _ENTRY.entry_id,
        _ENTRY.system,
        _ENTRY.source,
        _ENTRY.hardware["accelerator"].astext.label("accelerator"),
        _ENTRY.accelerators,
        _ENTRY.hardware["cpu"].astext.label("cpu"),
        _ENTRY.hardware["description"].astext.label("machine"),
        utc_text(_ENTRY.measured_at).label("measured_at"),
        utc_text(_ENTRY.ingested_at).label("ingested_at"),
    ),
    owner=_ENTRY.entry_id,
)
USED = edge_kind(
    "USED",
    BENCHMARK_ENTRY,
    SOFTWARE,
    (BenchmarkEntrySoftware.entry_id, BenchmarkEntrySoftware.software_id),
)
HAD = edge_kind(
    "HAD", BENCHMARK_ENTRY, HARDWARE_PART, (BenchmarkEntryPart.entry_id, BenchmarkEntryPart.part_id)
)
_ENTRIES = ImmutableNode(node=BENCHMARK_ENTRY, edges=(USED, HAD))

_RESULT_ID = _RESULT.entry_id + "/" + _RESULT.position.cast(Text)


def _complete_result(row: Row) -> None:
    row[_PARAMETERS] = canonical_parameters(row[_PARAMETERS])


BENCHMARK_RESULT = NodeKind(
    label="BenchmarkResult",
    rows=select(
        _RESULT_ID.label("result_id"),
        _RESULT.metric,
        func.nullif(_RESULT.unit, "").label("unit"),
        _RESULT.direction,
        _RESULT.definition,
        _RESULT.value,
        func.cardinality(_RESULT.samples).label("sample_count"),
        _RESULT.aggregate,
        _RESULT.validity,
        _RESULT.reason,
        _RESULT.parameters.cast(Text).label("parameters"),
    ),
    owner=_RESULT.entry_id,
    complete=_complete_result,
)
_PARAMETERS = BENCHMARK_RESULT.properties.index("parameters")

REPORTED = edge_kind("REPORTED", BENCHMARK_ENTRY, BENCHMARK_RESULT, (_RESULT.entry_id, _RESULT_ID))
RESULT_OF = EdgeKind(
    type="RESULT_OF",
    start=BENCHMARK_RESULT,
    end=BENCHMARK,
    rows=select(_RESULT_ID.label("start"), BenchmarkRow.benchmark_id.label("end"))
    .join_from(_RESULT, _ENTRY, _ENTRY.entry_id == _RESULT.entry_id)
    .join(
        BenchmarkRow,
        (BenchmarkRow.system == _ENTRY.system) & (BenchmarkRow.name == _RESULT.benchmark),
    ),
    owner=_RESULT.entry_id,
)

NODES = (SOFTWARE, HARDWARE_PART, BENCHMARK_SYSTEM, BENCHMARK, BENCHMARK_ENTRY, BENCHMARK_RESULT)
EDGES = (VERSION_OF, SAME_AS, HAS_PART, PART_OF, USED, HAD, REPORTED, RESULT_OF)

#: Outbox entries of results: one for each part of an entry, named by its first result.
PART_KEY = _RESULT_ID
FIRST_OF_PART = _RESULT.position % RESULTS_IN_PART == 0

_DELETE_RESULTS = fixed_query(
    "UNWIND $keys AS key MATCH (:BenchmarkEntry {entry_id: key})-[:REPORTED]->(result)"
    " DETACH DELETE result"
)
_CREATE_RESULTS = fixed_query(
    "UNWIND $rows AS part"
    " MATCH (entry:BenchmarkEntry {entry_id: part[0]})"
    " MATCH (benchmark:Benchmark {benchmark_id: part[1]})"
    " UNWIND part[2] AS row"
    f" CREATE (entry)-[:REPORTED]->(:BenchmarkResult {BENCHMARK_RESULT.values('row')})"
    "-[:RESULT_OF]->(benchmark)"
)


def project_benchmarks(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing benchmarks among ``keys``, after their systems."""
    unique = list(dict.fromkeys(keys))
    for chunk in chunks(missing(session, BENCHMARK, unique)):
        rows = connection.execute(rows_of(BENCHMARK, chunk)).all()
        systems = ImmutableNode(node=BENCHMARK_SYSTEM)
        create_missing(connection, session, systems, sorted({row.system for row in rows}))
        create_missing(connection, session, _BENCHMARKS, chunk)


def project_entries(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing entries among ``keys``, after the software and parts that they name, and
    delete entries that other readers have replaced.
    """
    unique = list(dict.fromkeys(keys))
    for chunk in chunks(unique):
        recorded = {row.entry_id for row in connection.execute(rows_of(BENCHMARK_ENTRY, chunk))}
        if replaced := [it for it in chunk if it not in recorded]:
            session.execute_write(_delete_entries, replaced)
    for chunk in chunks(missing(session, BENCHMARK_ENTRY, unique)):
        for edge, target in ((USED, SOFTWARE_NODES), (HAD, HARDWARE_PARTS)):
            ends = {row.end for row in connection.execute(rows_of(edge, chunk))}
            upsert(connection, session, target, missing(session, target.node, sorted(ends)))
        create_missing(connection, session, _ENTRIES, chunk)


def _delete_entries(tx: neo4j.ManagedTransaction, keys: list[str]) -> None:
    consume(tx.run(_DELETE_RESULTS, keys=keys))
    consume(tx.run(BENCHMARK_ENTRY.delete_some, keys=keys))


def project_results(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing results of the parts ``keys``; a part that has a node is complete."""
    absent = missing(session, BENCHMARK_RESULT, keys)
    if not absent:
        return
    project_entries(connection, session, {key.rpartition("/")[0] for key in absent})
    projected: set[str] = set()
    with ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for parts in _transactions(_parts(connection, absent)):
            # The graph writes one transaction while the next is read from the record.
            if writing is not None:
                writing.result()
            benchmarks = {group[1] for group in parts} - projected
            project_benchmarks(connection, session, benchmarks)
            projected |= benchmarks
            writing = writer.submit(session.execute_write, write, _CREATE_RESULTS, parts)
        if writing is not None:
            writing.result()


#: Results of one part with the same benchmark: ``[entry, benchmark, rows]``, a row of Cypher.
_Group = list[Any]


def _parts(connection: Connection, keys: Sequence[str]) -> Iterator[list[_Group]]:
    """The results of each part, read with a server-side cursor."""
    split = [key.rpartition("/") for key in keys]
    entries = literal([entry for entry, _, _ in split], ARRAY(Text))
    firsts = literal([int(first) for _, _, first in split], ARRAY(Integer))
    wanted = (
        func.unnest(entries, firsts)
        .table_valued(column("entry_id", Text), column("first", Integer))
        .render_derived("wanted")
    )
    query = (
        BENCHMARK_RESULT.rows.add_columns(
            _RESULT.entry_id, wanted.c.first, BenchmarkRow.benchmark_id
        )
        .join(
            wanted,
            (_RESULT.entry_id == wanted.c.entry_id)
            & _RESULT.position.between(wanted.c.first, wanted.c.first + RESULTS_IN_PART - 1),
        )
        .join(_ENTRY, _ENTRY.entry_id == _RESULT.entry_id)
        .join(
            BenchmarkRow,
            (BenchmarkRow.system == _ENTRY.system) & (BenchmarkRow.name == _RESULT.benchmark),
        )
        .order_by(_RESULT.entry_id, _RESULT.position)
    )
    rows = connection.execute(query, execution_options={"yield_per": 5_000})
    for (entry, _), of_part in groupby(rows, lambda row: (row[-3], row[-2])):
        groups: dict[str, list[Row]] = {}
        for *values, _, _, benchmark in of_part:
            groups.setdefault(benchmark, []).append(row_of(BENCHMARK_RESULT, values))
        yield [[entry, benchmark, results] for benchmark, results in groups.items()]


def _transactions(parts: Iterable[list[_Group]]) -> Iterator[list[_Group]]:
    """Whole parts until a transaction has enough results."""
    transaction: list[_Group] = []
    count = 0
    for groups in parts:
        transaction += groups
        count += sum(len(results) for _, _, results in groups)
        if count >= _RESULTS:
            yield transaction
            transaction, count = [], 0
    if transaction:
        yield transaction
