"""Writes a backup, and restores it into empty stores.

A backup has everything that one snapshot of PostgreSQL shows, while others write. It is restored
completely or not at all.
"""

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import neo4j
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DataError, IntegrityError

from common import __version__
from common.settings import Settings
from graph.backup_archive import (
    FILLED_FROM_THE_START,
    LEFT_OUT,
    Archive,
    ArchiveWriter,
    Manifest,
    RowsFile,
    new_file,
    quoted_names,
    stored_tables,
)
from graph.engine import POSTGRESQL, READ_ACCESS, STATEMENT_TIMEOUT_S, Stores, relational_errors
from graph.migrate import IS_MIGRATED, REVISION, alembic_config, known_revisions, migrate_graph
from graph.projection.outbox import NODES
from graph.projection.sync import enqueue_everything
from graph.record.bulk import copy_expert
from graph.record.document_store import object_url, write_object
from graph.record.documents import packed_body
from graph.record.postgresql_helpers import AdvisoryLock, session_lock
from graph.tables import Document
from model.errors import (
    AlreadyRunning,
    DamagedDocument,
    InvalidArgument,
    SchemaMismatch,
    StoreUnavailable,
)
from model.redaction import without_secrets

_ABOUT = text("SELECT now() AS at, current_setting('server_version') AS version")
_SEQUENCES = text(
    """
    SELECT sequencename::text AS name, last_value FROM pg_sequences
    WHERE schemaname = current_schema() AND last_value IS NOT NULL ORDER BY sequencename
    """
)
#: Large tables take longer than any statement of a request.
_UNLIMITED = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
#: Variables whose values are secrets in whole.
_SECRET = frozenset({
    "database_url", "graph_password", "graph_reader_password", "webhooks", "webhook_secrets",
    "notice_targets",
})  # fmt: skip

logger = logging.getLogger(__name__)

#: Called with a table or ``document store``, the number of its rows so far and their total, if
#: known.
Progress = Callable[[str, int, int | None], None]


def create_backup(
    settings: Settings, engine: Engine, file: str, progress: Progress = lambda *_: None
) -> Manifest:
    """Write the record and the documents that it names into a new file.

    All rows are of one snapshot; writers do not wait. Until the end, no body is deleted from the
    document store. The file gets its name when it is complete.

    :param file: path of a local file, or URL of an object
    :raises InvalidArgument: if the file exists, or cannot be written
    :raises NoSpace: if the disk of the file is full
    :raises AlreadyRunning: if another backup is running
    :raises StoreUnavailable: if the document store does not answer
    """
    with (
        relational_errors(settings),
        session_lock(engine, AdvisoryLock.BACKUP, 0.0) as lock,
        new_file(file) as stream,
        ArchiveWriter(stream) as archive,
        engine.connect().execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ) as connection,
    ):
        if lock is None:
            raise AlreadyRunning("another backup is running, or a large document is being deleted")
        for statement in _UNLIMITED:
            connection.exec_driver_sql(statement)
        about = connection.execute(_ABOUT).one()
        for name, columns in stored_tables(connection).items():
            if name not in LEFT_OUT:
                _copy_table(connection, archive, name, columns, progress)
        missing = _copy_documents(connection, settings, archive, progress)
        manifest = Manifest(
            created_at=about.at.isoformat(),
            version=__version__,
            schema=connection.exec_driver_sql(REVISION).scalar_one(),
            postgresql=about.version,
            tables=archive.tables,
            documents=archive.documents,
            missing_documents=missing,
            sequences={row.name: row.last_value for row in connection.execute(_SEQUENCES)},
            settings=public_settings(settings),
        )
        archive.finish(manifest)
    return manifest


def public_settings(settings: Settings) -> dict[str, Any]:
    """The settings by variable, without secrets: passwords, and users and queries of URLs."""
    return {
        it.name.upper(): _public(getattr(settings, it.name))
        for it in fields(settings)
        if it.name not in _SECRET
    }


