"""``thoth record``, ``backup`` and ``restore``: verify the record, and keep a copy of it.

A backup is one file with everything that cannot be rebuilt.
"""

from dataclasses import asdict
from typing import Any

import click

from cli.console import print_json, progress_bars
from cli.options import CommandGroup, NamedPath, as_json_option
from common.settings import Settings
from graph.backup import create_backup, restore_backup
from graph.backup_archive import Archive, size_of
from graph.engine import open_stores
from graph.migrate import migrated_stores
from graph.projection import sync
from graph.projection import verify as verify_graph
from graph.record.freshness import BACKUP, add_successes
from graph.verification.run import RecordReport, verify_record
from ingest.sources.source_items import has_credentials, local_path
from model.text import counted, printable

#: Maximum number of differences that are printed without ``--all``.
_MOST_DIFFERENCES = 20


@click.group(cls=CommandGroup)
def record() -> None:
    """Compare stored rows with the documents that they were made from."""


@record.command()
@click.option("--documents", "most", type=click.IntRange(1), metavar="N",
              help="Compare only N documents; the next run continues from there.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(0, min_open=True), metavar="S",
              help="Stop after S seconds; the next run continues from there.")  # fmt: skip
@click.option("--replay", "replays", type=click.IntRange(0), default=20, show_default=True,
              metavar="N", help="Replay at most N pieces of recorded advice.")  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="Print every difference.")
@as_json_option
@click.pass_context
def verify(
    context: click.Context,
    most: int | None,
    seconds: float | None,
    replays: int,
    show_all: bool,
    as_json: bool,
) -> None:
    """Compare stored rows with their documents.

    Documents are compared with their digests, and all rows with their documents. If a document
    differs, its observations are not used as evidence until a later run finds no difference. Exit
    code 1 if something differs.
    """
    settings: Settings = context.obj
    task = "Comparing documents"
    with (
        migrated_stores(settings, graph=False) as stores,
        progress_bars(task, hidden=as_json) as bars,
    ):
        report = verify_record(
            settings,
            stores.engine,
            most=most,
            seconds=seconds,
            replays=replays,
            progress=lambda done, total: bars.update(task, done, total),
        )
    if as_json:
        print_json(report.as_json())
    else:
        print_record_report(report, None if show_all else _MOST_DIFFERENCES)
    if not report.equal:
        context.exit(1)


def print_record_report(report: RecordReport, shown: int | None) -> None:
    """Print the counts of compared documents and at most ``shown`` differences."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.documents.items()))
    rate = report.documents.total() / report.elapsed_s if report.elapsed_s else 0.0
    compared = (
        f"{counted(report.documents.total(), 'document')} compared in {report.elapsed_s:.1f} s"
    )
    click.echo(f"{compared} ({rate:.0f}/s): {kinds or 'none'}")
    for name, count in sorted(report.counts.items()):
        click.echo(f"{name.replace('_', ' ')}: {count}")
    for column, count in sorted(report.outdated.items()):
        click.echo(f"stored by an earlier version and different now: {column}: {count}")
    for difference in report.differences[:shown]:
        row = f" {difference.row}" if difference.row else ""
        values = f"stored {difference.stored}, expected {difference.expected}"
        line = f"{difference.document_id}: {difference.column}{row}: {values}"
        click.echo(printable(f"  {line}"))
    if hidden := len(report.differences[shown:] if shown is not None else ()) + report.more:
        click.echo(f"  and {hidden} more")
    if not report.complete:
        click.echo("not all documents were compared; the next run continues from here")
    if report.equal:
        click.echo("equal")
        return
    damaged = f", {report.damaged} of them damaged" if report.damaged else ""
    verb = "differs" if report.tampered == 1 else "differ"
    click.echo(f"{counted(report.tampered, 'document')} {verb}{damaged}")


_FAILED, _INCOMPLETE = 1, 6
_COPYING = "Copying"


class FileOrUrl(NamedPath):
    """A local file, or the URL of an object such as ``s3://bucket/thoth.tar``, as text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        local = local_path(value)
        if local is not None:
            return super().convert(local, param, ctx)
        if has_credentials(value):
            self.fail("a URL with credentials is refused: set them in the environment", param, ctx)
        return value


