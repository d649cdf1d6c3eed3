"""``graph``: bring the graph up to date, build it anew, and prove that it is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cli.stores import as_json_option
from common.settings import Settings

if TYPE_CHECKING:
    from graph.engine import Stores
    from graph.projection import KindReport, SyncReport


#: A batch takes a second, and emptying a large graph minutes without a word.
PATIENCE_S = 900.0


@click.group()
def graph() -> None:
    """The graph as a projection of the record."""


@graph.command()
@as_json_option
@click.pass_obj
def sync(settings: Settings, as_json: bool) -> None:
    """Project what the graph does not show yet."""
    from graph.projection import sync as project

    with _at_work(settings, "Projecting", as_json) as (stores, progress):
        report = project(
            stores.engine,
            stores.driver,
            progress=lambda done, total: progress("Projecting", done, total),
            database=stores.database,
        )
    _print_sync(report, as_json)


@graph.command()
@as_json_option
@click.pass_obj
def lag(settings: Settings, as_json: bool) -> None:
    """Show how far the graph is behind; needs only PostgreSQL."""
    from graph.migrate import migrated_stores
    from graph.projection import lag as lag_of

    with migrated_stores(settings, graph=False) as stores:
        behind = lag_of(stores.engine)
    if as_json:
        click.echo(json.dumps(asdict(behind)))
    elif behind.count:
        click.echo(f"{_entries(behind.count)} pending, the oldest for {behind.oldest_s:.0f} s")
    else:
        click.echo("nothing pending")


@graph.command()
@as_json_option
@click.pass_obj
def rebuild(settings: Settings, as_json: bool) -> None:
    """Empty the graph and project the whole record again.

    Nothing is lost by it: all that the graph shows is in PostgreSQL. Interrupted, it goes
    on with the next sync.
    """
    from graph.engine import to_stderr
    from graph.projection import rebuild as project_again

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
    """Compare the graph with the record; exit code 1 if they differ."""
    from graph.projection import verify as compare

    with _at_work(ctx.obj, "Comparing", as_json) as (stores, progress):
        report = compare(stores.engine, stores.driver, progress=progress, database=stores.database)
    if as_json:
        click.echo(json.dumps({"equal": report.equal, **asdict(report)}, indent=2))
    else:
        for kind in report.kinds:
            _print_kind(kind)
        if report.pending.count:
            pending = _entries(report.pending.count)
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
        click.echo(json.dumps(asdict(report)))
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.by_kind.items())
    rate = report.entries / report.elapsed_s if report.elapsed_s else 0.0
    text = f"{_entries(report.entries)} projected in {report.elapsed_s:.1f} s ({rate:.0f}/s)"
    click.echo(f"{text}: {kinds}" if kinds else "nothing pending")


def _entries(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"


@contextmanager
def _at_work(
    settings: Settings, task: str, as_json: bool
) -> Iterator[tuple[Stores, Callable[[str, int, int], None]]]:
    """Both stores, given up if the graph gets on no further, and a function to show progress.

    The bar is on standard error, if that is a terminal and a person reads the answer.
    """
    from rich.console import Console
    from rich.progress import Progress

    from graph.engine import GRAPH
    from graph.migrate import migrated_stores
    from graph.watchdog import watchdog

    console = Console(stderr=True)
    hidden = as_json or not console.is_terminal

    def advance(text: str, done: int, total: int) -> None:
        got_on()
        bar.update(number, description=text, completed=done, total=total)

    with (
        watchdog(GRAPH, PATIENCE_S) as got_on,
        migrated_stores(settings) as stores,
        Progress(console=console, disable=hidden, transient=True) as bar,
    ):
        number = bar.add_task(task, total=None)
        yield stores, advance