def _public(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_public(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return without_secrets(str(value))


def _copy_table(
    connection: Connection,
    archive: ArchiveWriter,
    name: str,
    columns: tuple[str, ...],
    progress: Progress,
) -> None:
    progress(name, 0, None)
    rows = archive.table(name, columns)
    source = f"{quoted_names(connection, name)} ({quoted_names(connection, *columns)})"
    copy_expert(connection, f"COPY {source} TO STDOUT", rows)
    count = rows.finish()
    progress(name, count, count)


def _copy_documents(
    connection: Connection, settings: Settings, archive: ArchiveWriter, progress: Progress
) -> int:
    """Copy the bodies that this snapshot names; return how many the document store lacks."""
    query = (
        select(Document.document_id, Document.location)
        .where(Document.location.is_not(None))
        .order_by(Document.location)
        .execution_options(yield_per=500)
    )
    missing = 0
    for number, row in enumerate(connection.execute(query), start=1):
        try:
            archive.document(row.location, packed_body(settings, row))
        except DamagedDocument as error:
            missing += 1
            logger.warning("document_missing", extra={"error": str(error)})
        progress("document store", number, None)
    return missing


_SET_SEQUENCE = text(
    """
    SELECT setval(pg_class.oid, :value) FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S' AND relname = :name
    """
)

_NEW_HOME = "THOTH_HOME to a new folder"


def restore_backup(
    stores: Stores, archive: Archive, progress: Progress = lambda *_: None
) -> Manifest:
    """Restore a verified archive. The graph has to be projected afterwards.

    PostgreSQL gets all rows and the newest schema in one transaction. Bodies of documents are
    written before it commits; if it fails, they are left behind unused, and the next attempt writes
    them again.

    :param stores: both, opened without migrating their schemas
    :raises SchemaMismatch: if the archive has a newer schema than this code
    :raises InvalidArgument: if the record or the graph is not empty; names their content
    """
    manifest = archive.manifest
    known = known_revisions()
    if manifest.schema not in known:
        raise SchemaMismatch(
            f"{archive.path}: its schema {manifest.schema} is newer than this code, which knows"
            f" steps up to {known[-1]}",
            f"upgrade thoth: the backup is of version {manifest.version}",
        )
    with session_lock(stores.engine, AdvisoryLock.MIGRATION, STATEMENT_TIMEOUT_S) as lock:
        if lock is None:
            raise StoreUnavailable(
                POSTGRESQL, "another process is migrating or restoring", "wait for it"
            )
        with stores.engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            _refuse_used(stores, connection)
            _migrate(connection, manifest.schema)
            _fill(stores, connection, archive, progress)
            _migrate(connection, known[-1])
            enqueue_everything(connection)
        migrate_graph(stores.driver, stores.database)
    return manifest


def _refuse_used(stores: Stores, connection: Connection) -> None:
    """:raises InvalidArgument: if a store is not empty"""
    settings = stores.settings
    holds, remedies = [], []
    exists = "SELECT EXISTS (SELECT FROM {})"
    tables = [
        name
        for name in sorted(stored_tables(connection).keys() - FILLED_FROM_THE_START)
        if connection.scalar(text(exists.format(quoted_names(connection, name))))
    ]
    if tables:
        holds.append(f"PostgreSQL is not empty: there are rows of {_listed(tables)}")
        remedies.append(_NEW_HOME if settings.embedded_database else _empty("DATABASE_URL"))
    if labels := _filled_labels(stores.driver, stores.database):
        holds.append(f"the graph is not empty: there are nodes of {_listed(labels)}")
        remedies.append(_NEW_HOME if settings.embedded_graph else _empty("GRAPH_URL"))
    if holds:
        hint = f"set {' and '.join(dict.fromkeys(remedies))}"
        raise InvalidArgument("; ".join(holds), hint=hint)


def _filled_labels(driver: neo4j.Driver, database: str) -> list[str]:
    """The kinds of nodes of the projection that the graph has."""
    with driver.session(database=database, default_access_mode=READ_ACCESS) as session:
        return [
            kind.label
            for kind in NODES
            if session.run(f"MATCH (node:{kind.label}) RETURN 1 LIMIT 1").peek() is not None
        ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if names[5:] else ""
    return f"{', '.join(names[:5])}{more}"


def _empty(variable: str) -> str:
    return f"{variable} to an empty database"


def _migrate(connection: Connection, revision: str) -> None:
    """Migrate PostgreSQL to ``revision``, also to an earlier one, within this transaction."""
    from alembic import command

    exists = connection.exec_driver_sql(IS_MIGRATED).scalar()
    current = connection.exec_driver_sql(REVISION).scalar() if exists else None
    if current != revision:
        later = current is None or current < revision
        change = command.upgrade if later else command.downgrade
        change(alembic_config(connection), revision)


def _fill(stores: Stores, connection: Connection, archive: Archive, progress: Progress) -> None:
    """Write the content of an archive into empty tables, without their triggers."""
    manifest = archive.manifest
    stored = stored_tables(connection)
    tables = [name for name in stored if name not in LEFT_OUT]
    for name, part in manifest.tables.items():
        if name not in tables or not set(part.columns) <= set(stored[name]):
            raise InvalidArgument(f"{archive.path}: {name}: not a table of this schema")
    for name in reversed(tables):
        connection.exec_driver_sql(f"DELETE FROM {quoted_names(connection, name)}")
    for name in tables:
        connection.exec_driver_sql(
            f"ALTER TABLE {quoted_names(connection, name)} DISABLE TRIGGER USER"
        )
    written = 0
    for name, content in archive.contents():
        if isinstance(content, RowsFile):
            part = manifest.tables[name]
            progress(name, 0, part.rows)
            target = f"{quoted_names(connection, name)} ({quoted_names(connection, *part.columns)})"
            try:
                copy_expert(connection, f"COPY {target} FROM STDIN", content)
            except (IntegrityError, DataError) as error:
                cause = str(error.orig).splitlines()[0]
                raise InvalidArgument(f"{archive.path}: {name}: {cause}") from error
            progress(name, part.rows, part.rows)
        else:
            write_object(object_url(stores.settings, name), content)
            written += 1
            progress("document store", written, manifest.documents.count)
    for name in tables:
        connection.exec_driver_sql(
            f"ALTER TABLE {quoted_names(connection, name)} ENABLE TRIGGER USER"
        )
    for name, value in manifest.sequences.items():
        connection.execute(_SET_SEQUENCE, {"name": name, "value": value})
