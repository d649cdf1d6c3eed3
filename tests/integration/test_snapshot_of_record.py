"""Snapshots of what was recorded and projected: what changes their revision, and a real dump."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import neo4j
import pytest
import sqlalchemy

from common.settings import Settings
from graph.engine import Stores
from graph.record.releases import ReleaseDelivery, add_releases
from graph.snapshot_reader import is_current, load_snapshot
from ingest.releases.parsing import release_of
from model.packages.environments import environment
from model.packages.releases import Release
from model.packages.snapshot import Snapshot
from tests.factories.naive_closure import naive_closure
from tests.factories.releases import release, wheel_of
from tests.services.commands import thoth, thoth_json
from tests.services.fixtures import embedded_only
from tests.services.projection import project

LINUX = environment("3.11", "manylinux_2_28_x86_64")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

DUMP = Path(__file__).parents[3] / "shared" / "data" / "pypi-closure" / "pypi-closure.jsonl.gz"
ROOTS = ("tensorflow-cpu", "flask", "pandas", "scikit-learn")

#: What another resolver locked for five requests, from all releases of the day of the dump.
RESOLUTIONS = Path(__file__).parents[1] / "data" / "resolutions" / "uv-cp311-linux.json"
#: Versions that it chose and the dump does not have: one is newer, one beyond its depth.
NOT_IN_THE_DUMP = {"narwhals==2.29.0", "pandas==1.5.3"}


@pytest.fixture
def stores(
    settings: Settings,
    relational: sqlalchemy.Engine,
    graph_settings: Settings,
    graph_driver: neo4j.Driver,
) -> Stores:
    """A test's own record, and each graph product in turn."""
    both = replace(graph_settings, database_url=settings.database_url)
    return Stores(both, relational, graph_driver)


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


def test_what_was_recorded_is_in_the_snapshot(stores: Stores, known: Snapshot) -> None:
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


def on_products(cases: list[Sequence[Release]]) -> pytest.MarkDecorator:
    """Each case on the embedded graph, and the first on Neo4j: what is written is one Cypher."""
    on = [*(("arcadedb", case) for case in cases), ("neo4j", cases[0])]
    return pytest.mark.parametrize(("graph_settings", "releases"), on, indirect=["graph_settings"])


@on_products(SAME)
def test_what_changes_no_answer_changes_no_revision(
    stores: Stores, known: Snapshot, releases: Sequence[Release]
) -> None:
    deliver(stores, releases, NOW + timedelta(days=1))
    assert current(stores, known)
    assert snapshot(stores, "web").revision == known.revision


@on_products(OTHER)
def test_what_changes_an_answer_changes_the_revision(
    stores: Stores, known: Snapshot, releases: Sequence[Release]
) -> None:
    deliver(stores, releases, NOW + timedelta(days=1))
    assert not current(stores, known)
    assert snapshot(stores, "web").revision != known.revision


def test_the_command_shows_the_closure(stores: Stores, known: Snapshot) -> None:
    there = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")
    told = thoth_json(stores.settings, "packages", "closure", "web", *there)
    assert told["revision"] == known.revision
    assert told["missing"] == ["gone"]
    assert [(it["name"], it["layer"], it["candidates"]) for it in told["packages"]] == [
        ("core", 2, ["1"]), ("web", 1, ["2", "1"]),
    ]  # fmt: skip
    shown = thoth(stores.settings, "packages", "closure", "web[dev]", *there)
    assert shown.returncode == 0, shown.stderr
    assert "missing: tool, and nothing is known about it" in shown.stdout
    assert "2 packages in 3 layers" in shown.stdout


@embedded_only
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nothing-like-it",), 1),
        (("web>>1",), 2),
        (("web", "--python", "four"), 2),
        (("web", "--platform", "amiga"), 2),
    ],
)
def test_the_command_ends_with_a_code(
    stores: Stores, known: Snapshot, arguments: tuple[str, ...], code: int
) -> None:
    done = thoth(stores.settings, "packages", "closure", *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def dump(stores: Stores) -> Stores:
    """The stores with a real closure in them."""
    if not DUMP.exists():
        pytest.skip("the metadata dump is not on this machine")
    with gzip.open(DUMP, "rb") as lines:
        deliver(stores, [release_of(json.loads(line)) for line in lines])
    return stores


def test_a_real_closure_is_that_of_one_question_a_package(dump: Stores) -> None:
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


def test_every_package_that_another_resolver_used_is_in_the_snapshot(dump: Stores) -> None:
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
