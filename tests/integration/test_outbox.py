"""The outbox: order, late commits, failures and several projectors at once."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import neo4j
import pytest
from neo4j.exceptions import ClientError
from sqlalchemy import Connection, insert, text

from graph.engine import Stores
from graph.projection import catch_up, lag
from graph.projection.outbox import PROJECTED, ProjectedKind, Projector, only_projector
from graph.projection.sync import enqueue_everything
from graph.record.releases import ReleaseDelivery, add_releases
from graph.snapshot_reader import is_current, load_snapshot
from graph.tables import OutboxEntry
from model.errors import ProjectionFailed, SchemaMismatch, StoreUnavailable
from model.packages.environments import environment
from model.packages.releases import Release
from model.packages.snapshot import Snapshot
from tests.factories.releases import release
from tests.factories.rows import Rows, entries_of, inspection_rows, store
from tests.services.projection import project, verified
from tests.services.threads import in_threads

LINUX = environment("3.11", "manylinux_2_28_x86_64")
PURL = {"it": "pkg:pypi/flask@1"}


@pytest.fixture
def rows(stores: Stores) -> Rows:
    rows = inspection_rows(15)
    store(stores.engine, rows)
    return rows


def test_projecting_an_inspection_also_projects_its_packages_and_stack(stores: Stores) -> None:
    rows = inspection_rows(20, stacks=1, machines=1)
    # No inspection brings what is known of packages besides its own, native interfaces or advice.
    apart = {"inspection", "package", "vulnerability", "artifact", "native_environment", "advice"}
    only = [entry for entry in entries_of(rows) if entry["kind"] in apart]
    store(stores.engine, rows, only)
    project(stores)
    assert verified(stores).equal


def test_failed_projection_keeps_its_outbox_entries(
    stores: Stores, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    pending = lag(stores.engine).count
    with monkeypatch.context() as patch:
        patch.setitem(PROJECTED, "inspection", ProjectedKind(None, broken))
        with pytest.raises(KeyboardInterrupt):
            project(stores)
    assert lag(stores.engine).count == pending
    project(stores)
    assert verified(stores).equal


def test_outbox_entry_of_a_late_commit_is_projected(stores: Stores) -> None:
    rows = inspection_rows(10)
    entries = entries_of(rows)
    store(stores.engine, rows, entries[5:])
    with stores.engine.connect() as late:
        late.execute(insert(OutboxEntry), entries[:5])
        with stores.engine.begin() as other:
            other.execute(insert(OutboxEntry), [{"kind": "stack", "key": "sha256:gone"}])
        project(stores)
        late.commit()
    assert lag(stores.engine).count == 5
    assert project(stores).entries == 5
    assert verified(stores).equal


def test_only_one_projection_runs_at_a_time(stores: Stores, rows: Rows) -> None:
    with only_projector(stores.engine, 1.0), pytest.raises(StoreUnavailable):
        project(stores, wait_s=0.2)
    assert project(stores).entries == len(entries_of(rows))


def test_concurrent_projections_wait_for_each_other(stores: Stores, rows: Rows) -> None:
    done: list[int] = []
    in_threads(*[lambda: done.append(project(stores, batch=5).entries)] * 3)
    assert sum(done) == len(entries_of(rows))
    assert verified(stores).equal


def test_catching_up_stops_at_its_time_limit_and_reports_pending_entries(
    stores: Stores, rows: Rows
) -> None:
    def left(within_s: float) -> int:
        return catch_up(
            stores.engine,
            stores.driver,
            within_s=within_s,
            batch=5,
            progress=lambda _done, _total: None,
            database=stores.database,
        ).count

    with only_projector(stores.engine, 1.0):
        assert left(0.0) == len(entries_of(rows))
    assert left(0.0) == len(entries_of(rows)) - 5
    assert left(600.0) == 0
    assert verified(stores).equal


def test_outbox_entry_of_a_newer_version_is_refused_and_kept(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        connection.execute(insert(OutboxEntry), [{"kind": "forecast", "key": "1"}])
    with pytest.raises(SchemaMismatch):
        project(stores)
    assert lag(stores.engine).count == 1


@pytest.fixture
def flask(stores: Stores) -> Snapshot:
    """Flask 1 as the graph shows it."""
    deliver(stores, release("flask", "1", ["click"]))
    project(stores)
    return frozen_flask(stores)


def test_snapshot_is_outdated_as_soon_as_the_graph_differs(stores: Stores, flask: Snapshot) -> None:
    deliver(stores, release("flask", "1", ["click", "jinja2"]), release("flask", "2"), day=1)
    seen: list[tuple[bool, bool]] = []

    def look(_done: int, _total: int) -> None:
        same = frozen_flask(stores).revision == flask.revision
        seen.append((same, is_current(stores.driver, flask, database=stores.database)))

    project(stores, batch=1, progress=look)
    assert (False, False) in seen
    assert (False, True) not in seen
    assert verified(stores).equal


def test_snapshot_is_outdated_when_a_severity_changes(stores: Stores, flask: Snapshot) -> None:
    with stores.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO vulnerabilities (vulnerability_id, aliases, severity, document_id)"
                " SELECT 'CVE-1', '{}', 'LOW', min(document_id) FROM documents"
            )
        )
        connection.execute(text("INSERT INTO affected_versions VALUES ('CVE-1', :it)"), PURL)
        connection.execute(insert(OutboxEntry), [{"kind": "package_version", "key": PURL["it"]}])
    project(stores)
    before = frozen_flask(stores)
    with stores.engine.begin() as connection:
        connection.execute(text("UPDATE vulnerabilities SET severity = 'HIGH'"))
        connection.execute(insert(OutboxEntry), [{"kind": "vulnerability", "key": "CVE-1"}])
    seen: list[bool] = []

    def look(_done: int, _total: int) -> None:
        seen.append(is_current(stores.driver, before, database=stores.database))

    project(stores, batch=1, progress=look)
    assert seen[0] is False
    assert verified(stores).equal


def test_package_revision_changes_after_all_its_versions_are_projected(
    stores: Stores, flask: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(stores, release("flask", "1", ["click", "jinja2"]), release("other", "1"), day=1)
    following = PROJECTED["package_version"].project

    def refuse(connection: Connection, session: neo4j.Session, keys: Sequence[str]) -> None:
        if PURL["it"] in keys:
            raise ClientError("too large")
        following(connection, session, keys)

    with monkeypatch.context() as patch:
        patch.setitem(PROJECTED, "package_version", ProjectedKind(None, refuse))
        with pytest.raises(ProjectionFailed, match="flask"):
            project(stores)
    assert waiting(stores) == {("package", "flask"), ("package_version", PURL["it"])}
    between = frozen_flask(stores)
    project(stores)
    assert frozen_flask(stores).revision != between.revision
    assert not is_current(stores.driver, between, database=stores.database)
    assert verified(stores).equal


def test_graph_rebuild_requested_during_a_projection_runs_afterwards(
    stores: Stores, flask: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(stores, release("other", "1"))
    following = PROJECTED["package"].project
    asked: list[int] = []

    def ask_for_rebuild(
        connection: Connection, session: neo4j.Session, keys: Sequence[str]
    ) -> None:
        if not asked:
            asked.append(1)
            with stores.engine.begin() as other:
                enqueue_everything(other)
        following(connection, session, keys)

    monkeypatch.setitem(PROJECTED, "package", ProjectedKind(None, ask_for_rebuild))
    project(stores)
    assert waiting(stores) == set()
    assert verified(stores).equal


def test_packages_are_projected_although_writers_never_pause(
    stores: Stores, flask: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    following = {kind: it.project for kind, it in PROJECTED.items()}

    def watch(kind: str) -> Projector:
        def project_some(
            connection: Connection, session: neo4j.Session, keys: Sequence[str]
        ) -> None:
            following[kind](connection, session, keys)
            order.append(kind)
            if kind == "package_version" and order.count(kind) < 6:
                deliver(stores, release(f"other-{order.count(kind)}", "1"))

        return project_some

    for kind in ("package", "package_version"):
        monkeypatch.setitem(PROJECTED, kind, ProjectedKind(None, watch(kind)))
    deliver(stores, release("other-0", "1"))
    project(stores)
    assert order.index("package") == 1
    assert verified(stores).equal


def deliver(stores: Stores, *releases: Release, day: int = 0) -> None:
    as_of = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    with stores.engine.begin() as connection:
        deliveries = [ReleaseDelivery(it, "memory://", as_of) for it in releases]
        add_releases(connection, stores.settings, deliveries)


def frozen_flask(stores: Stores) -> Snapshot:
    return load_snapshot(stores.driver, ["flask"], LINUX, database=stores.database)


def waiting(stores: Stores) -> set[tuple[str, str]]:
    with stores.engine.connect() as connection:
        rows = connection.execute(text("SELECT kind, key FROM outbox"))
        return {(row.kind, row.key) for row in rows}
