"""Snapshots of small worlds, read from both graph products."""

from __future__ import annotations

from dataclasses import replace

import neo4j
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from common.settings import Settings
from graph.engine import graph_database
from graph.snapshot_reader import (
    PACKAGES,
    REVISIONS,
    VULNERABILITIES,
    freeze,
    is_current,
    load_packages,
    load_snapshot,
    walk,
)
from model.errors import StoreUnavailable
from model.packages.candidate_builder import roots_of
from model.packages.environments import environment
from model.packages.snapshot import Snapshot
from tests.effort import examples
from tests.factories.drawn_worlds import requests, worlds
from tests.factories.naive_closure import Naive, naive_closure
from tests.factories.worlds import Made, World, fill, reader_of, world_of
from tests.services.fixtures import empty

LINUX = environment("3.11", "manylinux_2_28_x86_64")

SMALL = (
    Made("web", "2", ("core[fast]>=1", "tool; extra == 'dev'"), extras=("dev",)),
    Made("web", "1", ("core",), uploaded_at=None),
    Made("web", "1", ("core",), index="builds", yanked=True, yanked_reason="broken"),
    Made("core", "1.0", ("speed; extra == 'fast'", "gone"), extras=("fast",),
         vulnerabilities=(("V-2", None, None), ("V-1", "high", 7.5))),
    Made("core", "0.9", state="unsolvable", problem="dynamic_metadata"),
    Made("speed", "3", wheels=("cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-win_amd64")),
    Made("tool", "1"),
    Made("other", "1", ("web",), vulnerabilities=(("V-1", "high", 7.5),)),
)  # fmt: skip


#: A release that comes in between.
GROW = """
MATCH (it:Package {name: 'web'}) SET it.revision = $version
CREATE (it)-[:HAS_VERSION]->(:PackageVersion {
  purl: $purl, name: 'web', version: $version, index: 'pypi', state: 'unread'})
"""


class Graph:
    """One product with a world in it."""

    def __init__(self, driver: neo4j.Driver, database: str) -> None:
        self.driver, self.database = driver, database

    def hold(self, world: World) -> None:
        empty(self.driver, self.database)
        fill(self.driver, self.database, world)

    def snapshot(self, *roots: str) -> Snapshot:
        return load_snapshot(self.driver, roots, LINUX, database=self.database)

    def naive(self, *roots: str) -> tuple[Naive, set[str]]:
        with self.driver.session(database=self.database) as session:
            return naive_closure(session, list(roots), LINUX)

    def is_current(self, snapshot: Snapshot) -> bool:
        return is_current(self.driver, snapshot, database=self.database)


@pytest.fixture
def graph(graph_driver: neo4j.Driver, graph_settings: Settings) -> Graph:
    return Graph(graph_driver, graph_database(graph_settings))


def as_naive(snapshot: Snapshot) -> tuple[Naive, set[str]]:
    return {
        name: {
            it.purl: {(d.name, d.specifier, d.extras, d.extra) for d in it.requires}
            for it in candidates
        }
        for name, candidates in snapshot.packages.items()
    }, set(snapshot.missing)


def test_a_small_world_is_read_whole(graph: Graph) -> None:
    graph.hold(SMALL)
    found = graph.snapshot("web")
    assert list(found.packages) == ["core", "speed", "web"]
    assert found.missing == ("gone",)
    assert found.layers == (("web",), ("core",), ("gone", "speed"))
    assert [(it.version, it.index, it.yanked_reason) for it in found.packages["web"]] == [
        ("2", "pypi", None), ("1", "builds", "broken"), ("1", "pypi", None),
    ]  # fmt: skip
    assert [it.reason.value for it in found.excluded["core"]] == ["unsolvable"]
    (core,) = found.packages["core"]
    assert [(it.id, it.severity, it.score) for it in core.vulnerabilities] == [
        ("V-1", "high", 7.5), ("V-2", None, None),
    ]  # fmt: skip
    assert core.uploaded_at is not None
    assert core.uploaded_at.isoformat() == "2024-05-01T10:00:00.123456+00:00"
    assert found.packages["web"][2].uploaded_at is None
    assert "tool" not in found.revisions


def test_a_world_in_memory_and_in_the_graph_give_the_same_snapshot(graph: Graph) -> None:
    world = [replace(made, vulnerabilities=()) for made in SMALL]
    graph.hold(world)
    roots = roots_of(["web[dev]"], LINUX)
    expected = freeze(walk(reader_of(world), roots, LINUX), {}, roots, LINUX)
    assert graph.snapshot("web[dev]") == expected


