"""Both stores' schemas: applied once, told apart from older and newer ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from importlib import resources
from pathlib import Path

import neo4j
import pytest
import sqlalchemy
from alembic import command
from sqlalchemy import text

from common.errors import SchemaMismatch
from common.settings import Settings
from graph import migrate
from graph.engine import Stores, open_stores
from graph.migrate import (
    alembic_config,
    ensure_schema,
    graph_state,
    known_revisions,
    migrate_relational,
    states,
    write_revision,
)
from graph.record.packages import refresh_revisions
from graph.tables import InspectionRow, OutboxEntry, PackageVersionRow
from tests.factories.rows import Rows, entries_of, inspection_rows
from tests.services.commands import thoth
from tests.services.ports import closed_port
from tests.services.projection import answer, project, verified
from tests.services.unmigrated import replace_steps

FIRST_VERSION = """
revision = "0001"
down_revision = None

from alembic import op


def upgrade():
    op.execute("CREATE TABLE first (id int)")
"""
FIRST_STEP = """
// Two statements, one step.
CREATE CONSTRAINT probe_key IF NOT EXISTS FOR (p:Probe) REQUIRE p.key IS UNIQUE;
CREATE INDEX probe_name IF NOT EXISTS
FOR (p:Probe) ON (p.name);
"""


def test_tables_and_migrations_agree(relational: sqlalchemy.Engine) -> None:
    with relational.connect() as connection:
        command.check(alembic_config(connection))


def test_the_queue_has_the_schema_that_its_revision_was_written_for() -> None:
    """A release of procrastinate with a further step of its own needs a further revision."""
    steps = resources.files("procrastinate.sql.migrations").iterdir()
    newest = max(it.name for it in steps if it.name.endswith(".sql"))
    assert newest == "03.04.00_50_post_add_retry_failed_job_procedure.sql"


def test_the_queue_is_removed_whole(empty: Stores) -> None:
    migrate_relational(empty.engine)
    with empty.engine.connect() as connection:
        command.downgrade(alembic_config(connection), "0006")
        connection.commit()
    left = "SELECT count(*) FROM pg_proc WHERE starts_with(proname, 'procrastinate_')"
    with empty.engine.connect() as connection:
        assert connection.scalar(text(left)) == 0
    migrate_relational(empty.engine)


def test_a_migrated_store_has_nothing_to_do(stores: Stores) -> None:
    assert [state.pending for state in states(stores)] == [(), ()]
    ensure_schema(stores)
    assert [state.pending for state in migrate.migrate(stores)] == [(), ()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Migrations of this test's own."""
    for name in ("env.py", "script.py.mako"):
        shutil.copy(migrate.MIGRATIONS / name, tmp_path / name)
    (tmp_path / "versions").mkdir()
    (tmp_path / "cypher").mkdir()
    (tmp_path / "versions" / "0001_first.py").write_text(FIRST_VERSION)
    (tmp_path / "cypher" / "0001_first.cypher").write_text(FIRST_STEP)
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path)
    return tmp_path


def test_rates_recorded_before_there_were_units_are_in_flop_per_s(
    graph: neo4j.Driver, empty: Stores
) -> None:
    """The real steps, on stores that were filled at the first ones."""
    rows = inspection_rows(5, seed=3)
    with empty.engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        _insert_as_of_0001(connection, rows)
    migrate.migrate(empty)
    project(empty)
    answer(empty, "MATCH (o:Observation) REMOVE o.unit")
    replace_steps(empty.driver, empty.database, _steps_before(empty, "0003"))
    assert states(empty)[1].pending == ("0003", "0004", "0005", "0006", "0007", "0008")
    migrate.migrate(empty)
    assert verified(empty).equal
    found = answer(empty, "MATCH (o:Observation) RETURN o.unit AS unit, count(o.rate), count(o)")
    assert sorted(unit or "" for unit, _, _ in found) == ["", "FLOP/s"]
    assert all(rates == (count if unit else 0) for unit, rates, count in found)


def test_what_was_projected_before_is_projected_anew_with_its_new_properties(
    graph: neo4j.Driver, empty: Stores
) -> None:
    rows = inspection_rows(5, seed=3)
    with empty.engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0008")
        _insert_as_of_0001(connection, rows)
    # As an earlier release left them: they are there, so that nothing would be written again.
    answer(
        empty, "UNWIND $keys AS key CREATE (:Inspection {document_id: key})",
        keys=[row["document_id"] for row in rows[InspectionRow]],
    )  # fmt: skip
    migrate.migrate(empty)
    project(empty)
    assert verified(empty).equal
    with empty.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0008")
        command.upgrade(alembic_config(connection), "head")


def test_versions_that_stacks_named_become_unread_ones_of_known_packages(
    graph: neo4j.Driver, empty: Stores
) -> None:
    rows = inspection_rows(5, seed=3)
    with empty.engine.begin() as connection:
        config = alembic_config(connection)
        command.upgrade(config, "0002")
        _insert_as_of_0001(connection, rows)
        for _ in range(2):  # And back, and once more.
            command.upgrade(config, "head")
            states_now = connection.scalars(text("SELECT DISTINCT state FROM package_versions"))
            assert states_now.all() == ["unread"]
            names = connection.scalars(text("SELECT name FROM packages ORDER BY name")).all()
            assert names == sorted({row["name"] for row in rows[PackageVersionRow]})
            assert refresh_revisions(connection, names) == set()
            command.downgrade(config, "0002")
        command.upgrade(config, "head")
    migrate.migrate(empty)
    project(empty)
    assert verified(empty).equal


