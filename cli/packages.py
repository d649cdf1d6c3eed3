"""``thoth packages``: what is known of releases, how it gets in, and how fresh it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from cli.closure import closure
from cli.package_import import import_command
from common.settings import Settings
from ingest.crawl.bounds import MAX_PACKAGES, MAX_VERSIONS

if TYPE_CHECKING:
    from ingest.crawl.reports import CrawlReport
    from ingest.crawl.runs import PackagesReport

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
    from ingest.crawl.bounds import Bounds
    from ingest.crawl.runs import add_packages, roots_of

    settings: Settings = context.obj
    roots = roots_of(names)
    moment = _moment(bounds["newer_than"])
    with ExitStack() as stack:
        report = add_packages(
            settings,
            roots,
            Bounds(bounds["max_packages"], bounds["max_versions"], moment, bounds["pre"]),
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

    from cli.package_views import print_json, print_status
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
    from cli.package_views import (
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

    from cli.package_views import print_json, print_watched
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


def _moment(text: str | None) -> datetime | None:
    """A date or a time; one without zone is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a date", param_hint="--newer-than") from None


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
    from cli.crawl_view import print_crawls
    from cli.package_views import print_json

    if as_json:
        print_json(report.as_json())
    else:
        print_crawls(report)
    context.exit(3 if report.unanswered else 0 if report.clean else 1)


packages.add_command(import_command)
packages.add_command(closure)
