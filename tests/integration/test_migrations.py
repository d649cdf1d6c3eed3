"""Both stores' schemas: applied once, told apart from older and newer ones."""

import json
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from sqlalchemy import text

from common.settings import Settings
from graph import migrate
from graph.engine import Stores, open_stores
from graph.migrate import (
    alembic_config,
    ensure_schema,
    graph_state,
    migrate_relational,
    states,
    write_revision,
)
from model.errors import SchemaMismatch
from tests.services.commands import thoth
from tests.services.ports import closed_port
from tests.services.threads import in_threads

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


def test_migrations_create_the_declared_tables(relational: sqlalchemy.Engine) -> None:
    with relational.connect() as connection:
        command.check(alembic_config(connection))


def test_queue_schema_equals_that_of_its_migration() -> None:
    """A release of procrastinate with a further step of its own needs a further revision."""
    steps = resources.files("procrastinate.sql.migrations").iterdir()
    newest = max(it.name for it in steps if it.name.endswith(".sql"))
    assert newest == "03.04.00_50_post_add_retry_failed_job_procedure.sql"


def test_migrated_store_has_no_pending_migrations(stores: Stores) -> None:
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


def test_empty_store_is_migrated_once(folder: Path, empty: Stores) -> None:
    before = migrate.migrate(empty)
    assert [(state.current, state.pending) for state in before] == [(None, ("0001",))] * 2
    after = states(empty)
    assert [(state.current, state.pending) for state in after] == [("0001", ())] * 2
    with empty.driver.session(database=empty.database) as session:
        step = session.run("MATCH (s:SchemaMigration) RETURN s").single(strict=True)["s"]
    assert step["name"] == "first"
    assert step["applied_at"] is not None


def test_concurrent_migrations_wait_for_each_other(folder: Path, empty: Stores) -> None:
    def work() -> None:
        with open_stores(empty.settings) as stores:
            migrate.migrate(stores)

    in_threads(work, work)


def test_external_store_is_migrated_only_on_request(folder: Path, empty: Stores) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        ensure_schema(empty)
    assert caught.value.hint == "run `thoth migrate`"


def test_embedded_store_is_migrated_automatically(
    folder: Path, empty: Stores, embedded_settings: Settings
) -> None:
    ensure_schema(Stores(embedded_settings, None, empty.driver))
    assert graph_state(empty.driver, empty.database).current == "0001"


def test_newer_database_schema_is_refused(folder: Path, empty: Stores) -> None:
    migrate.migrate(empty)
    (folder / "cypher" / "0001_first.cypher").rename(folder / "cypher" / "0000_other.cypher")
    with pytest.raises(SchemaMismatch, match="the graph") as caught:
        migrate.migrate(empty)
    assert caught.value.hint == "upgrade thoth"
    (folder / "versions" / "0001_first.py").rename(folder / "versions" / "0000_other.py")
    with pytest.raises(SchemaMismatch, match="PostgreSQL"):
        migrate.migrate(empty)


def test_schema_older_than_the_first_step_is_refused_with_the_way_to_upgrade(empty: Stores) -> None:
    migrate_relational(empty.engine)
    with empty.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0010'"))
    with pytest.raises(SchemaMismatch) as caught:
        ensure_schema(empty)
    assert caught.value.hint == "make a backup, and migrate with 0.2.0 first"


def test_migration_file_changed_after_it_was_applied_is_refused(
    folder: Path, empty: Stores
) -> None:
    migrate.migrate(empty)
    with (folder / "cypher" / "0001_first.cypher").open("a") as file:
        file.write("CREATE INDEX other IF NOT EXISTS FOR (p:Probe) ON (p.other);\n")
    with pytest.raises(SchemaMismatch, match="0001_first"):
        ensure_schema(empty)


def test_next_migration_is_generated_from_the_declared_tables(folder: Path, empty: Stores) -> None:
    (folder / "versions" / "0001_first.py").unlink()
    written = write_revision(empty.engine, "all the tables")
    assert written.name == "0001_all_the_tables.py"
    migrate_relational(empty.engine)
    with empty.engine.connect() as connection:
        command.check(alembic_config(connection))


def test_failed_migration_is_rolled_back(folder: Path, empty: Stores) -> None:
    broken = FIRST_VERSION + '    op.execute("SELECT nonsense")\n'
    (folder / "versions" / "0001_first.py").write_text(broken)
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        migrate.migrate(empty)
    with empty.engine.connect() as connection:
        assert connection.scalar(text("SELECT to_regclass('first') IS NULL"))


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
    stores = json.loads(thoth(empty.settings, "migrate", "--json").stdout)["stores"]
    assert [it["pending"] for it in stores] == [[], []]