@hypothesis_settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(worlds, requests)
def test_a_snapshot_equals_a_closure_that_asks_for_one_package_at_a_time(
    graph: Graph, world: World, roots: list[str]
) -> None:
    graph.hold(world)
    assert as_naive(graph.snapshot(*roots)) == graph.naive(*roots)


@hypothesis_settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(worlds, requests, st.randoms(use_true_random=False))
def test_the_order_of_writing_leaves_no_trace(
    graph: Graph, world: World, roots: list[str], draw: st.DrawFn
) -> None:
    graph.hold(world)
    one = graph.snapshot(*roots)
    mixed = list(world), list(roots)
    for each in mixed:
        draw.shuffle(each)  # type: ignore[attr-defined]
    graph.hold(mixed[0])
    assert graph.snapshot(*mixed[1]).to_json() == one.to_json()


@pytest.fixture
def asked(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of the test after its chain of five packages was written."""
    chain = zip("abcd", "bcde", strict=True)
    graph.hold(world_of({name: {"1": [after]} for name, after in chain}))
    queries: list[str] = []
    run = neo4j.Transaction.run

    def counted(self: neo4j.Transaction, query: str, *args: object, **more: object) -> object:
        queries.append(query)
        return run(self, query, *args, **more)

    for kind in (neo4j.Transaction, neo4j.ManagedTransaction):
        monkeypatch.setattr(kind, "run", counted)
    return queries


def test_one_question_a_layer_and_two_for_all(graph: Graph, asked: list[str]) -> None:
    found = graph.snapshot("a")
    assert [len(layer) for layer in found.layers] == [1, 1, 1, 1, 1]
    assert [asked.count(query) for query in (PACKAGES, VULNERABILITIES, REVISIONS)] == [5, 1, 1]
    assert len(asked) == 7


def test_packages_alone_are_read_without_what_they_require(graph: Graph, asked: list[str]) -> None:
    snapshot = load_packages(graph.driver, ["a", "gone"], LINUX, database=graph.database)
    assert [it.version for it in snapshot.packages["a"]] == ["1"]
    assert list(snapshot.revisions) == ["a", "gone"]
    assert snapshot.missing == ("gone",)
    assert [asked.count(query) for query in (PACKAGES, VULNERABILITIES, REVISIONS)] == [1, 1, 1]


def test_a_long_reading_ends_before_its_next_query(graph: Graph, asked: list[str]) -> None:
    names = [f"package-{it}" for it in range(1_000)]

    def check_time() -> None:
        if len(asked) == 2:
            raise StoreUnavailable("the graph", "nobody waits", "")

    with pytest.raises(StoreUnavailable, match="nobody waits"):
        load_packages(graph.driver, names, LINUX, database=graph.database, check_time=check_time)
    assert asked == [PACKAGES] * 2


def test_whether_a_snapshot_is_current_is_seen_by_the_packages_in_it(graph: Graph) -> None:
    graph.hold(SMALL)
    found = graph.snapshot("web")
    assert graph.is_current(found)
    assert graph.is_current(Snapshot.from_json(found.to_json()))
    with graph.driver.session(database=graph.database) as session:
        session.run("MATCH (it:Package {name: 'other'}) SET it.revision = 'x'").consume()
        assert graph.is_current(found), "what is not in the closure does not matter"
        session.run("MATCH (it:Package {name: 'gone'}) SET it.revision = 'x'").consume()
        assert not graph.is_current(found), "a package that was missing is known"


def test_a_graph_that_changes_while_it_is_read_is_read_again(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graph import snapshot_reader as module

    graph.hold(SMALL)
    read, changes = module._packages, iter(("0.5", "0.6"))

    def disturbed(tx: neo4j.ManagedTransaction, wanted: object) -> object:
        records = read(tx, wanted)  # type: ignore[arg-type]
        if (version := next(changes, None)) is not None:
            with graph.driver.session(database=graph.database) as session:
                session.run(GROW, version=version, purl=Made("web", version).purl).consume()
        return records

    monkeypatch.setattr(module, "_packages", disturbed)
    found = graph.snapshot("web")
    assert [it.version for it in found.excluded["web"]] == ["0.6", "0.5"]
    assert graph.is_current(found)


def test_a_graph_that_never_rests_is_reported(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graph import snapshot_reader as module

    graph.hold(SMALL)
    monkeypatch.setattr(module, "_unchanged", lambda tx, snapshot: False)
    with pytest.raises(StoreUnavailable, match="changes faster"):
        graph.snapshot("web")


def test_an_empty_graph_knows_nothing(graph: Graph) -> None:
    empty(graph.driver, graph.database)
    found = graph.snapshot("web", "core")
    assert found.missing == ("core", "web")
    assert not found.packages
    assert graph.is_current(found)
