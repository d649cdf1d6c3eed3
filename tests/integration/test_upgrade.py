"""Stores of an earlier release are upgraded with their data, while other processes read them."""

import base64
import gzip
import json
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import neo4j
import pytest
import sqlalchemy
from alembic import command
from sqlalchemy import event, text

from api.app import create_app
from api.store_access import EXTENSION
from graph import migrate
from graph.engine import Stores
from graph.migrate import alembic_config, migrate_relational, relational_state
from graph.verification.run import verify_record
from model.errors import StoreUnavailable
from tests.services.projection import answer, project, verified
from tests.services.unmigrated import replace_steps
from tests.services.waiting import wait_until

_FOLDER = Path(__file__).parent.parent / "data" / "upgrades"
_STEPS = "SchemaMigration"

_ADD_NODES = "UNWIND $rows AS row CREATE (n:%s) SET n = row.properties, n.upgrade_id = row.id"
_ADD_EDGES = """
UNWIND $rows AS row
MATCH (a:%s {upgrade_id: row.start}), (b:%s {upgrade_id: row.end})
CREATE (a)-[e:%s]->(b) SET e = row.properties
"""
_END = "MATCH (n:%s) REMOVE n.upgrade_id"


def fill_as(stores: Stores, version: str) -> str:
    """Bring stores without a schema to the state that a release left them in.

    :returns: the revision of PostgreSQL in that release
    """
    data = json.loads(gzip.decompress((_FOLDER / f"{version}.json.gz").read_bytes()))
    with stores.engine.begin() as connection:
        command.upgrade(alembic_config(connection), data["revision"])
        _fill_tables(connection, data["tables"])
    _fill_graph(stores, data["nodes"], data["edges"])
    return str(data["revision"])


def reads_of(version: str) -> list[str]:
    """The statements, with their values, that the routes of a release sent for these rows."""
    statements: list[str] = json.loads((_FOLDER / f"{version}-reads.json").read_text("utf-8"))
    return statements


def _fill_tables(connection: sqlalchemy.Connection, rows: dict[str, list[dict[str, Any]]]) -> None:
    tables = sqlalchemy.MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        if table.name not in rows:
            continue
        connection.execute(table.delete())
        values = [
            {name: _python_value(value) for name, value in row.items()} for row in rows[table.name]
        ]
        connection.execute(table.insert(), values)
        for column in table.columns:
            if column.identity is not None:
                last = max(row[column.name] for row in rows[table.name])
                query = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
                names = {"table": table.name, "column": column.name}
                connection.execute(query, {**names, "last": last})


def _fill_graph(
    stores: Stores,
    nodes: list[tuple[list[str], dict[str, Any]]],
    edges: list[tuple[int, str, int, dict[str, Any]]],
) -> None:
    by_label: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, ((label,), properties) in enumerate(nodes):
        row = {name: _python_value(value) for name, value in properties.items()}
        by_label[label].append({"id": number, "properties": row})
    by_type: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for start, kind, end, properties in edges:
        row = {name: _python_value(value) for name, value in properties.items()}
        ends = nodes[start][0][0], nodes[end][0][0]
        by_type[*ends, kind].append({"start": start, "end": end, "properties": row})
    replace_steps(stores.driver, stores.database, [it["properties"] for it in by_label.pop(_STEPS)])
    with stores.driver.session(database=stores.database) as session:
        for label, rows in by_label.items():
            session.run(_ADD_NODES % label, rows=rows).consume()
        for names, rows in by_type.items():
            session.run(_ADD_EDGES % names, rows=rows).consume()
        for label in by_label:
            session.run(_END % label).consume()


def _python_value(value: Any) -> Any:
    """Bytes and times of the graph, which are objects in the file."""
    if not isinstance(value, dict):
        return value
    if value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    if value.keys() == {"time"}:
        return neo4j.time.DateTime.from_native(datetime.fromisoformat(value["time"]))
    return value


#: Data of rows and of the graph of each release that can be upgraded.
RELEASES = ("0.2.0",)

