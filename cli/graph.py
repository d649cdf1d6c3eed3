"""``thoth graph``: update, rebuild and verify the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click

from cli.console import print_json, progress_bars
from cli.help_pages import CommandGroup
from cli.options import as_json_option
from common.settings import Settings
from graph.engine import GRAPH as GRAPH_STORE
from graph.engine import Stores, to_stderr
from graph.migrate import migrated_stores
from graph.projection import KindReport, SyncReport
from graph.projection import lag as lag_of
from graph.projection import rebuild as project_again
from graph.projection import sync as project
from graph.projection import verify as compare
from graph.record.freshness import GRAPH, add_successes, set_sources
from graph.watchdog import watchdog
from model.errors import GraphMismatch
from model.text import counted

#: A batch takes a second, but emptying a large graph takes minutes without visible progress.
PROGRESS_TIMEOUT_S = 900.0


@click.group(cls=CommandGroup)
def graph() -> None:
    """Update, rebuild and verify the graph, which is projected from PostgreSQL."""


@graph.command()
@as_json_option
@click.pass_obj
def sync(settings: Settings, as_json: bool) -> None:
    """Bring the graph up to date."""
    with _at_work(settings, "Projecting", as_json) as (stores, progress):
        report = project(
            stores.engine,
            stores.driver,
            progress=lambda done, total: progress("Projecting", done, total),
            database=stores.database,
            may_rebuild=settings.graph_rebuild,
        )
    _print_sync(report, as_json)


@graph.command()
@as_json_option
@click.pass_obj
def lag(settings: Settings, as_json: bool) -> None:
    """Show how far the graph is behind PostgreSQL.

    This command needs only PostgreSQL to be running.
    """
    with migrated_stores(settings, graph=False) as stores:
        behind = lag_of(stores.engine)
    if as_json:
        print_json(behind)
    elif behind.count:
        pending = counted(behind.count, "entry", "entries")
        click.echo(f"{pending} pending, the oldest for {behind.oldest_s:.0f} s")
    else:
        click.echo("nothing pending")


@graph.command()
@as_json_option
@click.pass_obj
def rebuild(settings: Settings, as_json: bool) -> None:
    """Empty the graph and build it again.

    No data is lost, because PostgreSQL has all of it. After an interruption, run `thoth graph sync`
    to continue.
    """
    with _at_work(settings, "Rebuilding", as_json) as (stores, progress):
        to_stderr("Emptying the graph and projecting the whole record again")
        report = project_again(
            stores.engine,
            stores.driver,
            progress=lambda done, total: progress("Rebuilding", done, total),
            database=stores.database,
        )
    _print_sync(report, as_json)


@graph.command()
@as_json_option
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> None:
    """Compare the graph with PostgreSQL.

    Exit code 1 if the graph and PostgreSQL differ.
    """
    with _at_work(ctx.obj, "Comparing", as_json) as (stores, progress):
        report = compare(stores.engine, stores.driver, progress=progress, database=stores.database)
        with stores.engine.begin() as connection:
            set_sources(connection, GRAPH, ["graph"])
            if report.equal:
                add_successes(connection, GRAPH, ["graph"])
    if as_json:
        print_json({"equal": report.equal, **asdict(report)})
    else:
        if not report.own_graph:
            error = GraphMismatch()
            click.echo(f"{error}: {error.hint}")
        for kind in report.kinds:
            _print_kind(kind)
        if report.pending.count:
            pending = counted(report.pending.count, "entry", "entries")
            click.echo(f"{pending} pending: run `thoth graph sync`, then verify again")
        click.echo("equal" if report.equal else "the graph differs from the record")
    if not report.equal:
        ctx.exit(1)


def _print_kind(kind: KindReport) -> None:
    mark = "equal" if kind.equal else "DIFFERS"
    click.echo(f"{kind.kind}: {kind.record_count} in the record, {kind.graph_count}: {mark}")
    if kind.equal:
        return
    click.echo(f"  digests: record {kind.record_digest}, graph {kind.graph_digest}")
    for difference in kind.differences:
        names = f" ({', '.join(difference.properties)})" if difference.properties else ""
        click.echo(f"  {difference.how}: {difference.key}{names}")
    if kind.truncated:
        click.echo("  and more")


def _print_sync(report: SyncReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.by_kind.items())
    rate = report.entries / report.elapsed_s if report.elapsed_s else 0.0
    entries = counted(report.entries, "entry", "entries")
    text = f"{entries} projected in {report.elapsed_s:.1f} s ({rate:.0f}/s)"
    click.echo(f"{text}: {kinds}" if kinds else "nothing pending")


@contextmanager
def _at_work(
    settings: Settings, task: str, as_json: bool
) -> Iterator[tuple[Stores, Callable[[str, int, int], None]]]:
    """Open both stores, and return them with a function that shows progress.

    The command stops if there is no progress for :data:`PROGRESS_TIMEOUT_S`.
    """
    with (
        watchdog(GRAPH_STORE, PROGRESS_TIMEOUT_S) as got_on,
        migrated_stores(settings, any_graph=True) as stores,
        progress_bars(task, hidden=as_json) as bars,
    ):

        def advance(text: str, done: int, total: int) -> None:
            got_on()
            bars.update(task, done, total, description=text)

        yield stores, advance
