"""``thoth advisories``: which versions have known vulnerabilities."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from common.advisories import AffectedPackage, Range
    from graph.record.advisories import SourceState
    from graph.record.vulnerabilities import AdvisoryCounts, PackageVulnerability
    from ingest.advisories.sync import SyncRun


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
    from ingest.advisories.sync import SyncRun, check_source, run_sync
    from ingest.sources.urls import source_argument

    settings: Settings = context.obj
    if source is not None and osv:
        raise click.UsageError("--osv reads the archive in ADVISORIES: leave SOURCE out")
    if source is None and settings.advisories is None:
        raise click.UsageError(
            "ADVISORIES is not set. Name a SOURCE, or set ADVISORIES to the address of OSV's "
            "archive for Python packages, PyPI/all.zip in its public bucket"
        )
    place = source_argument(source if source is not None else settings.advisories or "")
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
    from sqlalchemy import exists, select

    from graph.engine import relational_errors
    from graph.record.advisories import HAS_ADVISORIES
    from graph.record.vulnerabilities import vulnerabilities_of
    from ingest.record import open_record

    name, version = _named_package(package)
    with open_record(settings) as engine, relational_errors(settings), engine.connect() as record:
        found = vulnerabilities_of(record, name, version)
        known = record.scalar(select(exists().where(HAS_ADVISORIES)))
    print_vulnerabilities(found, package, as_json=as_json)
    if not known:
        hint = "`thoth advisories sync --osv` reads the archive in ADVISORIES"
        click.echo(f"No advisories have been read; {hint}", err=True)


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

    from ingest.sources.reader import count_hint

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


_NEVER = "none; `thoth advisories sync --osv` reads the archive in ADVISORIES"
#: Versions named one by one; more are only counted.
_NAMED = 6


def print_sync(run: SyncRun, *, as_json: bool, dry_run: bool) -> None:
    """What became of a source, and what a person should do next."""
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, **run.as_json()}, indent=2))
        return
    report = run.advisories
    if report.unchanged:
        click.echo("advisories       unchanged since they were read last")
    else:
        verb = "can be taken in" if dry_run else "new"
        click.echo(
            f"advisories       {report.read} read: {report.new} {verb}, {report.updated} updated, "
            f"{report.known} already known, {report.quarantined} quarantined"
        )
    for words in _remarks(run):
        click.echo(words)
    if report.as_of is None:
        click.echo("source           not recorded: no advisory about a Python package was read")
    if not dry_run:
        click.echo(f"vulnerabilities  {len(report.vulnerabilities)} new or changed")
        click.echo(f"versions         {len(report.versions)} of those known here are concerned")
    _print_graph(run)


def _remarks(run: SyncRun) -> Iterable[str]:
    report = run.advisories
    remarks = (
        (report.older, "older than what is known"),
        (report.foreign, "about other ecosystems only, left out"),
        (report.withdrawn, "withdrawn"),
        (report.malformed_vectors, "CVSS vectors that give no score"),
        (report.unreadable_versions, "ends of ranges that are no versions, taken as affected"),
    )
    yield from (f"                 {count} {words}" for count, words in remarks if count)
    if report.mended:
        yield f"quarantine       {report.mended} mended"
    if report.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in report.reasons.most_common())
        yield f"refused          {reasons}; see `thoth ingest quarantine`"


def _print_graph(run: SyncRun) -> None:
    if run.graph_error is not None:
        click.echo(f"graph            behind: {run.graph_error}", err=True)
        click.echo(f"                 {run.lag} entries wait; `thoth graph sync` later", err=True)
    elif run.lag is not None:
        click.echo(f"graph            {f'{run.lag} entries wait' if run.lag else 'up to date'}")


def print_status(counts: AdvisoryCounts, sources: Sequence[SourceState], *, as_json: bool) -> None:
    """What is known, and how fresh it is."""
    if as_json:
        listed = [asdict(it) | {"as_of": it.as_of.isoformat()} for it in sources]
        click.echo(json.dumps({**asdict(counts), "sources": listed}, indent=2))
        return
    order = ("critical", "high", "medium", "low", "none", "unknown")
    found = counts.vulnerabilities
    severities = ", ".join(f"{found[name]} {name}" for name in order if name in found)
    click.echo(f"advisories       {counts.advisories}")
    click.echo(f"vulnerabilities  {sum(found.values())}: {severities or 'none'}")
    if counts.withdrawn:
        click.echo(f"                 {counts.withdrawn} more are withdrawn")
    click.echo(f"affected         {counts.versions} versions of {counts.packages} packages")
    if counts.quarantined:
        click.echo(f"quarantined      {counts.quarantined}; see `thoth ingest quarantine`")
    for place, it in enumerate(sources):
        label = "sources" if place == 0 else ""
        when = it.as_of.strftime("%Y-%m-%d %H:%M UTC")
        source = printable(it.source)
        click.echo(f"{label:<17}{source}: {it.advisories} advisories as of {when}")
    if not sources:
        click.echo(f"sources          {_NEVER}")


def print_vulnerabilities(
    found: Sequence[PackageVulnerability], asked: str, *, as_json: bool
) -> None:
    """The vulnerabilities of a package or a version."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if as_json:
        click.echo(json.dumps([_as_json(it) for it in found], indent=2))
        return
    if not found:
        click.echo(f"No vulnerability of {printable(asked)!r} is known here.")
        return
    table = Table(box=SIMPLE_HEAD)
    for heading in ("vulnerability", "severity", "affected", "known here", "summary"):
        table.add_column(heading, overflow="fold")
    for it in found:
        known = _some(it.versions) or "none"
        cells = (_names(it), _severity(it), ranges_text(it.packages), known, it.summary or "")
        table.add_row(*(escape(printable(cell, keep="\n")) for cell in cells))
    # Whoever reads a pipe or a file is not bound to the width of a terminal.
    Console(width=None if Console().is_terminal else 240).print(table)


def _names(it: PackageVulnerability) -> str:
    others = [alias for alias in it.aliases if alias != it.vulnerability_id]
    withdrawn = ["(withdrawn)"] if it.withdrawn_at else []
    return "\n".join((it.vulnerability_id, *others, *withdrawn))


def _severity(it: PackageVulnerability) -> str:
    words = it.severity or "unknown"
    return words if it.score is None else f"{words} {it.score:g}"


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts) if len(texts) <= _NAMED else f"{len(texts)} versions, to {texts[-1]}"


def ranges_text(packages: Iterable[AffectedPackage]) -> str:
    """Ranges as a specifier would have them, one a line; listed versions if there are none."""
    packages = tuple(packages)
    lines = {_range_text(events): None for it in packages for events in it.ranges}
    if not lines:
        return _some(tuple(dict.fromkeys(version for it in packages for version in it.versions)))
    return "\n".join(lines)


_SIGNS = {
    "introduced": ">=",
    "fixed": "<",
    "last_affected": "<=",
    "limit": "<",
}


def _range_text(events: Range) -> str:
    return ", ".join(f"{_SIGNS[it.kind]}{it.version}" for it in events)


def _as_json(it: PackageVulnerability) -> dict[str, Any]:
    times = {
        name: moment.isoformat() if (moment := getattr(it, name)) else None
        for name in ("published_at", "modified_at", "withdrawn_at")
    }
    packages = [
        {
            "name": package.name,
            "ranges": [[{e.kind.value: e.version} for e in events] for events in package.ranges],
            "versions": package.versions,
        }
        for package in it.packages
    ]
    return asdict(it) | times | {"packages": packages}
