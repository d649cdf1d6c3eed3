"""Migrates the schemas of both stores; refuses schemas that are newer than this code."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from common.settings import Settings
from graph.checkpoints import stores_agree
from graph.engine import (
    GRAPH,
    POSTGRESQL,
    READ_ACCESS,
    STATEMENT_TIMEOUT_S,
    Stores,
    open_stores,
    to_stderr,
)
from model.errors import GraphMismatch, SchemaMismatch, StoreUnavailable

if TYPE_CHECKING:
    import neo4j
    import sqlalchemy
    from alembic.config import Config

#: The migrations lie beside this package, both in a checkout and in an installed environment.
MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"

logger = logging.getLogger(__name__)

_NUMBERED = re.compile(r"(\d{4})_(\w+)")

#: How long a step waits for each lock before it lets other queries pass, s.
LOCK_WAIT_S = 1
#: A lock was not free in time; a deadlock was found.
_LOCKED = ("55P03", "40P01")

#: Whether PostgreSQL was ever migrated, and to which revision.
IS_MIGRATED = "SELECT to_regclass('alembic_version') IS NOT NULL"
REVISION = "SELECT version_num FROM alembic_version"

APPLIED = """
MATCH (step:SchemaMigration)
RETURN step.version AS version, step.checksum AS checksum
ORDER BY version
"""

RECORD = """
MERGE (step:SchemaMigration {version: $version})
SET step.name = $name, step.checksum = $checksum, step.applied_at = $applied_at
"""

#: Created before the first numbered file.
UNIQUE_VERSION = """
CREATE CONSTRAINT schema_migration_version IF NOT EXISTS
FOR (step:SchemaMigration) REQUIRE step.version IS UNIQUE
"""


@dataclass(frozen=True, slots=True)
class CypherFile:
    """A numbered Cypher file; its checksum ignores comments and white space."""

    version: str
    name: str
    statements: tuple[str, ...]

    @property
    def checksum(self) -> str:
        """SHA-256 of the statements."""
        plain = "\0".join(" ".join(statement.split()) for statement in self.statements)
        return hashlib.sha256(plain.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SchemaState:
    """State of the schema of a store.

    :param current: the newest step applied, ``None`` for an empty store
    :param expected: the newest step that this code knows
    """

    store: str
    current: str | None
    expected: str | None
    pending: tuple[str, ...]


def known_revisions() -> tuple[str, ...]:
    """The PostgreSQL revisions of this code, oldest first.

    The revisions are read from file names, because loading alembic takes longer than the check. A
    test compares these revisions with alembic's.
    """
    names = sorted(path.stem for path in (MIGRATIONS / "versions").glob("*.py"))
    return tuple(match[1] for name in names if (match := _NUMBERED.fullmatch(name)))


def relational_state(connection: sqlalchemy.Connection) -> SchemaState:
    """State of PostgreSQL's schema; only reads.

    :raises SchemaMismatch: if the store's revision is unknown to this code
    """
    exists = connection.exec_driver_sql(IS_MIGRATED).scalar()
    return relational_state_at(connection.exec_driver_sql(REVISION).scalar() if exists else None)


def relational_state_at(current: str | None) -> SchemaState:
    """State of a PostgreSQL schema whose revision is ``current``.

    :raises SchemaMismatch: if the revision is unknown to this code
    """
    known = known_revisions()
    if current is not None and current not in known:
        raise _unknown(POSTGRESQL, current, known)
    pending = known[known.index(current) + 1 :] if current else known
    return SchemaState(POSTGRESQL, current, known[-1] if known else None, pending)


def cypher_files() -> tuple[CypherFile, ...]:
    """The Cypher files, oldest first."""
    files = []
    for path in sorted((MIGRATIONS / "cypher").glob("*.cypher")):
        match = _NUMBERED.fullmatch(path.stem)
        if match is None:
            raise ValueError(f"{path.name}: not named NNNN_subject.cypher")
        statements = statements_of(path.read_text(encoding="utf-8"))
        files.append(CypherFile(match[1], match[2], statements))
    return tuple(files)


def statements_of(source: str) -> tuple[str, ...]:
    """The statements of a file: ``;`` at the end of a line ends one, ``//`` starts a comment line.

    >>> statements_of("// why\\nCREATE (a);\\nCREATE\\n  (b);")
    ('CREATE (a)', 'CREATE\\n  (b)')
    """
    lines = [line.rstrip() for line in source.splitlines()]
    code = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
    parts = re.split(r";$", code, flags=re.MULTILINE)
    return tuple(part.strip() for part in parts if part.strip())


def graph_state(driver: neo4j.Driver, database: str) -> SchemaState:
    """State of the graph's schema; only reads.

    :raises SchemaMismatch: if an applied step is unknown to this code, or its file changed
    """
    with driver.session(database=database, default_access_mode=READ_ACCESS) as session:
        applied = {row["version"]: row["checksum"] for row in session.run(APPLIED)}
    files = cypher_files()
    known = tuple(file.version for file in files)
    if unknown := sorted(applied.keys() - set(known)):
        raise _unknown(GRAPH, unknown[-1], known)
    for file in files:
        if applied.get(file.version, file.checksum) != file.checksum:
            raise SchemaMismatch(
                f"{GRAPH}: step {file.version}_{file.name} changed after it was applied",
                "restore that file, and put the change into a new step",
            )
    pending = tuple(version for version in known if version not in applied)
    return SchemaState(GRAPH, max(applied, default=None), known[-1] if known else None, pending)


def states(stores: Stores) -> tuple[SchemaState, ...]:
    """States of the opened stores' schemas; runs two short queries and writes nothing."""
    opened = []
    if stores.opened_engine is not None:
        with stores.engine.connect() as connection:
            opened.append(relational_state(connection))
    if stores.opened_driver is not None:
        opened.append(graph_state(stores.driver, stores.database))
    return tuple(opened)