def _insert_as_of_0001(connection: sqlalchemy.Connection, rows: Rows) -> None:
    """What the factory makes, less the tables and columns that came later."""
    there = sqlalchemy.inspect(connection).get_table_names()
    for model, some in rows.items():
        name = model.__tablename__
        if name not in there:
            continue
        table = sqlalchemy.Table(name, sqlalchemy.MetaData(), autoload_with=connection)
        plain = [{key: row[key] for key in row if key in table.c} for row in some]
        connection.execute(sqlalchemy.insert(table), plain)
    kinds = ("stack", "hardware", "runtime_environment", "indicator", "inspection")
    entries = [entry for entry in entries_of(rows) if entry["kind"] in kinds]
    connection.execute(sqlalchemy.insert(OutboxEntry), entries)


def _steps_before(stores: Stores, version: str) -> list[dict[str, object]]:
    query = "MATCH (s:SchemaMigration) WHERE s.version < $version RETURN properties(s)"
    return [step for (step,) in answer(stores, query, version=version)]


def test_an_empty_store_is_migrated_once(folder: Path, empty: Stores) -> None:
    before = migrate.migrate(empty)
    assert [(state.current, state.pending) for state in before] == [(None, ("0001",))] * 2
    after = states(empty)
    assert [(state.current, state.pending) for state in after] == [("0001", ())] * 2
    with empty.driver.session(database=empty.database) as session:
        step = session.run("MATCH (s:SchemaMigration) RETURN s").single(strict=True)["s"]
    assert step["name"] == "first"
    assert step["applied_at"] is not None


def test_processes_that_migrate_at_once_wait_for_each_other(folder: Path, empty: Stores) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with open_stores(empty.settings) as stores:
                migrate.migrate(stores)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_store_of_others_is_not_migrated_without_being_asked(folder: Path, empty: Stores) -> None:
    with pytest.raises(SchemaMismatch, match="PostgreSQL: the schema is at nothing") as caught:
        ensure_schema(empty)
    assert caught.value.hint == "run `thoth migrate`"


def test_an_embedded_store_is_migrated_unasked(
    folder: Path, empty: Stores, embedded_settings: Settings
) -> None:
    ensure_schema(Stores(embedded_settings, None, empty.driver))
    assert graph_state(empty.driver, empty.database).current == "0001"


def test_a_newer_schema_is_refused(folder: Path, empty: Stores) -> None:
    migrate.migrate(empty)
    (folder / "cypher" / "0001_first.cypher").rename(folder / "cypher" / "0000_other.cypher")
    with pytest.raises(SchemaMismatch, match="the graph: the schema is newer") as caught:
        migrate.migrate(empty)
    assert caught.value.hint == "upgrade thoth"
    (folder / "versions" / "0001_first.py").rename(folder / "versions" / "0000_other.py")
    with pytest.raises(SchemaMismatch, match="PostgreSQL: the schema is newer"):
        migrate.migrate(empty)


def test_a_step_that_changed_after_it_was_applied_is_refused(folder: Path, empty: Stores) -> None:
    migrate.migrate(empty)
    with (folder / "cypher" / "0001_first.cypher").open("a") as file:
        file.write("CREATE INDEX other IF NOT EXISTS FOR (p:Probe) ON (p.other);\n")
    with pytest.raises(SchemaMismatch, match="0001_first changed after it was applied"):
        ensure_schema(empty)


def test_the_next_revision_is_written_from_the_tables(folder: Path, empty: Stores) -> None:
    (folder / "versions" / "0001_first.py").unlink()
    written = write_revision(empty.engine, "all the tables")
    assert written.name == "0001_all_the_tables.py"
    migrate_relational(empty.engine)
    with empty.engine.connect() as connection:
        command.check(alembic_config(connection))


def test_a_failed_revision_leaves_nothing(folder: Path, empty: Stores) -> None:
    broken = FIRST_VERSION + '    op.execute("SELECT nonsense")\n'
    (folder / "versions" / "0001_first.py").write_text(broken)
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        migrate.migrate(empty)
    with empty.engine.connect() as connection:
        assert connection.scalar(text("SELECT to_regclass('first') IS NULL"))


def test_the_command_migrates_and_says_so(settings: Settings, graph: neo4j.Driver) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "cli", "migrate", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={
            "THOTH_HOME": str(settings.home),
            "DATABASE_URL": settings.database_url or "",
            "PYTHONPATH": ":".join(sys.path),
        },
    )
    stores = json.loads(result.stdout)["stores"]
    assert stores[0]["current"] == max(known_revisions(), default=None)
    assert [store["pending"] for store in stores] == [[], []]


def test_postgresql_is_migrated_without_the_graph(empty: Stores) -> None:
    url = f"bolt://127.0.0.1:{closed_port()}"
    blind = replace(empty.settings, graph_url=url, graph_password="unheard", connect_timeout_s=1.0)
    done = thoth(blind, "migrate", "--json")
    assert done.returncode == 3
    assert [it["store"] for it in json.loads(done.stdout)["stores"]] == ["PostgreSQL"]
    assert "the graph is not migrated: run `thoth migrate` again" in done.stderr
    with empty.engine.connect() as connection:
        assert not migrate.relational_state(connection).pending
    output = thoth(empty.settings, "migrate").stdout
    assert "PostgreSQL: nothing to do" in output
    assert "the graph: applied 0001" in output
