"""Inspections a second into the record and the graph, against a naive loop and the bare limit."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from benchmarks.documents import write_documents
from benchmarks.fresh_stores import FreshHome, fresh_home, time_command
from benchmarks.timing import seconds_of
from graph.engine import Stores, open_stores
from graph.record.bulk import copy_rows
from graph.record.documents import store_body
from graph.tables import (
    Base,
    Document,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
    StackPackage,
    StackRow,
    table_of,
)
from ingest.inspections.pipeline import ingest_inspections, read_inspections
from ingest.sources.source_items import SourceLimits
from model.measurements.inspection import InspectionDocument, Observation

LARGE, SMALL, NAIVE = 20_000, 2_000, 200


def main() -> None:
    """Measure and print; takes some three minutes."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        size = write_documents(large, LARGE)
        write_documents(small, SMALL, seed=2)
        print(f"{LARGE} documents of {size / 1000:.1f} kB, 50 stacks of 40 packages, 10 classes")
        naive = _naive_rate(small)
        print(f"naive loop, {NAIVE} documents          {naive:8.0f} documents/s   1.0 (reference)")
        many, peak = _end_to_end(large, LARGE)
        print(f"thoth ingest, {LARGE}, end to end    {many:8.0f} documents/s  {many / naive:5.1f}×")
        few, later = _growth(small, large)
        print(f"  {SMALL} into warm stores            {few:8.0f} documents/s, start left out")
        print(f"  {LARGE} more                      {later:8.0f} documents/s, start left out")
        record, graph = _apart(large)
        print(f"  into PostgreSQL alone            {record:8.0f} documents/s")
        print(f"  into the graph alone             {graph:8.0f} documents/s")
        copy, unwind = _bare_limit(large)
        slower = min(copy, unwind)
        print(f"bare limit: COPY of ready rows     {copy:8.0f} documents/s")
        print(f"bare limit: UNWIND of ready rows   {unwind:8.0f} documents/s")
        print(f"end to end / slower bare limit     {many / slower:8.2f}   (goal ≥ 0.9)")
        print(f"end to end / naive loop            {many / naive:8.1f}   (goal ≥ 30)")
        print(f"rate at {LARGE} / rate at {SMALL}       {later / few:8.2f}   (goal ≥ 0.8)")
        print(f"peak memory of the process         {peak / 2**20:8.0f} MiB (goal < 500 MB)")


def _end_to_end(folder: Path, count: int) -> tuple[float, int]:
    """The whole process, its start included, on stores that nobody has used yet."""
    with fresh_home() as home:
        timed = time_command(home, "ingest", "inspections", str(folder))
        _expect_all(home, count)
    return count / timed.wall_s, timed.peak_bytes


