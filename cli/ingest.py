"""``thoth ingest``: get knowledge in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from common.settings import Settings

if TYPE_CHECKING:
    from ingest.documents import Skipped
    from ingest.runs import RunReport


@click.group()
def ingest() -> None:
    """Take in documents: inspections of stacks, once each."""


@ingest.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option("--list-skipped", is_flag=True, help="List the files that are not inspections.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def inspections(
    context: click.Context,
    sources: tuple[str, ...],
    dry_run: bool,
    list_skipped: bool,
    as_json: bool,
) -> None:
    """Take in inspections from files, folders, .tar.gz, .zip or URLs such as s3://bucket/prefix.

    Inspections are recognised by their content, whatever their file name. Other files are
    skipped and counted; results of other benchmarks are named.

    The same content is stored once. What cannot be taken in goes to the quarantine,
    the rest goes on, and the exit code is 1. An interrupted run is resumed by
    running it again.
    """
    from common.redaction import absolute_source
    from ingest.pipeline import ignore_skipped
    from ingest.runs import check, run

    settings: Settings = context.obj
    places = [absolute_source(source) for source in sources]
    skipped: list[Skipped] | None = [] if list_skipped else None
    on_skipped = ignore_skipped if skipped is None else skipped.append
    with ExitStack() as stack:
        on_document = progress_bar(stack, places, quiet=as_json)
        report = (check if dry_run else run)(settings, places, on_document, on_skipped)
    _finish(context, report, as_json=as_json, dry_run=dry_run, skipped=skipped)


@ingest.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def nightly(context: click.Context, as_json: bool) -> None:
    """Take in every source in INGEST_SOURCES, new releases and advisories: what a cron line runs.

    Releases are those of all packages that are known; advisories are read if ADVISORIES is set.
    For NIGHTLY_VERIFY_S seconds the record is compared with its documents, each night the next.
    Exit code 5 if another nightly run is at work.
    """
    from common.redaction import absolute_source
    from ingest.runs import run_nightly

    settings: Settings = context.obj
    places = [absolute_source(source) for source in settings.ingest_sources]
    with ExitStack() as stack:
        report = run_nightly(settings, places, progress_bar(stack, places, quiet=as_json))
    _finish(context, report, as_json=as_json)


@ingest.command()
@click.option("--retry", is_flag=True, help="Read the sources of listed inspections again.")
@click.option("--forget", type=int, multiple=True, metavar="ID", help="Take ID off the list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def quarantine(context: click.Context, retry: bool, forget: tuple[int, ...], as_json: bool) -> None:
    """List the documents that were refused, with reason, place and field."""
    from cli.ingest_view import print_quarantine
    from ingest.runs import forget_refusals, list_quarantine, retry_quarantine

    settings: Settings = context.obj
    if forget:
        forgotten = forget_refusals(settings, forget)
        click.echo(f"{forgotten} of {len(forget)} taken off the list.", err=True)
    if retry:
        with ExitStack() as stack:
            report = retry_quarantine(settings, progress_bar(stack, [], quiet=as_json))
        _finish(context, report, as_json=as_json)
        return
    print_quarantine(list_quarantine(settings), as_json=as_json)


def progress_bar(stack: ExitStack, sources: list[str], *, quiet: bool) -> Callable[[], None]:
    """A function to call for each document; it moves a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ingest.sources import count_hint

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return lambda: None
    hints = [count_hint(source) for source in sources]
    total = sum(hint for hint in hints if hint) if hints and None not in hints else None
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
    stack.enter_context(bar)
    task = bar.add_task("inspections", total=total)
    return lambda: bar.advance(task)


def _finish(
    context: click.Context,
    report: RunReport,
    *,
    as_json: bool,
    dry_run: bool = False,
    skipped: Sequence[Skipped] | None = None,
) -> None:
    from cli.ingest_view import print_report

    print_report(report, as_json=as_json, dry_run=dry_run, skipped=skipped)
    if not report.clean:
        context.exit(1)