_COUNTS = {
    "documents": 109, "inspections": 22, "observations": 203, "package_versions": 175,
    "requirements": 291, "release_files": 1342, "advisories": 1, "advice": 1, "claims": 10,
    "analyses": 1, "tokens": 2, "audit_log": 1,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_stores_of_earlier_releases_are_migrated_with_their_data(
    graph: neo4j.Driver, empty: Stores, version: str
) -> None:
    revision = fill_as(empty, version)
    before, after = migrate.migrate(empty), migrate.states(empty)
    assert [state.current for state in before] == [revision, "0008"]
    assert [state.pending for state in after] == [(), ()]
    with empty.engine.connect() as connection:
        command.check(alembic_config(connection))
        kept = {name: connection.scalar(text(f"SELECT count(*) FROM {name}")) for name in _COUNTS}
    assert kept == _COUNTS
    project(empty)
    assert verified(empty).equal
    report = verify_record(empty.settings, empty.engine)
    assert report.differences == []
    assert report.equal
    assert report.complete
    assert verified(empty).equal
    claims = answer(empty, "MATCH (:Advice)-[:CLAIMS]->(c:Claim) RETURN count(c)")
    assert claims == [[10]]


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_queries_of_an_earlier_release_work_after_the_migration(
    graph: neo4j.Driver, empty: Stores, version: str
) -> None:
    """Servers of that release answer until they are replaced."""
    fill_as(empty, version)
    before = _rows(empty, reads_of(version))
    assert sum(map(bool, before)) > 40
    migrate_relational(empty.engine)
    assert _rows(empty, reads_of(version)) == before


def _rows(stores: Stores, statements: list[str]) -> list[list[str]]:
    """The rows of each statement, in any order, with binary values as bytes."""
    with stores.engine.connect() as connection:
        results = [connection.execute(text(it.replace(":", r"\:"))).all() for it in statements]
    return [
        sorted(
            repr([bytes(it) if isinstance(it, memoryview) else it for it in row]) for row in rows
        )
        for rows in results
    ]


#: What a server of this version reads on the schema of 0.2.0, and what needs newer tables.
_READABLE = (
    "/api/v1/python/environment", "/api/v2/packages", "/api/v2/stacks", "/api/v2/inspections",
    "/api/v2/reports", "/api/v2/vulnerabilities", "/api/v2/changes", "/api/v2/benchmarks",
    "/api/v2/status", "/packages", "/metrics",
)  # fmt: skip
_UNREADABLE = ("/", "/stacks")


@pytest.mark.slow
def test_server_reads_the_previous_schema_until_it_is_migrated(
    graph: neo4j.Driver, empty: Stores
) -> None:
    fill_as(empty, RELEASES[-1])
    app = create_app(empty.settings)
    client = app.test_client()
    try:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json["status"]) == (200, "degraded")
        assert ready.json["checks"]["postgresql"]["problem"] == "read-only until `thoth migrate`"
        assert client.get("/readyz?writes").status_code == 503
        assert {client.get(path).status_code for path in _READABLE} == {200}
        assert {client.get(path).status_code for path in _UNREADABLE} == {503}
        refused = client.post("/api/v2/advice", json={})
        assert refused.status_code == 503
        assert "read-only until `thoth migrate`" in refused.json["detail"]
        # Locks are too long for an address, so this read is a POST.
        assert client.post("/api/v2/lock-comparisons", json={}).status_code == 400
        migrate.migrate(empty)
        assert client.post("/api/v2/advice", json={}).status_code == 400
        assert "problem" not in client.get("/readyz").json["checks"]["postgresql"]
        assert client.get("/readyz?writes").status_code == 200
        assert {client.get(it).status_code for it in (*_READABLE, *_UNREADABLE)} == {200}
    finally:
        app.extensions[EXTENSION].close()


