"""``thoth record``: compare stored rows with their documents."""

from __future__ import annotations

import click

from cli.console import print_json, progress_bars
from cli.help_pages import CommandGroup
from cli.options import as_json_option
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.verification.run import RecordReport, verify_record
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
    """Print what was compared and at most ``shown`` differences."""
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
