"""The projection from a real PostgreSQL to each graph product."""

import gc
import re
import sys

import pytest
from click.testing import CliRunner
from sqlalchemy import delete, insert

from cli.graph import graph as graph_commands
from graph.engine import Stores
from graph.projection import lag, rebuild
from graph.projection.kinds import fixed_query
from graph.projection.upsert import write
from graph.tables import (
    AffectedVersion,
    InspectionRow,
    ObservationRow,
    OutboxEntry,
    StackPackage,
    VulnerabilityRow,
)
from model.errors import ProjectionFailed
from tests.factories.rows import (
    Rows,
    canonical_parameters,
    digest_of,
    entries_of,
    inspection_rows,
    store,
)
from tests.services.projection import answer, project, verified


@pytest.fixture
def stores(stores_on_each_product: Stores) -> Stores:
    return stores_on_each_product


@pytest.fixture
def rows(stores: Stores) -> Rows:
    rows = inspection_rows(15)
    store(stores.engine, rows)
    return rows


def test_every_kind_of_row_reaches_the_graph(stores: Stores, rows: Rows) -> None:
    assert project(stores).entries == len(entries_of(rows))
    report = verified(stores)
    assert [kind.differences for kind in report.kinds if not kind.equal] == []
    counts = {kind.kind: kind.graph_count for kind in report.kinds}
    # Results of other systems and what they name: test_projection_benchmarks.py.
    foreign = re.compile("Benchmark|Software|HardwarePart")
    assert [kind for kind, count in counts.items() if not count and not foreign.search(kind)] == []
    assert counts["Observation"] == len(rows[ObservationRow])
    assert counts["(:Stack)-[:INCLUDES]->(:PackageVersion)"] == len(rows[StackPackage])
    assert lag(stores.engine).count == 0
    # An observation keeps its values and types, and times compare with times of Cypher.
    row = next(
        row
        for row in rows[ObservationRow]
        if row["rate"] and row["started_at"] and row["quarantine_reason"] is None
    )
    ((node, started),) = answer(
        stores,
        "MATCH (o:Observation {observation_id: $key}) RETURN properties(o), o.started_at",
        key=row["observation_id"],
    )
    assert node["rate"] == row["rate"]
    assert isinstance(node["rate"], float)
    assert node["memory_bytes"] == row["memory_bytes"]
    assert node["parameters"] == canonical_parameters(row)
    assert started.to_native() == row["started_at"]
    assert "quarantine_reason" not in node
    query = "MATCH (i:Inspection) WHERE i.created_at >= datetime($at) RETURN count(i)"
    dated = [row for row in rows[InspectionRow] if row["created_at"]]
    assert answer(stores, query, at="2020-02-01T00:00:00Z") == [[len(dated)]]
    assert answer(stores, query, at="2021-02-01T00:00:00Z") == [[0]]


def test_projected_rows_are_released_without_garbage_collection(stores: Stores) -> None:
    rows = [[name, "document"] for name in "abc"]
    held_before = sys.getrefcount(rows)
    gc.disable()
    try:
        with stores.driver.session(database=stores.database) as session:
            session.execute_write(write, fixed_query("UNWIND $rows AS row RETURN row"), rows)
            assert sys.getrefcount(rows) == held_before
    finally:
        gc.enable()


def test_verify_says_whether_it_lists_all_differences(stores: Stores, rows: Rows) -> None:
    project(stores)
    extra = "UNWIND range(1, $count) AS n CREATE (:BaseImage {name: $name + n, document_id: 'x'})"
    for name, count, truncated in (("ten", 10, False), ("one more", 1, True)):
        answer(stores, extra, name=name, count=count)
        (images,) = (kind for kind in verified(stores).kinds if not kind.equal)
        assert (len(images.differences), images.truncated) == (10, truncated)
        assert {it.how for it in images.differences} == {"extra"}
        shown = CliRunner().invoke(graph_commands, ["verify"], obj=stores.settings)
        assert ("  and more" in shown.stdout.splitlines()) is truncated
    assert shown.exit_code == 1


#: What drifted, the kind that shows it, how, and the properties that differ.
DRIFTS = (
    ("SET edge.specifier = '>=99'", "different", ("specifier",)),
    ("REMOVE edge.specifier", "different", ("specifier",)),
    ("SET edge.extras = ['z']", "different", ("extras",)),
    ("DELETE edge", "missing", ()),
    ("CREATE (start)-[:REQUIRES {specifier: '>=99'}]->(end)", "extra", ()),
)


#: Kinds of nodes: the kind of their entries, their label and key, and a value that may drift.
NODES = (
    ("package", "Package", "name", "revision"),
    ("package_version", "PackageVersion", "purl", "yanked_reason"),
    ("vulnerability", "Vulnerability", "vulnerability_id", "score"),
    ("artifact", "Artifact", "sha256", "bundled"),
    ("native_environment", "NativeEnvironment", "digest", "os_version"),
)