@pytest.mark.slow
def test_migration_that_waits_for_a_lock_does_not_block_readers(
    empty: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """A long query holds the table that step 0033 changes. Readers arrive while the step waits."""
    with empty.engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0032")
    failures: list[BaseException] = []
    with empty.engine.connect() as long_query, empty.engine.connect() as reader:
        long_query.execute(text("SELECT count(*) FROM observations"))
        thread = _in_thread(lambda: migrate_relational(empty.engine), failures)
        _wait_for_lock(empty)
        waits = _waits(caplog)
        for _ in range(3):
            # Stands behind the step, which stands behind the long query, and is answered anyway.
            reader.execute(text("SELECT count(*) FROM observations"))
            reader.rollback()
            _wait_for_lock(empty)
        wait_until(lambda: _waits(caplog) > waits + 2, "the step tries again")
        assert thread.is_alive()
        long_query.rollback()
        thread.join()
    assert failures == []
    with empty.engine.connect() as connection:
        assert relational_state(connection).pending == ()


def test_migration_ends_with_a_remedy_if_a_table_stays_locked(
    empty: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "STATEMENT_TIMEOUT_S", 0)
    with empty.engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0032")
    with empty.engine.connect() as long_query:
        long_query.execute(text("SELECT count(*) FROM observations"))
        with pytest.raises(StoreUnavailable) as caught:
            migrate_relational(empty.engine)
        assert caught.value.hint == "end long queries, then run `thoth migrate` again"
        with empty.engine.connect() as connection:
            assert relational_state(connection).current == "0032"


@pytest.mark.slow
def test_migration_creates_indexes_beside_concurrent_writers(empty: Stores) -> None:
    """A writer keeps its transaction open while step 0032 waits; others write all the time."""
    with empty.engine.connect() as connection:
        command.upgrade(alembic_config(connection), "0031")
    write = text("UPDATE observations SET unit = unit")
    failures: list[BaseException] = []
    with empty.engine.connect() as long_writer, empty.engine.connect() as writer:
        for cut in (True, False):
            long_writer.execute(write)
            thread = _in_thread(lambda: migrate_relational(empty.engine), failures)
            wait_until(lambda: _waiting_for_writer(empty), "the step waits for the long writer")
            writer.execute(write)
            writer.commit()
            if cut:
                writer.execute(
                    text("SELECT pg_terminate_backend(:pid)"), {"pid": _waiting_for_writer(empty)}
                )
                thread.join()
                assert len(failures) == 1
                failures.clear()
                assert _invalid_indexes(empty) == ["ix_observations_ended_at"]
            long_writer.rollback()
        thread.join()
    assert failures == []
    assert _invalid_indexes(empty) == []
    with empty.engine.connect() as connection:
        assert relational_state(connection).pending == ()
        command.check(alembic_config(connection))


def _waiting_for_writer(stores: Stores) -> int | None:
    """The process of the server that creates or drops an index and waits for a transaction."""
    query = text(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE '% INDEX CONCURRENTLY %'"
        " AND wait_event = 'virtualxid' AND datname = current_database()"
    )
    with stores.engine.connect() as connection:
        return connection.scalar(query)


def _invalid_indexes(stores: Stores) -> list[str]:
    query = text("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
    with stores.engine.connect() as connection:
        return list(connection.scalars(query))


def _in_thread(work: Any, failures: list[BaseException]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _wait_for_lock(stores: Stores) -> None:
    """Wait until the migration waits for a lock."""
    query = text(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )

    def waits() -> bool:
        with stores.engine.connect() as connection:
            return bool(connection.scalar(query))

    wait_until(waits, "the step waits for a lock")


def _waits(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.message == "migration_waits" for record in caplog.records)


#: The newest step of the last release. Tables of later steps are empty where these run.
_RELEASED = "0029"
#: Tables that never have many rows, or that only one process uses.
_SMALL_TABLES = {"loop_nights", "loop_steps", "loop_releases", "loop_batches", "watches", "tokens"}
#: A step waits for at most this many locks while it holds others: with the time of the step itself,
#: no lock is held for more than 4 s.
_MOST_LOCKS = 3

_TABLE = r"(?:IF (?:NOT )?EXISTS )?(?:ONLY )?(?:public\.)?\"?(\w+)"
_REFUSED = {
    rf"ALTER TABLE {_TABLE}\"? ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL":
        "old code inserts no value",
    rf"ALTER TABLE {_TABLE}\"? ADD COLUMN .*\bDEFAULT \(?(?:random|gen_|uuid|clock_|nextval)|"
    r"GENERATED ALWAYS AS \(.*STORED": "all rows are written again",
    rf"ALTER TABLE {_TABLE}\"? (?:DROP (?!CONSTRAINT)|RENAME|"
    r"ALTER COLUMN \w+ (?:TYPE|SET NOT NULL))":
        "old code reads the earlier form, or all rows are read under a lock",
    rf"ALTER TABLE {_TABLE}\"? ADD (?:CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY)(?!.*NOT VALID)":
        "all rows are read under a lock: add it NOT VALID, and validate it in a later step",
    rf"(?:DROP|TRUNCATE) TABLE {_TABLE}": "old code reads this table",
    rf"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)(?:IF NOT EXISTS )?\w+ ON {_TABLE}":
        "writers wait: use migrations.large_tables.create_index",
    rf"(?:UPDATE|DELETE FROM) {_TABLE}": "all rows are written in one transaction: use a job",
}  # fmt: skip


def created_by(statements: list[str]) -> set[str]:
    """The tables that statements create."""
    pattern = re.compile(rf"\s*CREATE (?:UNLOGGED )?TABLE {_TABLE}", re.IGNORECASE)
    return {match[1] for it in statements if (match := pattern.match(it))}


def objections(statements: list[str], unreleased: Collection[str] = ()) -> Iterator[str]:
    """Why a step could not run beside the old code or beside a long query.

    :param unreleased: tables that no release has
    """
    plain = [" ".join(it.split()) for it in statements]
    created = created_by(statements).union(unreleased)
    exempt = created | _SMALL_TABLES | {"alembic_version", "outbox"}
    locked = set()
    for statement in plain:
        for pattern, reason in _REFUSED.items():
            match = re.match(pattern, statement, re.IGNORECASE)
            if match and match[1] not in exempt:
                yield f"{reason}: {statement}"
        named = rf"(?:ALTER TABLE|REFERENCES|TRIGGER .* ON) {_TABLE}"
        locked |= set(re.findall(named, statement, re.IGNORECASE)) - created
    if len(locked) > _MOST_LOCKS:
        yield f"locks {len(locked)} tables ({', '.join(sorted(locked))}): divide the step"


def test_migration_steps_run_beside_old_code_and_long_queries(empty: Stores) -> None:
    """Released code keeps reading and writing while its successor migrates."""
    broken = {}
    unreleased: set[str] = set()
    for revision in migrate.known_revisions():
        statements: list[str] = []
        with empty.engine.connect() as connection:
            event.listen(
                connection, "before_cursor_execute",
                lambda *arguments, into=statements: into.append(arguments[2]),
            )  # fmt: skip
            command.upgrade(alembic_config(connection), revision)
        assert statements
        if revision > _RELEASED:
            unreleased |= created_by(statements)
            broken[revision] = list(objections(statements, unreleased))
    assert not any(broken.values()), broken


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE stacks ADD COLUMN note TEXT", None),
        ("ALTER TABLE stacks ADD COLUMN n INTEGER NOT NULL", "old code inserts no value"),
        ("ALTER TABLE stacks ADD COLUMN n UUID DEFAULT gen_random_uuid()", "written again"),
        ("ALTER TABLE stacks DROP COLUMN n", "earlier form"),
        ("ALTER TABLE stacks ALTER COLUMN n SET NOT NULL", "earlier form"),
        ("ALTER TABLE stacks ADD CONSTRAINT c CHECK (n > 0)", "NOT VALID"),
        ("ALTER TABLE stacks ADD CONSTRAINT c CHECK (n > 0) NOT VALID", None),
        ("DROP TABLE stacks", "reads this table"),
        ("CREATE INDEX i ON observations (rate)", "writers wait"),
        ("CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON observations (rate)", None),
        ("CREATE INDEX i ON watches (state)", None),
        ("UPDATE observations SET unit = 'FLOP/s'", "one transaction"),
        ("DELETE FROM outbox", None),
    ],
)
def test_migration_rules_refuse_blocking_statements(statement: str, reason: str | None) -> None:
    found = list(objections([statement]))
    assert found == [] if reason is None else reason in found[0]


def test_migration_may_lock_only_few_existing_tables() -> None:
    own = ["CREATE TABLE mine (n INT)", "CREATE INDEX i ON mine (n)", "UPDATE mine SET n = 1"]
    assert list(objections(own)) == []
    many = [f"ALTER TABLE t{number} ADD COLUMN c TEXT" for number in range(4)]
    assert list(objections(many[:3])) == []
    assert list(objections(many)) == ["locks 4 tables (t0, t1, t2, t3): divide the step"]
