"""``thoth export``: data of the record for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from adviser.exports.parquet import ExportReport, export_parquet
from cli.console import Column, Table, print_json, progress_bars
from cli.help_pages import CommandGroup
from cli.options import NamedPath, as_json_option
from common.settings import Settings
from ingest.record import open_record


@click.group(cls=CommandGroup)
def export() -> None:
    """Export the record for other programs."""


@export.command()
@click.argument("folder", type=NamedPath(path_type=Path), metavar="DIR")
@click.option("--only", multiple=True, metavar="TABLE", help="Export only this table; repeatable.")
@click.option("--replace", is_flag=True, help="Replace an earlier export in DIR.")
@as_json_option
@click.pass_obj
def parquet(
    settings: Settings, folder: Path, only: tuple[str, ...], replace: bool, as_json: bool
) -> None:
    """Write inspections, releases, advice and verdicts as Parquet files.

    DIR is a new or an empty folder. It appears when the export is complete, and its file
    croissant.json describes all tables, columns and units. Logs, messages, requests and identifiers
    of advice are not exported.
    """
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        report = export_parquet(engine, folder, only=only, replace=replace, progress=bars.update)
    if as_json:
        print_json(report.as_json())
    else:
        print_export(report)


def print_export(report: ExportReport) -> None:
    """Print the tables of an export and where it is."""
    table = Table([Column("table"), *(Column(it, right=True) for it in ("rows", "files", "size"))])
    for written in report.tables:
        size = f"{written.size_bytes / 1e6:,.2f} MB"
        table.add(written.name, f"{written.rows:,}", str(written.files), size)
    table.print()
    click.echo(f"Written to {report.folder} in {report.elapsed_s:.1f} s.")