def ensure_schema(stores: Stores) -> None:
    """Migrate embedded stores automatically; only check external stores.

    :raises SchemaMismatch: if a store is newer than this code, or if an external store is older:
        its operator decides when to migrate
    """
    settings = stores.settings
    behind = [state for state in states(stores) if state.pending]
    ours = {POSTGRESQL: settings.embedded_database, GRAPH: settings.embedded_graph}
    for state in behind:
        if not ours[state.store]:
            raise SchemaMismatch(
                f"{state.store}: the schema is at {state.current or 'nothing'},"
                f" this code expects {state.expected}",
                "run `thoth migrate`",
                older=state.store == POSTGRESQL and state.current is not None,
            )
    if behind:
        migrate(stores)


def ensure_agreement(stores: Stores) -> None:
    """Rebuild a graph that was not projected from this record, if the settings allow it.

    :raises GraphMismatch: if they do not
    """
    if stores.opened_engine is None or stores.opened_driver is None or stores_agree(stores):
        return
    if not stores.settings.graph_rebuild:
        raise GraphMismatch
    from graph.projection import sync

    to_stderr("the graph was not projected from this record: building it again …")
    sync(stores.engine, stores.driver, database=stores.database, may_rebuild=True)


@contextmanager
def migrated_stores(
    settings: Settings,
    *,
    relational: bool = True,
    graph: bool = True,
    graph_on_use: bool = False,
    any_graph: bool = False,
) -> Iterator[Stores]:
    """Open the stores and call :func:`ensure_schema` and :func:`ensure_agreement`.

    :param graph_on_use: as in :func:`graph.engine.open_stores`; the graph is checked when it is
        first used
    :param any_graph: open a graph that was not projected from this record
    """
    with open_stores(
        settings, relational=relational, graph=graph, graph_on_use=graph_on_use
    ) as stores:
        ensure_schema(stores)
        if not any_graph:
            ensure_agreement(stores)
        connect = _migrated_graph(stores) if graph and graph_on_use else None
        yield stores if connect is None else replace(stores, connect_graph=connect)


def _migrated_graph(stores: Stores) -> Callable[[], neo4j.Driver]:
    """Connects to the graph once, and checks it as :func:`migrated_stores` does."""

    @cache
    def connect() -> neo4j.Driver:
        driver = stores.driver
        opened = replace(stores, opened_driver=driver)
        ensure_schema(opened)
        ensure_agreement(opened)
        return driver

    return connect


