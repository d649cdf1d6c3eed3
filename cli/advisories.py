"""``thoth advisories``: which versions have known vulnerabilities."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import click

from common.settings import Settings


@click.group()
def advisories() -> None:
    """Security advisories in the OSV format, and the versions that they affect."""


@advisories.command("sync")
@click.argument("source", required=False)
@click.option("--osv", is_flag=True, help="Read the archive at the address in ADVISORIES.")
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def sync_command(
    context: click.Context, source: str | None, osv: bool, dry_run: bool, as_json: bool
) -> None:
    """Take in what is new in SOURCE: a zip of OSV documents, a folder, a file or a URL.

    Without SOURCE, or with --osv, the archive in ADVISORIES is read. OSV publishes one for
    Python packages: PyPI/all.zip in its public bucket.

    A source that did not change is not read again. What cannot be taken in goes to the
    quarantine, the rest goes on, and the exit code is 1. An interrupted run is resumed by
    running it again.
    """
    from cli.advisory_views import print_sync
    from common.redaction import absolute_source
    from ingest.advisories.runs import SyncRun, run_sync
    from ingest.advisories.sync import check_source

    settings: Settings = context.obj
    if source and osv:
        raise click.UsageError("--osv reads the archive in ADVISORIES: leave SOURCE out")
    named = source or settings.advisories
    if named is None:
        raise click.UsageError(
            "ADVISORIES is not set. Name a SOURCE, or set ADVISORIES to the address of OSV's "
            "archive for Python packages, PyPI/all.zip in its public bucket"
        )
    place = absolute_source(named)
    with ExitStack() as stack:
        on_document = _progress(stack, place, quiet=as_json)
        if dry_run:
            run = SyncRun(check_source(place, on_document))
        else:
            run = run_sync(settings, place, on_document)
    print_sync(run, as_json=as_json, dry_run=dry_run)
    if run.advisories.quarantined:
        context.exit(1)


@advisories.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Count what is known, and tell how fresh it is."""

    from cli.advisory_views import print_status
    from graph.engine import relational_errors
    from graph.record.advisories import source_states
    from graph.record.vulnerabilities import advisory_counts
    from ingest.record import open_record

    with open_record(settings) as engine, relational_errors(settings), engine.connect() as record:
        counts, sources = advisory_counts(record), source_states(record)
    print_status(counts, sources, as_json=as_json)


@advisories.command("list")
@click.argument("package", metavar="NAME[==VERSION]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_command(settings: Settings, package: str, as_json: bool) -> None:
    """List the vulnerabilities of a package, or those that affect one version of it.

    The version need not be known here.
    """

    from cli.advisory_views import print_vulnerabilities
    from graph.engine import relational_errors
    from graph.record.vulnerabilities import vulnerabilities_of
    from ingest.record import open_record

    name, version = _named_package(package)
    with open_record(settings) as engine, relational_errors(settings), engine.connect() as record:
        found = vulnerabilities_of(record, name, version)
    print_vulnerabilities(found, package, as_json=as_json)


def _named_package(text: str) -> tuple[str, str | None]:
    """Name and version of ``NAME`` or ``NAME==VERSION``.

    :raises InvalidArgument: if it is neither
    """
    from packaging.utils import InvalidName, canonicalize_name

    from common.errors import InvalidArgument
    from common.packages import version_of

    name, equals, version = (part.strip() for part in text.partition("=="))
    try:
        canonicalize_name(name, validate=True)
    except InvalidName:
        raise InvalidArgument(f"{name[:80]!r} is not the name of a package") from None
    if equals and version_of(version) is None:
        raise InvalidArgument(f"{version[:80]!r} is not a version by PEP 440")
    return name, version or None


def _progress(stack: ExitStack, source: str, *, quiet: bool) -> Callable[[], None]:
    """A function to call for each document; it moves a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ingest.sources import count_hint

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return lambda: None
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
    stack.enter_context(bar)
    task = bar.add_task("advisories", total=count_hint(source))
    return lambda: bar.advance(task)
