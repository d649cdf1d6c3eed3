"""``record``: prove that the record is what its documents say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from graph.verification.run import RecordReport

#: Differences that are printed unless all are asked for.
_SHOWN = 20


@click.group()
def record() -> None:
    """The record: documents, and the rows that are made of them."""


@record.command()
@click.option(
    "--documents",
    "most",
    type=click.IntRange(1),
    metavar="N",
    help="Compare the next N documents only, from where the last run ended.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Begin nothing after S seconds; the next run goes on from there.",
)
@click.option(
    "--replay",
    "replays",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    metavar="N",
    help="Answer at most N pieces of recorded advice again.",
)
@click.option("--all", "show_all", is_flag=True, help="Print every difference, not only the first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def verify(
    context: click.Context,
    most: int | None,
    seconds: float | None,
    replays: int,
    show_all: bool,
    as_json: bool,
) -> None:
    """Compare stored documents with their digests, and all rows with their documents.

    Observations of a document in which anything differs are refused as evidence until a later run
    finds the document whole again. Exit code 1 if something differs.
    """
    from rich.console import Console
    from rich.progress import Progress

    from graph.migrate import migrated_stores
    from graph.verification.run import verify_record

    settings: Settings = context.obj
    console = Console(stderr=True)
    hidden = as_json or not console.is_terminal
    with (
        migrated_stores(settings, graph=False) as stores,
        Progress(console=console, disable=hidden, transient=True) as bar,
    ):
        number = bar.add_task("Comparing documents", total=None)
        report = verify_record(
            settings,
            stores.engine,
            most=most,
            seconds=seconds,
            replays=replays,
            progress=lambda done, total: bar.update(number, completed=done, total=total),
        )
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        print_record_report(report, None if show_all else _SHOWN)
    if not report.equal:
        context.exit(1)


def print_record_report(report: RecordReport, shown: int | None) -> None:
    """What was compared, and every difference up to ``shown``."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.documents.items()))
    rate = report.documents.total() / report.elapsed_s if report.elapsed_s else 0.0
    compared = f"{_documents(report.documents.total())} compared in {report.elapsed_s:.1f} s"
    click.echo(f"{compared} ({rate:.0f}/s): {kinds or 'none'}")
    for counted, count in sorted(report.counts.items()):
        click.echo(f"{counted.replace('_', ' ')}: {count}")
    for column, count in sorted(report.outdated.items()):
        click.echo(f"stored by an earlier version and different now: {column}: {count}")
    for it in report.differences[:shown]:
        row = f" {it.row}" if it.row else ""
        line = f"{it.document_id}: {it.column}{row}: stored {it.stored}, expected {it.expected}"
        click.echo(printable(f"  {line}"))
    if hidden := len(report.differences[shown:] if shown is not None else ()) + report.more:
        click.echo(f"  and {hidden} more")
    if not report.complete:
        click.echo("not all documents were compared; the next run goes on from here")
    if report.equal:
        click.echo("equal")
        return
    damaged = f", {report.damaged} of them damaged" if report.damaged else ""
    verb = "differs" if report.tampered == 1 else "differ"
    click.echo(f"{_documents(report.tampered)} {verb}{damaged}")


def _documents(count: int) -> str:
    return f"{count} {'document' if count == 1 else 'documents'}"
