"""Results of other benchmark systems in each graph product, linked with what we know ourselves."""

import pytest
import sqlalchemy

from graph.engine import Stores
from graph.projection import lag, rebuild
from graph.record.benchmark_entries import RESULTS_IN_PART, enqueue_parts_of
from graph.tables import HardwareRow
from model.measurements.benchmark_results import BenchmarkResult
from tests.factories.foreign_results import RATE, foreign_result, store_foreign, training_entry
from tests.factories.releases import release
from tests.factories.rows import inspection_rows, store
from tests.services.projection import answer, deliver, project, verified

#: What entries name, and what it is linked with.
_SOFTWARE = """
MATCH (s:Software) OPTIONAL MATCH (s)-[:VERSION_OF]->(p:Package)
OPTIONAL MATCH (s)-[:SAME_AS]->(v:PackageVersion)
RETURN s.name, s.version, p.name, v.purl ORDER BY s.software_id
"""
_PARTS = """
MATCH (p:HardwarePart) OPTIONAL MATCH (h:Hardware)-[:HAS_PART]->(p)
RETURN p.part_id, count(h) ORDER BY p.part_id
"""


@pytest.fixture
def stores(stores_on_each_product: Stores) -> Stores:
    return stores_on_each_product


def add(stores: Stores, *results: BenchmarkResult) -> None:
    with stores.engine.begin() as connection:
        store_foreign(connection, *results)


def test_every_kind_of_benchmark_result_is_projected_and_rebuilt(stores: Stores) -> None:
    store(stores.engine, inspection_rows(20))
    deliver(stores, [release("tensorflow", "1.14.0")])
    hardware = {"accelerator": "NVIDIA Accelerator 1"}
    add(stores, *training_entry("a", 30.0, 8, hardware=hardware), foreign_result(None, source="b"))
    project(stores)
    report = verified(stores)
    assert [it.differences for it in report.kinds if not it.equal] == []
    counts = {it.kind: it.graph_count for it in report.kinds}
    new = [
        "Software", "HardwarePart", "BenchmarkSystem", "Benchmark", "BenchmarkEntry",
        "BenchmarkResult", "(:Software)-[:VERSION_OF]->(:Package)",
        "(:Software)-[:SAME_AS]->(:PackageVersion)", "(:Hardware)-[:HAS_PART]->(:HardwarePart)",
        "(:Benchmark)-[:PART_OF]->(:BenchmarkSystem)", "(:BenchmarkEntry)-[:USED]->(:Software)",
        "(:BenchmarkEntry)-[:HAD]->(:HardwarePart)",
        "(:BenchmarkEntry)-[:REPORTED]->(:BenchmarkResult)",
        "(:BenchmarkResult)-[:RESULT_OF]->(:Benchmark)",
    ]  # fmt: skip
    assert [name for name in new if not counts[name]] == []
    assert (counts["BenchmarkEntry"], counts["BenchmarkResult"]) == (2, 3)
    rebuild(stores.engine, stores.driver, database=stores.database)
    assert verified(stores).kinds == report.kinds


def test_results_of_a_newer_reader_replace_earlier_results_of_a_file(stores: Stores) -> None:
    """An entry of other files, and one that today's readers made, stay."""
    old = training_entry("a", 30.0, 8, software={"tensorflow": "Model: resnet"})
    other = foreign_result(5.0, source="b")
    add(stores, *old, other)
    with stores.engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE benchmark_entries SET reader_version = 0"))
    project(stores)
    for _ in range(2):
        add(stores, foreign_result(31.0, source="a", accelerators=8, software={}))
        add(stores, foreign_result(32.0, source="a", accelerators=4, software={}))
        project(stores)
    values = "MATCH (e:BenchmarkEntry)-[:REPORTED]->(r) RETURN r.value ORDER BY r.value"
    assert answer(stores, values) == [[5.0], [31.0], [32.0]]
    assert answer(stores, "MATCH (r:BenchmarkResult) RETURN count(r)") == [[3]]
    assert [it.differences for it in verified(stores).kinds if not it.equal] == []


