"""Writes a backup: everything that one snapshot of PostgreSQL shows, while others write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Engine, select, text

from common import __version__
from common.settings import Settings
from graph.backup.archive import LEFT_OUT, ArchiveWriter, Manifest, quoted_names, stored_tables
from graph.backup.backup_files import new_file
from graph.engine import relational_errors
from graph.migrate import REVISION
from graph.record.bulk import copy_expert
from graph.record.documents import packed_body
from graph.record.postgresql_helpers import AdvisoryLock, session_lock
from graph.tables import Document
from model.errors import AlreadyRunning, DamagedDocument
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
