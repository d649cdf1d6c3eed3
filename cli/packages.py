"""``thoth packages``: what is known of releases, how it gets in, and how fresh it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from cli.options import moment as moment_of
from common.errors import InvalidArgument
from common.settings import Settings

if TYPE_CHECKING:
    from common.errors import ProjectError
    from ingest.releases.pipeline import ReleaseReport, ReleaseSourceOptions
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.closure import closure
from ingest.crawl.crawl_request import MAX_PACKAGES, MAX_VERSIONS

if TYPE_CHECKING:
    from ingest.crawl.reports import CrawlReport
    from ingest.crawl.runs import PackagesReport


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--as-of",
    metavar="DATE",
    help="When the index said so, such as 2024-05-01; else the newest upload that it tells of.",
)
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def import_command(
    context: click.Context, files: tuple[str, ...], as_of: str | None, dry_run: bool, as_json: bool
) -> None:
    """Take in releases from JSON lines (.jsonl, .ndjson, packed or not), from JSON documents of
    releases or of solvers (.json), and from folders and archives of these.

    What is known already is passed over. What cannot be taken in goes to the quarantine with
    the number of its line, the rest goes on, and the exit code is 1, as it is if a file has
    another hash than before. An interrupted run is resumed by running it again.
    """
    from ingest.sources.urls import source_argument

    settings: Settings = context.obj
    moment = None if as_of is None else _as_of(as_of)
    sources = [source_argument(file) for file in files]
    with ExitStack() as stack:
        on_release = _release_counter(stack, quiet=as_json)
        run = _check if dry_run else _run
        report = run(settings, sources, _reading(settings, moment), on_release)
    _print_import(report, as_json=as_json, dry_run=dry_run)
    if not report.releases.clean:
        context.exit(1)


@dataclass(frozen=True, slots=True)
class _ImportReport:
    """A run's outcome.

    :param lag: outbox entries that the graph does not show yet; ``None`` after a dry run
    :param graph_error: why the graph could not catch up, if it could not
    """

    releases: ReleaseReport
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        error = str(self.graph_error) if self.graph_error else None
        return {"release": self.releases.as_json(), "graph": {"lag": self.lag, "error": error}}


def _as_of(text: str) -> datetime:
    now = datetime.now(UTC)
    moment = moment_of(text, now, "--as-of")
    if moment is None or moment > now:
        raise InvalidArgument(f"--as-of: {text!r} lies in the future")
    return moment


def _reading(settings: Settings, as_of: datetime | None) -> ReleaseSourceOptions:
    from common.index.configuration import configured_indexes
    from ingest.releases.pipeline import ReleaseSourceOptions

    addresses = {
        index.url.rstrip("/"): name for name, index in configured_indexes(settings).items()
    }
    return ReleaseSourceOptions(as_of=as_of, addresses=addresses)


def _check(
    settings: Settings,
    sources: Sequence[str],
    reading: ReleaseSourceOptions,
    on_release: Callable[[], None],
) -> _ImportReport:
    """What a run would do in an empty record; no store is started or written."""
    from ingest.releases.pipeline import check_releases

    return _ImportReport(check_releases(sources, reading, on_release))


def _run(
    settings: Settings,
    sources: Sequence[str],
    reading: ReleaseSourceOptions,
    on_release: Callable[[], None],
) -> _ImportReport:
    from graph.projection import lag
    from ingest.beside import graph_beside, start_side_by_side
    from ingest.record import open_record
    from ingest.releases.pipeline import import_releases

    start_side_by_side(settings)
    with open_record(settings) as engine:
        with graph_beside(settings, engine) as projector:
            report = import_releases(
                settings, engine, sources, reading,
                on_release=on_release, on_commit=projector.wake,
            )  # fmt: skip
        return _ImportReport(report, lag(engine).count, projector.error)


def _release_counter(stack: ExitStack, *, quiet: bool) -> Callable[[], None]:
    """A function to call for each release; it moves a counter on a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return lambda: None
    counter = Progress(
        SpinnerColumn(), TextColumn("releases {task.completed:,.0f}"), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
    stack.enter_context(counter)
    task = counter.add_task("releases", total=None)
    return lambda: counter.advance(task)


def _print_import(report: _ImportReport, *, as_json: bool, dry_run: bool) -> None:
    from cli.packages_view import print_graph, print_releases

    if as_json:
        import json

        click.echo(json.dumps({"dry_run": dry_run, **report.as_json()}, indent=2))
        return
    print_releases(report.releases, dry_run=dry_run)
    print_graph(report.lag, report.graph_error)


#: Days of which `status` counts events.
_DAYS = 7

_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_index = click.option("--index", metavar="NAME", help="A configured index; else the default one.")


@click.group()
def packages() -> None:
    """Releases of packages: read them from indexes and dumps, keep them fresh, show them."""


@packages.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@_index
@click.option(
    "--max-packages",
    type=click.IntRange(1),
    default=MAX_PACKAGES,
    show_default=True,
    help="Packages asked for in all.",
)
@click.option(
    "--max-versions",
    type=click.IntRange(1),
    default=MAX_VERSIONS,
    show_default=True,
    help="Newest releases read of each; more where a requirement needs others.",
)
@click.option("--newer-than", metavar="DATE", help="Read no release uploaded before, if it can be.")
@click.option("--no-watch", is_flag=True, help="Do not follow their releases from now on.")
@click.option("--pre", is_flag=True, help="Read pre-releases also where there are others.")
@click.option(
    "--retry", is_flag=True, help="Look again at what failed, was given up, or was broken."
)
@_as_json
@click.pass_context
def add(
    context: click.Context, /, names: tuple[str, ...], retry: bool, as_json: bool, **bounds: Any
) -> None:
    """Read the releases of packages, and of all that they need, from an index.

    NAME may have extras and a specifier, such as 'torch[opt]==2.9'. What is known is not read
    again, so an interrupted run is resumed by running it again. Exit code 1 if a package that
    was named is missing or has no release that can be chosen and meets the specifier, if
    something could not be read, or if a file has another hash than before; 3 if the index does
    not answer.
    """
    from ingest.crawl.crawl_request import CrawlBounds
    from ingest.crawl.runs import add_packages, roots_of

    settings: Settings = context.obj
    roots = roots_of(names)
    moment = moment_of(bounds["newer_than"], datetime.now(UTC), "--newer-than")
    with ExitStack() as stack:
        report = add_packages(
            settings,
            roots,
            CrawlBounds(bounds["max_packages"], bounds["max_versions"], moment, bounds["pre"]),
            index=bounds["index"],
            watching=not bounds["no_watch"],
            retry=retry,
            on_progress=progress_bars(stack, quiet=as_json),
        )
    _finish(context, report, as_json=as_json)


@packages.command()
@_as_json
@click.pass_context
def refresh(context: click.Context, as_json: bool) -> None:
    """Ask the indexes what is new of every package that is known, and read it.

    Releases that are new, yanked or gone become events; what new ones need is followed. It is
    part of `thoth ingest nightly`. Exit codes as of `add`, and 5 if another refresh is at work.
    """
    from ingest.crawl.runs import refresh as refresh_all

    settings: Settings = context.obj
    with ExitStack() as stack:
        report = refresh_all(settings, on_progress=progress_bars(stack, quiet=as_json))
    _finish(context, report, as_json=as_json)


@packages.command()
@_as_json
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show how much is known of each index, how fresh it is, and what is wrong."""
    from cli.packages_view import print_json, print_status
    from graph.record.indexes import index_status
    from ingest.record import open_record

    with open_record(context.obj) as engine, engine.connect() as connection:
        indexes = index_status(connection, _DAYS)
    if as_json:
        print_json({"days": _DAYS, "indexes": [asdict(it) for it in indexes]})
    else:
        print_status(indexes, _DAYS)


@packages.command()
@click.argument("package", metavar="NAME[==VERSION]")
@_as_json
@click.pass_context
def show(context: click.Context, package: str, as_json: bool) -> None:
    """Show what is known of a package, or of one version with requirements, files and hashes."""
    from cli.packages_view import (
        print_json,
        print_package,
        view_json,
    )
    from graph.record.packages import package_view
    from ingest.crawl.runs import roots_of
    from ingest.record import open_record

    (wanted,) = roots_of([package])
    with open_record(context.obj) as engine, engine.connect() as connection:
        view = package_view(connection, wanted.name, wanted.specifier)
    if view is None or (wanted.specifier and not view.releases):
        raise click.ClickException(f"nothing is known of {package}")
    if as_json:
        print_json(view_json(view))
    else:
        print_package(view, details=bool(wanted.specifier))


@packages.group()
def watch() -> None:
    """The packages whose new releases are followed within the bounds they were added with."""


@watch.command("list")
@_as_json
@click.pass_context
def watch_list(context: click.Context, as_json: bool) -> None:
    """List the packages that are watched."""
    from cli.packages_view import print_json, print_watched
    from graph.record.crawls import watched
    from ingest.record import open_record

    with open_record(context.obj) as engine, engine.connect() as connection:
        found = watched(connection)
    if as_json:
        print_json([asdict(it) for it in found])
    else:
        print_watched(found)


@watch.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@_index
@click.pass_context
def watch_remove(context: click.Context, names: tuple[str, ...], index: str | None) -> None:
    """Watch packages no more; what is known of them stays."""
    from packaging.utils import canonicalize_name

    from common.packages import DEFAULT_INDEX
    from graph.record.crawls import unwatch
    from ingest.record import open_record

    wanted = {canonicalize_name(name) for name in names}
    with open_record(context.obj) as engine, engine.begin() as connection:
        removed = unwatch(connection, index or DEFAULT_INDEX, wanted)
    for name in sorted(removed):
        click.echo(name)
    if unknown := sorted(wanted - removed):
        raise click.ClickException(f"not watched: {', '.join(unknown)}")


def progress_bars(stack: ExitStack, *, quiet: bool) -> Callable[[CrawlReport], None]:
    """A function to call with each step; it moves two bars on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return lambda _report: None
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
    stack.enter_context(bars)
    pages, reads = (bars.add_task(name, total=None) for name in ("packages", "releases"))

    def show_progress(report: CrawlReport) -> None:
        bars.update(pages, completed=report.packages, total=report.followed)
        bars.update(reads, completed=report.done, total=report.to_read)

    return show_progress


def _finish(context: click.Context, report: PackagesReport, *, as_json: bool) -> None:
    from cli.packages_view import print_crawls, print_json

    if as_json:
        print_json(report.as_json())
    else:
        print_crawls(report)
    context.exit(3 if report.unanswered else 0 if report.clean else 1)


packages.add_command(import_command)
packages.add_command(closure)
