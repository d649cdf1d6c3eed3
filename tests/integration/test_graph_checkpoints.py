"""A graph that was not projected from this record: PostgreSQL restored, the graph emptied."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.engine import make_url

from cli.graph import cypher
from cli.service import ensure_stores
from graph.checkpoints import stores_agree
from graph.engine import Stores, relational_engine
from graph.migrate import migrated_stores
from graph.projection import rebuild, sync_few
from graph.projection.outbox import PROJECTED, ProjectedKind
from graph.record.access import Scope
from graph.record.releases import ReleaseDelivery, add_releases
from model.errors import GraphMismatch, SchemaMismatch
from tests.factories.releases import release
from tests.services.commands import run_here, thoth, thoth_json
from tests.services.databases import new_database
from tests.services.fixtures import EMPTY, embedded_only
from tests.services.jobs import client_of, jobs_in, run_jobs
from tests.services.ports import closed_port
from tests.services.projection import DELIVERED, answer, project, verified

pytestmark = pytest.mark.faults


@pytest.fixture
def stores(stores_on_each_product: Stores) -> Stores:
    """A record that is projected to each graph product in turn."""
    settings = replace(stores_on_each_product.settings, graph_rebuild=False)
    stores = replace(stores_on_each_product, settings=settings)
    record(stores, "package-1")
    project(stores)
    return stores


def record(stores: Stores, name: str) -> None:
    """Store a release, which is projected later."""
    with stores.engine.begin() as connection:
        delivery = ReleaseDelivery(release(name), "test", DELIVERED)
        add_releases(connection, stores.settings, [delivery])


@contextmanager
def restored(
    stores: Stores, owner: sqlalchemy.Engine, *, graph_rebuild: bool = False
) -> Iterator[Stores]:
    """The stores with a backup of PostgreSQL, from which more was projected afterwards."""
    stores.engine.dispose()  # a database with a connection to it cannot be copied
    name = make_url(stores.settings.database_url or "").database or ""
    with new_database(owner, stores.settings, template=name) as settings:
        record(stores, "package-2")
        project(stores)
        engine = relational_engine(settings)
        try:
            yield Stores(replace(settings, graph_rebuild=graph_rebuild), engine, stores.driver)
        finally:
            engine.dispose()


def broken(*_: object) -> None:
    raise KeyboardInterrupt


def test_graph_newer_than_a_restored_record_is_refused(
    stores: Stores, postgresql: sqlalchemy.Engine
) -> None:
    assert stores_agree(stores)
    with restored(stores, postgresql) as older:
        assert not stores_agree(older)
        with pytest.raises(GraphMismatch):
            project(older)
        # New rows do not hide it.
        record(older, "package-3")
        with pytest.raises(GraphMismatch):
            project(older)
        assert not sync_few(older.engine, older.driver, most=10_000, database=older.database)
        report = verified(older)
        assert not report.own_graph
        assert not report.equal
        rebuild(older.engine, older.driver, database=older.database)
        assert stores_agree(older)
        assert verified(older).equal
        # Now the graph belongs to the restored record, and not to the other one.
        assert not stores_agree(stores)


def test_query_on_a_graph_of_another_record_is_refused(
    stores: Stores, postgresql: sqlalchemy.Engine
) -> None:
    count = ("MATCH (p:Package) RETURN count(p) AS n", "--format", "json")
    with restored(stores, postgresql) as older:
        refused = run_here(cypher, replace(older.settings, graph_rebuild=False), *count)
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert "not projected from this record" in refused.stderr
        answered = run_here(cypher, replace(older.settings, graph_rebuild=True), *count)
        assert answered.exit_code == 0, answered.stderr
        document = json.loads(answered.stdout)
        assert (document["rows"], document["warnings"]) == ([{"n": 1}], [])
    away = replace(stores.settings, database_url=f"postgresql://127.0.0.1:{closed_port()}/none")
    unknown = run_here(cypher, away, *count)
    (warning,) = json.loads(unknown.stdout)["warnings"]
    assert "PostgreSQL" in warning
    assert warning in unknown.stderr


def test_emptied_graph_is_not_accepted_as_current(stores: Stores) -> None:
    assert project(stores).entries == 0
    answer(stores, EMPTY)
    assert not stores_agree(stores)
    with pytest.raises(GraphMismatch):
        project(stores)
    project(stores, may_rebuild=True)
    assert verified(stores).equal


def test_graph_that_lost_transactions_is_not_accepted_as_current(stores: Stores) -> None:
    query = "MATCH (node:ProjectionCheckpoint) RETURN node.batch"
    ((before,),) = answer(stores, query)
    record(stores, "package-2")
    project(stores)
    # As after the first of the two writes of the last batch.
    answer(stores, "MATCH (node:ProjectionCheckpoint) SET node.finished = false")
    assert not stores_agree(stores)
    answer(stores, "MATCH (node:ProjectionCheckpoint) SET node.finished = true, node.batch = $it",
           it=before)  # fmt: skip
    assert not stores_agree(stores)


@embedded_only
@pytest.mark.parametrize(
    "at", ["graph.checkpoints._FINISH", "graph.projection.outbox._DELETE", "in the batch"]
)
def test_graph_matches_the_record_after_an_interrupted_batch(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    record(stores, "package-2")
    for _ in range(2):
        with monkeypatch.context() as patch:
            if at == "in the batch":
                patch.setitem(PROJECTED, "package_version", ProjectedKind(None, broken))
            else:
                query = "SELECT no_such_column FROM outbox"
                patch.setattr(at, query if "FINISH" in at else text(query))
            with pytest.raises((KeyboardInterrupt, SchemaMismatch)):
                project(stores)
        assert stores_agree(stores)
    project(stores)
    assert stores_agree(stores)
    assert verified(stores).equal


@embedded_only
def test_later_graph_is_refused_for_a_backup_taken_during_a_projection(
    stores: Stores, postgresql: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(stores, "package-3")
    with monkeypatch.context() as patch:
        patch.setitem(PROJECTED, "package_version", ProjectedKind(None, broken))
        with pytest.raises(KeyboardInterrupt):
            project(stores)
    with restored(stores, postgresql) as older:
        assert not stores_agree(older)


@embedded_only
def test_foreign_graph_stays_refused_after_an_interrupted_rebuild(
    stores: Stores, postgresql: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restored(stores, postgresql) as older:
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr("graph.projection.outbox._delete_some", broken)
                with pytest.raises(KeyboardInterrupt):
                    project(older, may_rebuild=True)
            assert not stores_agree(older)
        project(older)
        assert verified(older).equal


@embedded_only
def test_commands_report_a_foreign_graph_and_rebuild_it(
    stores: Stores, postgresql: sqlalchemy.Engine
) -> None:
    with restored(stores, postgresql) as older:
        (graph,) = (
            it for it in thoth_json(older.settings, "status")["stores"] if "graph" in it["name"]
        )
        assert "not projected from this record" in graph["problem"]
        assert "`thoth graph rebuild`" in graph["hint"]
        asked = thoth(
            older.settings, "cypher", "MATCH (s:Stack) RETURN count(s)", GRAPH_REBUILD="0"
        )
        assert asked.returncode == 3
        assert "not projected from this record" in asked.stderr
        synced = thoth(older.settings, "graph", "sync", GRAPH_REBUILD="0")
        assert synced.returncode == 3
        assert "`thoth graph rebuild`" in synced.stderr
        compared = thoth(older.settings, "graph", "verify", GRAPH_REBUILD="0")
        assert compared.returncode == 1
        assert "not projected from this record" in compared.stdout
        with pytest.raises(GraphMismatch), migrated_stores(older.settings):
            pass
        night = {"INGEST_SOURCES": "samples/inspections.tar.gz"}
        refused = thoth(older.settings, "ingest", "nightly", GRAPH_REBUILD="0", **night)
        assert refused.returncode == 1
        assert "not projected from this record" in refused.stderr
        # The embedded graph is built again by default.
        asked = thoth(
            older.settings, "ingest", "nightly", INGEST_SOURCES="samples/inspections.tar.gz"
        )
        assert asked.returncode == 0
        assert thoth(older.settings, "graph", "verify").returncode == 0


@embedded_only
def test_service_reports_a_foreign_graph_and_workers_rebuild_it(
    stores: Stores, postgresql: sqlalchemy.Engine
) -> None:
    query = {"query": "MATCH (s:Stack) RETURN count(s) AS stacks"}
    with restored(stores, postgresql) as older:
        with client_of(older.settings, Scope.CYPHER, Scope.ADVISE) as client:
            health = client.get("/readyz")
            assert (health.status_code, health.json["status"]) == (200, "degraded")
            assert "`thoth graph rebuild`" in health.json["checks"]["graph"]["problem"]
            assert client.post("/api/v2/cypher", json=query).status_code == 503
            # Without the permission to rebuild it, requests wait for the operator.
            ensure_stores(older.settings)
            assert jobs_in(older.engine) == []
        able = replace(older.settings, graph_rebuild=True)
        with client_of(able, Scope.CYPHER, Scope.ADVISE) as client:
            ensure_stores(able)
            assert jobs_in(older.engine) == [("graph.project", "todo")]
            run_jobs(able)
            assert client.get("/readyz").json["checks"]["graph"]["status"] == "up"
            assert client.post("/api/v2/cypher", json=query).status_code == 200
        assert verified(older).equal
