"""Exports tables of the record as Parquet files; entry point :func:`export_parquet`."""

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text

from adviser.exports.tables import TABLES, ExportTable
from common.settings import Settings
from graph.record.exported_rows import ExportSelection
from model.errors import InvalidArgument
from model.json_documents import as_json_time

#: File that marks a complete export: its :class:`ExportReport`, without the folder.
EXPORT_FILE = "export.json"
#: The same of exports by 0.2.0.
_EARLIER_FILE = "croissant.json"


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """A written table.

    :param files: number of its Parquet files
    :param size_bytes: of all its files
    """

    name: str
    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ExportReport:
    """A complete export.

    :param as_of: time of the data, the same for all tables
    """

    folder: Path
    as_of: datetime
    elapsed_s: float
    tables: tuple[ExportedTable, ...]

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "folder": str(self.folder),
            "as_of": as_json_time(self.as_of),
            "elapsed_s": round(self.elapsed_s, 3),
            "tables": [asdict(table) for table in self.tables],
        }


def _ignore(table: str, rows: int) -> None:
    """Show no progress."""


def export_parquet(
    engine: Engine,
    folder: Path,
    *,
    only: Collection[str] = (),
    replace: bool = False,
    progress: Callable[[str, int], None] = _ignore,
) -> ExportReport:
    """Write tables into a folder.

    All tables show the record at the same moment. The folder appears when it is complete. Memory
    does not grow with the number of rows, except for ``verdicts``, which compares all measurements.

    :param only: names of tables; all tables if empty
    :param replace: replace an earlier export in ``folder``
    :param progress: called with the name of a table and its number of rows so far
    :raises InvalidArgument: for an unknown table, or if ``folder`` must not be written
    """
    began = time.monotonic()
    if unknown := sorted(set(only) - TABLES.keys()):
        known = ", ".join(TABLES)
        raise InvalidArgument(f"--only: {unknown[0]!r} is not a table", hint=f"one of {known}")
    tables = [table for name, table in TABLES.items() if not only or name in only]
    marker = _EARLIER_FILE if (folder / _EARLIER_FILE).is_file() else EXPORT_FILE
    with (
        target_folder(folder, replace=replace, marker=marker) as part,
        at_one_moment(engine) as connection,
    ):
        as_of = connection.execute(text("SELECT now()")).scalar_one()
        written = tuple(write_rows(connection, table, part, progress) for table in tables)
        report = ExportReport(folder.resolve(), as_of, time.monotonic() - began, written)
        described = {name: it for name, it in report.as_json().items() if name != "folder"}
        (part / EXPORT_FILE).write_text(json.dumps(described, indent=1) + "\n")
    return report


def export_nightly(settings: Settings, engine: Engine) -> dict[str, Any] | None:
    """Replace the export in ``EXPORT_FOLDER``, if this is set, and return the report."""
    if settings.export_folder is None:
        return None
    return export_parquet(engine, settings.export_folder, replace=True).as_json()


def at_one_moment(engine: Engine) -> Connection:
    """A connection whose transaction shows the record at one moment."""
    return engine.connect().execution_options(
        isolation_level="REPEATABLE READ", postgresql_readonly=True
    )


def write_rows(
    connection: Connection,
    table: ExportTable,
    part: Path,
    progress: Callable[[str, int], None] = _ignore,
    selection: ExportSelection | None = None,
) -> ExportedTable:
    """Write a table, or the part of it that belongs to a selection, below the folder ``part``."""
    from adviser.exports.arrow_files import write_table  # slow

    folder = part / table.name
    rows = write_table(
        table, table.rows(connection, selection), folder, lambda count: progress(table.name, count)
    )
    sizes = [path.stat().st_size for path in folder.rglob("*.parquet")]
    return ExportedTable(table.name, rows, len(sizes), sum(sizes))


@contextmanager
def target_folder(target: Path, *, replace: bool, marker: str) -> Iterator[Path]:
    """Yield a new folder beside ``target``, and rename it to ``target`` after the block.

    If the block fails, ``target`` stays as it was. An interrupted replacement leaves the complete
    old folder, the complete new folder, or the old folder under a name with the suffix ``.old``.

    :param replace: replace an earlier content, if it has the file ``marker``
    :raises InvalidArgument: if ``target`` cannot be written or must not be replaced
    """
    target = Path(os.path.realpath(target))
    _check(target, replace=replace, marker=marker)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    old = target.with_name(f".{target.name}.old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        _check(target, replace=replace, marker=marker)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        part.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise InvalidArgument(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(target: Path, *, replace: bool, marker: str) -> None:
    if target.exists() and not target.is_dir():
        raise InvalidArgument(f"{target}: exists and is not a folder", hint="name a new folder")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not (target / marker).is_file():
        message = f"{target}: the folder has other content than an export"
        raise InvalidArgument(message, hint="name a new or an empty folder")
    if not replace:
        raise InvalidArgument(
            f"{target}: the folder has an export already", hint="--replace replaces it"
        )