def _growth(small: Path, large: Path) -> tuple[float, float]:
    """Rates into warm stores, few documents and then many, without the process's start."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder, fresh_home() as home:
        first = Path(folder, "first")
        write_documents(first, 500, seed=5)
        command = ("ingest", "inspections")
        time_command(home, *command, str(first))
        single = next(first.rglob("*.json"))
        start = min(time_command(home, *command, str(single)).wall_s for _ in range(3))
        few = SMALL / (time_command(home, *command, str(small)).wall_s - start)
        many = LARGE / (time_command(home, *command, str(large)).wall_s - start)
        _expect_all(home, 500 + SMALL + LARGE)
    return few, many


def _expect_all(home: FreshHome, count: int) -> None:
    report = home.thoth("graph", "verify")
    if not report["equal"]:
        raise RuntimeError(f"the graph differs from the record: {report}")
    with open_stores(home.settings, graph=False) as stores, stores.engine.connect() as connection:
        documents = len(connection.execute(select(InspectionRow.document_id)).all())
    if documents != count:
        raise RuntimeError(f"{documents} documents in the record, {count} written")


def _apart(folder: Path) -> tuple[float, float]:
    """Rates of the two halves, one after the other: the graph is stopped for the first."""
    with fresh_home() as home:
        with open_stores(home.settings, graph=False) as stores:
            record = seconds_of(
                lambda: ingest_inspections(
                    home.settings, stores.engine, [str(folder)], SourceLimits()
                )
            )
        graph = time_command(home, "graph", "sync").wall_s
        _expect_all(home, LARGE)
    return LARGE / record, LARGE / graph


def _documents(folder: Path) -> Iterator[InspectionDocument]:
    for batch in read_inspections([str(folder)], SourceLimits()):
        for delivery in batch.deliveries:
            yield delivery.document


# The naive loop: what a first version of such a program does.


def _naive_rate(folder: Path) -> float:
    with fresh_home() as home, open_stores(home.settings) as stores:
        start = time.perf_counter()
        for done, document in enumerate(_documents(folder)):
            if done == NAIVE:
                break
            _naive_record(stores, document)
            _naive_project(stores, document)
        return NAIVE / (time.perf_counter() - start)


def _naive_record(stores: Stores, document: InspectionDocument) -> None:
    body = store_body(stores.settings, document.document_id, document.body)
    stack = document.stack
    assert stack is not None
    origin = {"document_id": document.document_id}
    inspected = {"stack_digest": stack.digest, "job_count": document.job_count}
    rows: list[tuple[type[Base], dict[str, Any]]] = [
        (
            Document,
            {
                **origin, "kind": "inspection", "schema_version": document.schema_version,
                "source": "", "size_bytes": len(document.body), "body": body.body,
            },
        ),
        (
            StackRow,
            {**origin, "digest": stack.digest, "package_count": len(stack.packages)},
        ),
        *(
            (
                PackageVersionRow,
                {
                    **origin, "purl": package.purl, "name": package.name,
                    "version": package.version, "index_name": package.index,
                },
            )
            for package in stack.packages
        ),
        *(
            (StackPackage, {"stack_digest": stack.digest, "purl": package.purl})
            for package in stack.packages
        ),
        (InspectionRow, {**origin, "name": document.name, **inspected}),
    ]  # fmt: skip
    for seen in document.observations:
        rows += _circumstances(origin, seen)
        rows.append((ObservationRow, _observation(document, seen)))
    with stores.engine.begin() as connection:
        for model, values in rows:
            connection.execute(insert(table_of(model)).values(values).on_conflict_do_nothing())


def _circumstances(
    origin: Mapping[str, str], seen: Observation
) -> list[tuple[type[Base], dict[str, Any]]]:
    environment = seen.environment
    return [
        (
            HardwareRow,
            {
                **origin, "digest": seen.hardware.digest, "label": seen.hardware.label,
                "identity": seen.hardware.identity,
            },
        ),
        (
            IndicatorRow,
            {
                **origin, "indicator_id": seen.indicator.indicator_id,
                "name": seen.indicator.name, "component": seen.indicator.component,
                "script_sha256": seen.indicator.script_sha256,
            },
        ),
        (
            RuntimeEnvironmentRow,
            {
                **origin, "digest": environment.digest, "os_name": environment.os_name,
                "os_version": environment.os_version,
                "python_version": environment.python_version,
                "native_packages": list(environment.native_packages),
            },
        ),
    ]  # fmt: skip


def _observation(document: InspectionDocument, seen: Observation) -> dict[str, Any]:
    return {
        "observation_id": seen.observation_id,
        "document_id": document.document_id,
        "job_id": seen.job_id,
        "position": seen.position,
        "outcome": seen.outcome.value,
        "exit_code": seen.exit_code,
        "indicator_id": seen.indicator.indicator_id,
        "hardware_digest": seen.hardware.digest,
        "environment_digest": seen.environment.digest,
        "comparison_key": seen.comparison_key,
        "parameters": seen.parameters,
        "device": seen.device,
        "elapsed_s": seen.elapsed_s,
        "rate": seen.rate,
        "unit": seen.unit,
        "reported_rate": seen.reported_rate,
        "repetitions_s": [],
        "memory_bytes": seen.memory_bytes,
        "user_s": seen.user_s,
        "system_s": seen.system_s,
    }


_NAIVE_QUERY = """
MERGE (s:Stack {digest: $stack})
MERGE (h:Hardware {digest: $hardware})
MERGE (e:RuntimeEnvironment {digest: $environment})
MERGE (p:PerformanceIndicator {indicator_id: $indicator})
MERGE (i:Inspection {document_id: $document_id}) SET i.name = $name
MERGE (o:Observation {observation_id: $observation_id}) SET o.rate = $rate
MERGE (i)-[:INSPECTED]->(s) MERGE (i)-[:RAN_ON]->(h) MERGE (i)-[:IN]->(e)
MERGE (i)-[:OBSERVED]->(o) MERGE (o)-[:OF]->(p)
WITH s UNWIND $packages AS package
MERGE (v:PackageVersion {purl: package}) MERGE (s)-[:INCLUDES]->(v)
"""


def _naive_project(stores: Stores, document: InspectionDocument) -> None:
    seen = document.observations[0]
    assert document.stack is not None
    with stores.driver.session(database=stores.database) as session:
        session.run(
            _NAIVE_QUERY,
            stack=document.stack.digest, hardware=seen.hardware.digest,
            environment=seen.environment.digest, indicator=seen.indicator.indicator_id,
            document_id=document.document_id, name=document.name,
            observation_id=seen.observation_id, rate=seen.rate,
            packages=[package.purl for package in document.stack.packages],
        ).consume()  # fmt: skip


# The bare limit: rows are ready in memory, nothing is checked, one statement a batch.


def _bare_limit(folder: Path) -> tuple[float, float]:
    with fresh_home() as home, open_stores(home.settings) as stores:
        documents = list(_documents(folder))
        bodies = [
            (it.document_id, "inspection", "bare", "", len(it.body),
             store_body(home.settings, it.document_id, it.body).body)
            for it in documents
        ]  # fmt: skip
        observations = [_observation(it, it.observations[0]) for it in documents]
        for it in documents:
            object.__setattr__(it, "body", b"")  # they are in ``bodies``, smaller
        copied_s = seconds_of(lambda: _bare_copy(stores, documents, bodies, observations))
        nodes = [
            {
                "inspection": {"document_id": document.document_id, "name": document.name},
                "observation": {
                    name: value
                    for name, value in row.items()
                    if value is not None and not isinstance(value, dict | list)
                },
                "stack": document.stack.digest if document.stack else "",
                "hardware": row["hardware_digest"],
                "environment": row["environment_digest"],
                "indicator": row["indicator_id"],
            }
            for document, row in zip(documents, observations, strict=True)
        ]
        _bare_circumstances(stores, nodes)
        created_s = seconds_of(lambda: _bare_unwind(stores, nodes))
        return len(documents) / copied_s, len(nodes) / created_s


def _bare_copy(
    stores: Stores,
    documents: Sequence[InspectionDocument],
    bodies: Sequence[tuple[Any, ...]],
    observations: Sequence[dict[str, Any]],
) -> None:
    inspections = [(it.document_id, it.name, it.job_count) for it in documents]
    with stores.engine.begin() as connection:
        # No other table is filled, so that references are not asked for: COPY alone.
        connection.exec_driver_sql("SET session_replication_role = replica")
        for model, rows, columns in (
            (Document, bodies, ("document_id", "kind", "schema_version", "source",
                                "size_bytes", "body")),
            (InspectionRow, inspections, ("document_id", "name", "job_count")),
            (ObservationRow, [tuple(row.values()) for row in observations],
             tuple(observations[0])),
        ):  # fmt: skip
            table = table_of(model)
            copy_rows(connection, table.name, table, rows, columns)


def _bare_circumstances(stores: Stores, nodes: Sequence[dict[str, Any]]) -> None:
    for label, key, field in (
        ("Stack", "digest", "stack"), ("Hardware", "digest", "hardware"),
        ("RuntimeEnvironment", "digest", "environment"),
        ("PerformanceIndicator", "indicator_id", "indicator"),
    ):  # fmt: skip
        keys = sorted({node[field] for node in nodes})
        stores.driver.execute_query(
            f"UNWIND $keys AS key CREATE (:{label} {{{key}: key}})",
            keys=keys, database_=stores.database,
        )  # fmt: skip


_BARE_QUERY = """
UNWIND $rows AS row
MATCH (s:Stack {digest: row.stack}) MATCH (h:Hardware {digest: row.hardware})
MATCH (e:RuntimeEnvironment {digest: row.environment})
MATCH (p:PerformanceIndicator {indicator_id: row.indicator})
CREATE (i:Inspection) SET i = row.inspection
CREATE (o:Observation) SET o = row.observation
CREATE (i)-[:INSPECTED]->(s) CREATE (i)-[:RAN_ON]->(h) CREATE (i)-[:IN]->(e)
CREATE (i)-[:OBSERVED]->(o) CREATE (o)-[:OF]->(p)
"""


def _bare_unwind(stores: Stores, nodes: Sequence[dict[str, Any]]) -> None:
    for start in range(0, len(nodes), 1000):
        stores.driver.execute_query(
            _BARE_QUERY, rows=nodes[start : start + 1000], database_=stores.database
        )