def test_unknown_facts_of_a_benchmark_result_stay_unset_in_the_graph(stores: Stores) -> None:
    """A shortened or missing version is no version, and CUDA no package."""
    deliver(stores, [release("tensorflow", "1.15.0"), release("cuda", "10.1")])
    add(
        stores,
        foreign_result(source="a", software={"tensorflow": "1.15.0", "cuda": "10.1"}),
        foreign_result(source="b", software={"tensorflow": "1.15"}),
        foreign_result(source="c", software={"tensorflow": None}),
    )
    project(stores)
    assert answer(stores, _SOFTWARE) == [
        ["cuda", "10.1", None, None],
        ["tensorflow", None, "tensorflow", None],
        ["tensorflow", "1.15", "tensorflow", None],
        ["tensorflow", "1.15.0", "tensorflow", "pkg:pypi/tensorflow@1.15.0"],
    ]
    ((properties,),) = answer(stores, "MATCH (e:BenchmarkEntry {source: 'a'}) RETURN properties(e)")
    assert properties["accelerator"] == "NVIDIA V100"
    assert "machine" not in properties
    assert "measured_at" not in properties


def test_benchmark_result_is_linked_to_a_package_recorded_later(stores: Stores) -> None:
    add(stores, foreign_result())
    project(stores)
    assert answer(stores, _SOFTWARE)[1] == ["tensorflow", "1.14.0", None, None]
    deliver(stores, [release("tensorflow", "1.14.0")])
    assert answer(stores, _SOFTWARE)[1][2:] == ["tensorflow", "pkg:pypi/tensorflow@1.14.0"]
    assert verified(stores).equal


def test_benchmark_result_is_linked_to_hardware_recorded_later(stores: Stores) -> None:
    """Vendor, clock and punctuation do not count; any other difference does."""
    names = ("NVIDIA Accelerator-1", "ACCELERATOR 1", "Accelerator 1 SUPER")
    add(stores, *(foreign_result(source=it, hardware={"accelerator": it}) for it in names))
    project(stores)
    assert answer(stores, _PARTS) == [
        ["accelerator:accelerator 1", 0], ["accelerator:accelerator 1 super", 0],
    ]  # fmt: skip
    rows = inspection_rows(20)
    store(stores.engine, rows)
    with stores.engine.begin() as connection:
        enqueue_parts_of(connection, [it["digest"] for it in rows[HardwareRow]])
    project(stores)
    assert answer(stores, _PARTS) == [
        ["accelerator:accelerator 1", 1], ["accelerator:accelerator 1 super", 0],
    ]  # fmt: skip
    assert verified(stores).equal


@pytest.mark.slow
def test_entry_of_many_benchmark_results_is_written_in_parts(stores: Stores) -> None:
    count = 2 * RESULTS_IN_PART + 3
    results = [
        foreign_result(float(n), metric=RATE, benchmark=f"model-{n % 3}") for n in range(count)
    ]
    add(stores, *results)
    done = project(stores, batch=2)
    assert done.by_kind["benchmark_results"] == 3
    query = """
        MATCH (e:BenchmarkEntry)-[:REPORTED]->(r:BenchmarkResult)-[:RESULT_OF]->(b:Benchmark)
        RETURN b.name, count(r), sum(r.value) ORDER BY b.name
    """
    assert answer(stores, query) == [
        [f"model-{n}", len(range(n, count, 3)), float(sum(range(n, count, 3)))] for n in range(3)
    ]
    assert verified(stores).equal
    rebuild(stores.engine, stores.driver, database=stores.database, batch=1)
    assert verified(stores).equal


def test_repeated_projection_of_benchmark_results_changes_nothing(stores: Stores) -> None:
    add(stores, *training_entry("a", 30.0, 8), *training_entry("b", 20.0, 16))
    with stores.engine.connect() as connection:
        entries = connection.execute(sqlalchemy.text("SELECT kind, key FROM outbox")).all()
    project(stores)
    before = verified(stores).kinds
    with stores.engine.begin() as connection:
        # In the wrong order, each needs what comes after it.
        for kind, key in reversed(entries):
            connection.execute(
                sqlalchemy.text("INSERT INTO outbox (kind, key) VALUES (:kind, :key)"),
                {"kind": kind, "key": key},
            )
    project(stores, batch=1)
    assert verified(stores).kinds == before
    assert lag(stores.engine).count == 0
