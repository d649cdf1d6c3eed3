"""Snapshots, read from both graph products: of small worlds, of a record, of a real dump."""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import neo4j
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from common.settings import Settings
from graph.engine import Stores, graph_database
from graph.record.releases import ReleaseDelivery, add_releases
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
from ingest.releases.parsing import release_of
from model.errors import StoreUnavailable
from model.packages.candidate_builder import roots_of
from model.packages.environments import environment
from model.packages.releases import Release
from model.packages.snapshot import Snapshot
from tests.effort import examples
from tests.factories.drawn_worlds import requests, worlds
from tests.factories.naive_closure import Naive, naive_closure
from tests.factories.releases import release, wheel_of
from tests.factories.worlds import Made, World, fill, reader_of, world_of
from tests.services.fixtures import empty
from tests.services.projection import project

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


def test_snapshot_contains_the_complete_dependency_closure(graph: Graph) -> None:
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


def test_snapshots_from_memory_and_graph_are_equal(graph: Graph) -> None:
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
def test_snapshot_equals_reading_package_by_package(
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
def test_snapshot_does_not_depend_on_the_order_of_writing(
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


def test_snapshot_takes_one_query_per_layer_and_two_more(graph: Graph, asked: list[str]) -> None:
    found = graph.snapshot("a")
    assert [len(layer) for layer in found.layers] == [1, 1, 1, 1, 1]
    assert [asked.count(query) for query in (PACKAGES, VULNERABILITIES, REVISIONS)] == [5, 1, 1]
    assert len(asked) == 7


def test_packages_can_be_read_without_their_requirements(graph: Graph, asked: list[str]) -> None:
    snapshot = load_packages(graph.driver, ["a", "gone"], LINUX, database=graph.database)
    assert [it.version for it in snapshot.packages["a"]] == ["1"]
    assert list(snapshot.revisions) == ["a", "gone"]
    assert snapshot.missing == ("gone",)
    assert [asked.count(query) for query in (PACKAGES, VULNERABILITIES, REVISIONS)] == [1, 1, 1]


def test_snapshot_read_obeys_a_time_limit(graph: Graph, asked: list[str]) -> None:
    names = [f"package-{it}" for it in range(1_000)]

    def check_time() -> None:
        if len(asked) == 2:
            raise StoreUnavailable("the graph", "nobody waits", "")

    with pytest.raises(StoreUnavailable):
        load_packages(graph.driver, names, LINUX, database=graph.database, check_time=check_time)
    assert asked == [PACKAGES] * 2


def test_snapshot_is_outdated_once_one_of_its_packages_changes(graph: Graph) -> None:
    graph.hold(SMALL)
    found = graph.snapshot("web")
    assert graph.is_current(found)
    assert graph.is_current(Snapshot.from_json(found.to_json()))
    with graph.driver.session(database=graph.database) as session:
        session.run("MATCH (it:Package {name: 'other'}) SET it.revision = 'x'").consume()
        assert graph.is_current(found), "what is not in the closure does not matter"
        session.run("MATCH (it:Package {name: 'gone'}) SET it.revision = 'x'").consume()
        assert not graph.is_current(found), "a package that was missing is known"


def test_snapshot_is_read_again_if_the_graph_changes_during_the_read(
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


def test_snapshot_of_a_constantly_changing_graph_is_an_error(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graph import snapshot_reader as module

    graph.hold(SMALL)
    monkeypatch.setattr(module, "_unchanged", lambda tx, snapshot: False)
    with pytest.raises(StoreUnavailable):
        graph.snapshot("web")


def test_snapshot_of_an_empty_graph_lists_its_packages_as_missing(graph: Graph) -> None:
    empty(graph.driver, graph.database)
    found = graph.snapshot("web", "core")
    assert found.missing == ("core", "web")
    assert not found.packages
    assert graph.is_current(found)


NOW = datetime(2026, 1, 1, tzinfo=UTC)

DUMP = Path(__file__).parents[3] / "shared" / "data" / "pypi-closure" / "pypi-closure.jsonl.gz"
ROOTS = ("tensorflow-cpu", "flask", "pandas", "scikit-learn")

#: What another resolver locked for five requests, from all releases of the day of the dump.
RESOLUTIONS = Path(__file__).parents[1] / "data" / "resolutions" / "uv-cp311-linux.json"
#: Versions that it chose and the dump does not have: one is newer, one beyond its depth.
NOT_IN_THE_DUMP = {"narwhals==2.29.0", "pandas==1.5.3"}


@pytest.fixture
def stores(stores_on_each_product: Stores) -> Stores:
    return stores_on_each_product


def deliver(stores: Stores, releases: Iterable[Release], as_of: datetime = NOW) -> None:
    deliveries = [ReleaseDelivery(it, "test", as_of) for it in releases]
    for first in range(0, len(deliveries), 500):
        with stores.engine.begin() as connection:
            add_releases(connection, stores.settings, deliveries[first : first + 500])
    project(stores)


def snapshot(stores: Stores, *roots: str) -> Snapshot:
    return load_snapshot(stores.driver, roots, LINUX, database=stores.database)


def current(stores: Stores, found: Snapshot) -> bool:
    return is_current(stores.driver, found, database=stores.database)


@pytest.fixture
def known(stores: Stores) -> Snapshot:
    """A recorded closure of three packages, one of them without releases, and one beside it."""
    deliver(
        stores,
        [
            release("web", "2", ["core>=1"]),
            release("web", "1", ["core", "tool; extra == 'dev'"], provides_extra=["dev"]),
            release("core", "1", ["gone"]),
            release("other", "1", ["web"]),
        ],
    )
    return snapshot(stores, "web")


def test_recorded_releases_are_in_the_snapshot(stores: Stores, known: Snapshot) -> None:
    assert {name: len(it) for name, it in known.packages.items()} == {"core": 1, "web": 2}
    assert known.missing == ("gone",)
    newest = known.packages["web"][0]
    assert [(it.name, it.specifier) for it in newest.requires] == [("core", ">=1")]
    assert newest.wheel_rank is not None
    assert newest.requires_python == ">=3.8"
    assert newest.uploaded_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert current(stores, known)


SAME: list[Sequence[Release]] = [
    (release("web", "2", ["core>=1"]),),
    (release("other", "2", ["core", "web<2"]),),
    (release("web", "2", ["core>=1"], license="BSD"),),
]
OTHER: list[Sequence[Release]] = [
    (release("web", "3", ["core>=1"]),),
    (release("web", "2", ["core>=2"]),),
    (release("web", "2", ["core>=1"], yanked=True),),
    (release("web", "2", ["core>=1"], requires_python=">=3.12"),),
    (release("web", "2", ["core>=1"], files=[wheel_of("web", "2", "cp311-cp311-win_amd64")]),),
    (release("gone", "1"),),
    (release("web", "2", ["core>=1"], index="builds"),),
    (release("web", "1.5", None),),
]


def test_irrelevant_deliveries_keep_the_snapshot_revision(stores: Stores, known: Snapshot) -> None:
    for day, releases in enumerate(SAME, 1):
        deliver(stores, releases, NOW + timedelta(days=day))
        assert current(stores, known), releases
        assert snapshot(stores, "web").revision == known.revision, releases


def test_relevant_deliveries_change_the_snapshot_revision(stores: Stores, known: Snapshot) -> None:
    before = known
    for day, releases in enumerate(OTHER, 1):
        deliver(stores, releases, NOW + timedelta(days=day))
        assert not current(stores, before), releases
        after = snapshot(stores, "web")
        assert after.revision != before.revision, releases
        before = after


@pytest.fixture
def dump(stores: Stores) -> Stores:
    """The stores with a real closure in them."""
    if not DUMP.exists():
        pytest.skip("the metadata dump is not on this machine")
    with gzip.open(DUMP, "rb") as lines:
        deliver(stores, [release_of(json.loads(line)) for line in lines])
    return stores


def test_snapshot_of_real_packages_equals_reading_package_by_package(dump: Stores) -> None:
    found = snapshot(dump, *ROOTS)
    assert (len(found.packages), found.candidate_count, len(found.layers)) == (71, 1072, 6)
    assert found.missing == ("tf-keras-nightly",)
    with dump.driver.session(database=dump.database) as session:
        naive, missing = naive_closure(session, list(ROOTS), LINUX)
    assert missing == set(found.missing)
    assert {name: {it.purl for it in some} for name, some in found.packages.items()} == {
        name: set(versions) for name, versions in naive.items()
    }
    for candidate in (it for some in found.packages.values() for it in some):
        required = {(it.name, it.specifier, it.extras, it.extra) for it in candidate.requires}
        assert required == naive[candidate.name][candidate.purl], candidate.purl
    assert Snapshot.from_json(found.to_json()) == found


def test_snapshot_contains_every_package_locked_by_other_resolvers(dump: Stores) -> None:
    resolutions = json.loads(RESOLUTIONS.read_text(encoding="utf-8"))["resolutions"]
    assert len(resolutions) == 5
    absent = set()
    for resolution in resolutions:
        found = snapshot(dump, *resolution["requirements"])
        names = {pin.partition("==")[0] for pin in resolution["locked"]}
        assert names <= found.packages.keys(), resolution["requirements"]
        candidates = {f"{it.name}=={it.version}" for some in found.packages.values() for it in some}
        absent |= set(resolution["locked"]) - candidates
    assert absent == NOT_IN_THE_DUMP