def migrate(stores: Stores) -> tuple[SchemaState, ...]:
    """Migrate the opened stores; safe to repeat, one process at a time.

    :returns: the state of each store before the migration
    """
    from graph.record.postgresql_helpers import AdvisoryLock, session_lock

    if stores.opened_engine is None:
        before = states(stores)
        migrate_graph(stores.driver, stores.database)
        return before
    with session_lock(stores.engine, AdvisoryLock.MIGRATION, STATEMENT_TIMEOUT_S) as connection:
        if connection is None:
            raise StoreUnavailable(
                POSTGRESQL, "another process is still migrating", "wait for it, then try again"
            )
        before = states(stores)
        if before[0].pending:
            migrate_relational(stores.engine)
        if stores.opened_driver is not None:
            migrate_graph(stores.driver, stores.database)
    return before


def migrate_relational(engine: sqlalchemy.Engine) -> None:
    """Migrate PostgreSQL to the newest revision, each step in its own transaction.

    All later queries of a table wait behind a step that waits for a lock on it. A step therefore
    gives up after :data:`LOCK_WAIT_S`, lets these queries pass, and is tried again. A step that
    creates indexes of large tables commits each of them, and blocks nobody while it waits.

    :raises StoreUnavailable: if a lock was not free for :data:`STATEMENT_TIMEOUT_S`
    """
    from alembic import command
    from sqlalchemy.exc import OperationalError

    deadline = time.monotonic() + STATEMENT_TIMEOUT_S
    with engine.connect() as connection, ExitStack() as at_the_end:
        at_the_end.callback(connection.invalidate)  # Closes it, with its setting.
        connection.exec_driver_sql(f"SET lock_timeout = '{LOCK_WAIT_S}s'")
        connection.commit()
        while True:
            try:
                command.upgrade(alembic_config(connection), "head")
                return
            except OperationalError as error:
                connection.rollback()
                if getattr(error.orig, "pgcode", None) not in _LOCKED:
                    raise
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        POSTGRESQL,
                        "another transaction holds a lock that a migration needs",
                        "end long queries, then run `thoth migrate` again",
                    ) from error
            logger.warning(
                "migration_waits", extra={"revision": relational_state(connection).current}
            )
            connection.rollback()
            time.sleep(LOCK_WAIT_S)


def migrate_graph(driver: neo4j.Driver, database: str) -> None:
    """Migrate the graph to the newest step.

    A transaction of the graph cannot contain both schema statements and data. A step is therefore
    recorded after its statements, and each statement must be repeatable (``IF NOT EXISTS``).
    """
    pending = graph_state(driver, database).pending
    files = [file for file in cypher_files() if file.version in pending]
    if not files:
        return
    with driver.session(database=database) as session:
        session.run(UNIQUE_VERSION).consume()
        for file in files:
            for statement in file.statements:
                session.run(statement).consume()
            session.run(
                RECORD,
                version=file.version,
                name=file.name,
                checksum=file.checksum,
                applied_at=datetime.now(UTC),
            ).consume()


def alembic_config(connection: sqlalchemy.Connection) -> Config:
    """Configuration of alembic, which replaces ``alembic.ini``."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["within_transaction"] = connection.in_transaction()
    return config


def write_revision(engine: sqlalchemy.Engine, subject: str) -> Path:
    """Write the next revision from the differences between :mod:`graph.tables` and the database."""
    from alembic import command

    number = f"{int(max(known_revisions(), default='0')) + 1:04}"
    with engine.connect() as connection:
        config = alembic_config(connection)
        command.revision(config, subject, autogenerate=True, rev_id=number)
    return next((MIGRATIONS / "versions").glob(f"{number}_*.py"))


def _unknown(store: str, version: str, known: tuple[str, ...]) -> SchemaMismatch:
    newest = known[-1] if known else ""
    if re.fullmatch(r"\d{4}", version) and known and "0000" < version < known[0]:
        return SchemaMismatch(
            f"{store}: the schema is at {version}, which is of a release before 0.2.0",
            "make a backup, and migrate with 0.2.0 first",
        )
    if re.fullmatch(r"\d{4}", version) is None or version < newest:
        return SchemaMismatch(
            f"{store}: the schema is at {version}, which is no step of this code",
            "another program migrated it: check the address of the store",
        )
    return SchemaMismatch(
        f"{store}: the schema is newer than this code: it is at {version},"
        f" this code knows steps up to {newest or 'nothing'}",
        "upgrade thoth",
        newer=True,
    )
