"""``thoth ingest``: get knowledge in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from common.errors import ProjectError
from common.settings import Settings

if TYPE_CHECKING:
    from ingest.runs import RunReport
    from ingest.sources.documents import SkippedFile
import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from common.terminal import printable

if TYPE_CHECKING:
    from graph.record.quarantine import QuarantineEntry
    from ingest.runs import NightlyReport, RunReport
    from ingest.sources.documents import SkippedFile


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
    from ingest.inspections.pipeline import ignore_skipped
    from ingest.runs import check, run
    from ingest.sources.urls import source_argument

    settings: Settings = context.obj
    places = [source_argument(source) for source in sources]
    skipped: list[SkippedFile] | None = [] if list_skipped else None
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
    from ingest.runs import forget_refusals, list_quarantine, retry_quarantine

    settings: Settings = context.obj
    if forget:
        forgotten = forget_refusals(settings, forget)
        click.echo(f"{len(forgotten)} of {len(forget)} taken off the list.", err=True)
        if unknown := sorted(set(forget) - forgotten):
            numbers = ", ".join(map(str, unknown))
            raise ProjectError(f"not on the list: {numbers}")
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

    from ingest.sources.reader import count_hint

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
    skipped: Sequence[SkippedFile] | None = None,
) -> None:

    print_report(report, as_json=as_json, dry_run=dry_run, skipped=skipped)
    if not report.clean:
        context.exit(1)


def print_report(
    report: RunReport,
    *,
    as_json: bool,
    dry_run: bool,
    skipped: Sequence[SkippedFile] | None = None,
) -> None:
    """One line per kind, and what a person should do next.

    :param skipped: the skipped files, if they are to be listed
    """
    from ingest.runs import NightlyReport

    if as_json:
        listed = {} if skipped is None else {"skipped_files": [asdict(it) for it in skipped]}
        click.echo(json.dumps({"dry_run": dry_run, **report.as_json(), **listed}, indent=2))
        return
    seen = report.inspections
    verb = "can be taken in" if dry_run else "new"
    click.echo(
        f"inspections   {seen.read} read: {seen.new} {verb}, {seen.known} already known, "
        f"{seen.quarantined} quarantined"
    )
    outcomes = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in sorted(seen.observations.items())
    )
    new = f"{seen.observations.total()} {verb}" + (f": {outcomes}" if outcomes else "")
    click.echo(f"observations  {new}; {seen.observations_known} already known")
    if seen.stacks_unknown:
        click.echo(f"              {seen.stacks_unknown} inspections name no stack")
    if seen.mended:
        click.echo(f"quarantine    {seen.mended} mended")
    if seen.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in seen.reasons.most_common())
        where = "" if dry_run else "; see `thoth ingest quarantine`"
        click.echo(f"refused       {reasons}{where}")
    if seen.skipped:
        _print_skipped(seen.skipped, skipped)
    if isinstance(report, NightlyReport):
        _print_parts(report)
    if report.graph_error is not None:
        click.echo(f"graph         behind: {report.graph_error}", err=True)
        if report.lag:
            waiting = f"{report.lag} entries wait; `thoth graph sync` later"
            click.echo(f"              {waiting}", err=True)
    elif report.lag is not None:
        click.echo(
            f"graph         {'up to date' if not report.lag else f'{report.lag} entries wait'}"
        )


def _print_skipped(counts: Counter[str], files: Sequence[SkippedFile] | None) -> None:
    """How many files were skipped and why; each of them if they are to be listed."""
    count = counts.total()
    kind = "file that is not an inspection" if count == 1 else "files that are not inspections"
    click.echo(f"skipped       {count} {kind}")
    for reason, many in counts.most_common():
        click.echo(f"              {reason}: {many}")
    if files is None:
        click.echo("              `thoth ingest inspections --list-skipped` lists them")
    for it in files or ():
        click.echo(f"              {printable(f'{it.source}/{it.place}')}: {it.reason}")


def _print_parts(report: NightlyReport) -> None:
    """What a nightly run did besides."""
    from cli.packages_view import print_crawl

    for crawled in report.packages or ():
        print_crawl(crawled)
    if report.advisories is not None:
        seen = report.advisories
        click.echo(
            f"advisories    {seen.read} read: {seen.new} new, {seen.updated} updated, "
            f"{seen.quarantined} quarantined; {len(seen.versions)} releases concerned"
        )
    if report.record is not None:
        compared = report.record
        differ = f"{compared.tampered} differ" if compared.tampered else "all equal"
        hint = "; see `thoth ingest quarantine`" if compared.tampered else ""
        click.echo(f"record        {compared.documents.total()} documents compared: {differ}{hint}")
    for name, error in report.skipped:
        click.echo(f"{name:<13} not done: {error}", err=True)


def print_quarantine(entries: Sequence[QuarantineEntry], *, as_json: bool) -> None:
    """The list of what was refused."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    if as_json:
        click.echo(json.dumps([_entry_json(entry) for entry in entries], indent=2))
        return
    if not entries:
        click.echo("The quarantine is empty.")
        return
    table = Table("id", box=SIMPLE_HEAD)
    for heading in ("reason", "where", "field", "what was wrong", "tries"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        where = "\n".join(filter(None, (entry.source, entry.place)))
        table.add_row(
            str(entry.quarantine_id), entry.reason,
            *map(_shown, (where, entry.field, entry.message)), str(entry.attempts),
        )  # fmt: skip
    # Whoever reads a pipe or a file is not bound to the width of a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)


def _shown(text: str) -> str:
    """Text of a document for a terminal: no markup and no control characters."""
    from rich.markup import escape

    return escape(printable(text, keep="\n"))


def _entry_json(entry: QuarantineEntry) -> dict[str, object]:
    return {
        "id": entry.quarantine_id,
        "kind": entry.kind,
        "source": entry.source,
        "place": entry.place,
        "reason": entry.reason,
        "field": entry.field,
        "message": entry.message,
        "attempts": entry.attempts,
        "first_seen_at": entry.first_seen_at.isoformat(),
        "last_seen_at": entry.last_seen_at.isoformat(),
    }
