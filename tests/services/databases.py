"""Databases of the run's PostgreSQL: copies of one that is migrated, and one that is used again."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import sqlalchemy
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from common.settings import Settings
from graph.engine import relational_url

#: Migrated, without rows.
TEMPLATE = "thoth_template"
#: A larger database is not used again.
_LARGEST_BYTES = 64 << 20

#: A digest of all tables, columns, constraints, triggers and functions.
_SCHEMA = """
SELECT md5(string_agg(entry::text, ',' ORDER BY entry::text)) FROM (
    SELECT ROW(oid, relname, relnatts, relhastriggers, relpersistence) AS entry FROM pg_class
        WHERE oid >= 16384 AND relnamespace = 'public'::regnamespace
    UNION ALL SELECT ROW(attrelid, attnum, attname, atttypid, attnotnull) FROM pg_attribute
        WHERE attrelid >= 16384
    UNION ALL SELECT ROW(oid, conname, convalidated) FROM pg_constraint
    UNION ALL SELECT ROW(oid, tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT ROW(oid, xmin) FROM pg_proc WHERE oid >= 16384
) AS entries
"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_DISCONNECT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
#: Deletes all rows, without the checks and triggers of the tables, and starts the sequences again.
_EMPTY = f"""
SET session_replication_role = replica;
DO $$
DECLARE
    name text;
    has_rows boolean;
BEGIN
    FOR name IN {_TABLES} LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', name) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('DELETE FROM %I', name);
        END IF;
    END LOOP;
    PERFORM setval(sequencename::regclass, start_value, false) FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL;
END $$
"""

_numbers = itertools.count(1)


@contextmanager
def new_database(
    owner: sqlalchemy.Engine, settings: Settings, *, template: str = TEMPLATE
) -> Iterator[Settings]:
    """``settings`` with a database that no other test sees, for the length of the block.

    :param owner: PostgreSQL as its owner, outside transactions
    :param template: a database that nobody is connected to
    """
    name = _new_name()
    # Faster than by way of the log, where nothing is synced.
    _run(owner, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield with_database(settings, name)
    finally:
        _run(owner, f"DROP DATABASE {name} WITH (FORCE)")


def with_database(settings: Settings, name: str) -> Settings:
    """``settings`` of another database of the same PostgreSQL, with its password in the URL."""
    url = relational_url(settings).set(database=name, drivername="postgresql")
    return replace(settings, database_url=url.render_as_string(hide_password=False))


@dataclass(slots=True)
class ReusedDatabases:
    """Lends two databases in turn, each time empty and under a new name.

    Measured on a busy machine: a copy of the template takes 0.4 s, since it waits for a checkpoint;
    emptying the tables that a test wrote to takes 20 ms. A database whose schema has changed is
    dropped. Two, because PostgreSQL waits 0.1 s before it renames one that was just in use.
    """

    owner: sqlalchemy.Engine
    settings: Settings
    _free: list[str] = field(default_factory=list)
    _schema: str = ""
    _seeds: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def lend(self) -> Iterator[Settings]:
        """Settings of a database like the template, for the length of the block."""
        name = self._take()
        yield with_database(self.settings, name)
        if self._emptied(name):
            self._free.append(name)
        else:
            _run(self.owner, f"DROP DATABASE {name} WITH (FORCE)")

    def _take(self) -> str:
        name = _new_name()
        if len(self._free) > 1:  # caches know a record by its address
            free = self._free.pop(0)
            try:
                _run(self.owner, f"ALTER DATABASE {free} RENAME TO {name}")
            except OperationalError:  # a process that outlived its test is connected
                _run(self.owner, f"DROP DATABASE {free} WITH (FORCE)")
            else:
                return name
        _run(self.owner, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
        if not self._schema:
            with self._connected(name) as connection:
                self._schema = connection.scalar(text(_SCHEMA)) or ""
                for table in connection.scalars(text(_TABLES)).all():
                    rows = f"SELECT json_agg(row)::text FROM {table} AS row"
                    if seed := connection.scalar(text(rows)):
                        self._seeds[table] = seed
        return name

    def _emptied(self, name: str) -> bool:
        """Delete the rows of a test; false if the database is no longer like the template."""
        with self._connected(name) as connection:
            connection.execute(text(_DISCONNECT))
            size = connection.scalar(text("SELECT pg_database_size(current_database())")) or 0
            if size > _LARGEST_BYTES or connection.scalar(text(_SCHEMA)) != self._schema:
                return False
            connection.execute(text(_EMPTY))
            for table, rows in self._seeds.items():
                values = f"json_populate_recordset(NULL::{table}, :rows)"
                connection.execute(
                    text(f"INSERT INTO {table} SELECT * FROM {values}"), {"rows": rows}
                )
        return True

    @contextmanager
    def _connected(self, name: str) -> Iterator[sqlalchemy.Connection]:
        url = relational_url(with_database(self.settings, name))
        engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection


def _new_name() -> str:
    return f"thoth_test_{next(_numbers)}"


def _run(owner: sqlalchemy.Engine, statement: str) -> None:
    with owner.connect() as connection:
        connection.execute(text(statement))