def test_graph_verification_finds_differences_that_projection_repairs(
    stores: Stores, rows: Rows
) -> None:
    project(stores)

    def repaired(kind: str, key: str) -> bool:
        with stores.engine.begin() as connection:
            connection.execute(insert(OutboxEntry), [{"kind": kind, "key": key}])
        project(stores)
        return verified(stores).equal

    for change, how, properties in DRIFTS:
        ((purl,),) = answer(
            stores,
            "MATCH (start:PackageVersion)-[edge:REQUIRES]->(end:Package)"
            f" WITH start, edge, end ORDER BY start.purl LIMIT 1 {change} RETURN start.purl",
        )
        (requires,) = (kind for kind in verified(stores).kinds if not kind.equal)
        assert requires.kind == "(:PackageVersion)-[:REQUIRES]->(:Package)", change
        (difference,) = requires.differences
        assert (difference.how, difference.properties) == (how, properties), change
        assert difference.key.startswith(f"{purl} -> ")
        assert repaired("package_version", purl), change
    for kind, label, key, value in NODES:
        ((damaged,),) = answer(
            stores,
            f"MATCH (n:{label}) WITH n ORDER BY n.{key} LIMIT 1"
            f" SET n.{value} = 'drifted' RETURN n.{key}",
        )
        (found,) = (report for report in verified(stores).kinds if not report.equal)
        (difference,) = found.differences
        assert (difference.key, difference.how) == (damaged, "different"), label
        assert difference.properties == (value,), label
        assert repaired(kind, damaged), label


def test_merged_vulnerability_is_removed_from_the_graph(stores: Stores, rows: Rows) -> None:
    project(stores)
    gone, kept = (row["vulnerability_id"] for row in rows[VulnerabilityRow][:2])
    with stores.engine.begin() as connection:
        purls = connection.scalars(
            delete(AffectedVersion)
            .where(AffectedVersion.vulnerability_id == gone)
            .returning(AffectedVersion.purl)
        ).all()
        connection.execute(
            delete(VulnerabilityRow).where(VulnerabilityRow.vulnerability_id == gone)
        )
        entries = [
            *({"kind": "vulnerability", "key": key} for key in (gone, kept)),
            *({"kind": "package_version", "key": purl} for purl in purls),
        ]
        connection.execute(insert(OutboxEntry), entries)
    project(stores)
    assert verified(stores).equal
    query = "MATCH (x:Vulnerability {vulnerability_id: $key}) RETURN count(x)"
    assert answer(stores, query, key=gone) == [[0]]


def test_graph_rebuild_repairs_a_damaged_graph(stores: Stores, rows: Rows) -> None:
    project(stores)
    before = verified(stores)
    answer(stores, "MATCH (o:Observation) DETACH DELETE o")
    answer(stores, "MATCH (h:Hardware) SET h.label = 'changed'")
    answer(stores, "CREATE (:Unrelated {name: 'kept'})")
    rebuild(stores.engine, stores.driver, database=stores.database)
    after = verified(stores)
    assert after.equal
    assert after.kinds == before.kinds
    assert answer(stores, "MATCH (n:Unrelated) RETURN count(n)") == [[1]]


def test_interrupted_rebuild_continues_at_the_next_sync(stores: Stores, rows: Rows) -> None:
    project(stores)
    answer(stores, "MATCH (h:Hardware) SET h.label = 'changed'")

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(stores.engine, stores.driver, database=stores.database, batch=5, progress=interrupt)
    assert not verified(stores).equal
    project(stores)
    assert verified(stores).equal


def test_graph_commands_report_differences_and_rebuild(stores: Stores, rows: Rows) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(graph_commands, arguments, obj=stores.settings)
        return done.exit_code, done.output

    assert run("verify")[0] == 1
    code, output = run("lag")
    assert (code, f"{len(entries_of(rows))} entries" in output) == (0, True)
    assert run("sync")[0] == 0
    code, output = run("verify", "--json")
    assert code == 0
    assert '"equal": true' in output
    answer(
        stores,
        "MATCH (i:Inspection {document_id: $key}) DETACH DELETE i",
        key=digest_of("document", 0, 1),
    )
    code, output = run("verify")
    assert code == 1
    assert "missing" in output
    assert run("rebuild", "--json")[0] == 0
    assert run("verify")[0] == 0


def test_row_that_the_graph_refuses_does_not_stop_other_rows(stores: Stores, rows: Rows) -> None:
    """Neo4j holds no key above some 8 kB; ArcadeDB does, and then there is nothing to refuse."""
    one = "(SELECT min(digest) FROM runtime_environments)"
    change = f"UPDATE runtime_environments SET native_packages = {{}} WHERE digest = {one}"
    with stores.engine.begin() as connection:
        connection.exec_driver_sql(change.format("ARRAY[repeat('x', 40000)]"))
    refused: list[str] = []
    try:
        project(stores)
    except ProjectionFailed as error:
        refused = error.entries
    assert lag(stores.engine).count == len(refused) < len(entries_of(rows))
    if refused:
        with stores.engine.begin() as connection:
            connection.exec_driver_sql(change.format("'{}'"))
        project(stores)
    assert lag(stores.engine).count == 0
    assert verified(stores).equal