@click.command()
@click.argument("file", type=FileOrUrl())
@as_json_option
@click.pass_obj
def backup(settings: Settings, file: str, as_json: bool) -> int:
    """Write a backup of the record and its documents to a new FILE.

    FILE is a path, or a URL such as s3://bucket/thoth.tar. The service may go on working: all rows
    are of one moment. The file holds the digests of tokens and the settings without secrets; only
    its owner, or the readers of the bucket, can read it. Exit code 6 if the document store
    lacks documents that the record names.
    """
    with (
        migrated_stores(settings, graph=False) as stores,
        progress_bars(_COPYING, hidden=as_json) as bars,
    ):
        manifest = create_backup(
            settings,
            stores.engine,
            file,
            lambda part, done, total: bars.update(_COPYING, done, total, description=part),
        )
        if not manifest.missing_documents:
            with stores.engine.begin() as connection:
                add_successes(connection, BACKUP, ["backup"])
    size_bytes = size_of(file)
    rows = sum(part.rows for part in manifest.tables.values())
    documents, missing = manifest.documents.count, manifest.missing_documents
    if as_json:
        print_json({
            "file": file, "size_bytes": size_bytes, "rows": rows, "documents": documents,
            "missing_documents": missing, "schema": manifest.schema,
            "created_at": manifest.created_at,
        })  # fmt: skip
    else:
        content = f"{counted(rows, 'row')} of {counted(len(manifest.tables), 'table')}"
        click.echo(f"{file}: {content}, {counted(documents, 'document')} of the document store")
        click.echo(f"{size_bytes / 1e6:,.1f} MB, schema {manifest.schema}")
        if missing:
            lost = counted(missing, "document")
            click.echo(f"{lost} missing: `thoth record verify` names them", err=True)
    return _INCOMPLETE if missing else 0


@click.command()
@click.argument("file", type=FileOrUrl(exists=True, dir_okay=False))
@as_json_option
@click.pass_obj
def restore(settings: Settings, file: str, as_json: bool) -> int:
    """Restore a backup into empty stores.

    FILE is a path, or a URL such as s3://bucket/thoth.tar.
    The digests in FILE are compared before anything is written. A backup of an earlier version is
    migrated. Then the graph is built, and both stores are verified, as by `thoth record verify` and
    `thoth graph verify`. Exit code 1 if they differ.
    """
    with progress_bars(hidden=as_json) as bars:
        archive = Archive(file, lambda done, total: bars.update("Reading", done, total))
        with open_stores(settings) as stores:
            manifest = restore_backup(
                stores,
                archive,
                lambda part, done, total: bars.update(_COPYING, done, total, description=part),
            )
            projected = sync(
                stores.engine,
                stores.driver,
                progress=lambda done, total: bars.update("Projecting", done, total),
                database=stores.database,
            )
            record = verify_record(
                settings,
                stores.engine,
                progress=lambda done, total: bars.update("Comparing documents", done, total),
            )
            graph = verify_graph(stores.engine, stores.driver, database=stores.database)
    rows = sum(part.rows for part in manifest.tables.values())
    equal = record.equal and graph.equal
    if as_json:
        print_json({
            "rows": rows, "documents": manifest.documents.count,
            "created_at": manifest.created_at, "projected": projected.entries,
            "record": record.as_json(), "graph": {"equal": graph.equal, **asdict(graph)},
        })  # fmt: skip
        return 0 if equal else _FAILED
    click.echo(f"{counted(rows, 'row')} and {counted(manifest.documents.count, 'document')}")
    click.echo(f"of {manifest.created_at}, by version {manifest.version}")
    click.echo(f"record: {'equal' if record.equal else 'differs, see `thoth record verify`'}")
    click.echo(f"graph: {'equal' if graph.equal else 'differs, see `thoth graph verify`'}")
    return 0 if equal else _FAILED
