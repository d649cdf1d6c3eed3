"""``thoth graph`` and ``thoth cypher``: update, rebuild, verify and query the graph."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

import click

from cli.console import Column, Table, print_json, progress_bars
from cli.options import CommandGroup, as_json_option, key_and_value
from common.settings import Settings
from graph.analyst_queries import (
    Cut,
    QueryResult,
    as_document,
    open_reader,
    plain,
    run_query,
    short,
)
from graph.checkpoints import is_own_graph
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import GRAPH, Stores, graph_database, to_stderr
from graph.hung_stores import watchdog
from graph.migrate import migrated_stores
from graph.projection import KindReport, SyncReport
from graph.projection import lag as lag_of
from graph.projection import rebuild as project_again
from graph.projection import sync as project
from graph.projection import verify as compare
from graph.record.freshness import GRAPH_SOURCE, add_successes, set_sources
from model.errors import GraphMismatch, InvalidArgument
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
        click.echo(f"{behind.pending_text}, the oldest for {behind.oldest_s:.0f} s")
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
            set_sources(connection, GRAPH_SOURCE, ["graph"])
            if report.equal:
                add_successes(connection, GRAPH_SOURCE, ["graph"])
    if as_json:
        print_json({"equal": report.equal, **asdict(report)})
    else:
        if not report.own_graph:
            error = GraphMismatch()
            click.echo(f"{error}: {error.hint}")
        for kind in report.kinds:
            _print_kind(kind)
        if report.pending.count:
            pending = report.pending.pending_text
            click.echo(f"{pending}: run `thoth graph sync`, then verify again")
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
        watchdog(GRAPH, PROGRESS_TIMEOUT_S) as got_on,
        migrated_stores(settings, any_graph=True) as stores,
        progress_bars(task, hidden=as_json) as bars,
    ):

        def advance(text: str, done: int, total: int) -> None:
            got_on()
            bars.update(task, done, total, description=text)

        yield stores, advance


FORMATS = ("table", "json", "csv")
#: More than the longest query has.
_MOST_INPUT_BYTES = 1_000_000


@click.command()
@click.argument("query", required=False)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the query from a file.",
)
@click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the query; VALUE is JSON or text.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit of the query; QUERY_TIMEOUT_S is the default and the upper bound.",
)
@click.option(
    "--limit",
    "row_limit",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help="Maximum number of rows; QUERY_ROW_LIMIT is the default and the upper bound.",
)
@click.pass_obj
def cypher(
    settings: Settings,
    query: str | None,
    file: Path | None,
    parameters: tuple[str, ...],
    form: str,
    timeout_s: float | None,
    row_limit: int | None,
) -> None:
    """Query the graph, read-only.

    QUERY is a query in Cypher, or - to read it from standard input. docs/cookbook.md has examples.
    """
    text = _query_of(query, file)
    values = dict(_parameter(parameter) for parameter in parameters)
    timeout_s = _within("--timeout", timeout_s, settings.query_timeout_s, "QUERY_TIMEOUT_S")
    row_limit = int(_within("--limit", row_limit, settings.query_row_limit, "QUERY_ROW_LIMIT"))

    EmbeddedStores(settings).start(to_stderr)
    # The store itself enforces the limit; this one is for a store that does not answer.
    longest_s = timeout_s + 4 * settings.connect_timeout_s
    with watchdog(GRAPH, longest_s), open_reader(settings) as driver:
        own = is_own_graph(settings, driver)
    if own is False:
        with migrated_stores(settings):
            pass  # the graph is built again, or cannot be used
    with watchdog(GRAPH, longest_s), open_reader(settings) as driver:
        result = run_query(
            driver,
            text,
            values,
            timeout_s=timeout_s,
            row_limit=row_limit,
            byte_limit=settings.query_byte_limit,
            database=graph_database(settings),
        )
    if own is None:
        unknown = "PostgreSQL does not say whether the graph was projected from this record"
        result = replace(result, warnings=(*result.warnings, unknown))
    render(result, form, sys.stdout)
    for warning in result.warnings:
        to_stderr(f"warning: {warning}")
    if result.cut is Cut.BYTES:
        to_stderr(
            f"only the first {len(result.rows)} rows are printed: more would be larger than"
            f" {settings.query_byte_limit} bytes; return less data, or raise QUERY_BYTE_LIMIT"
        )
    elif result.cut is Cut.ROWS:
        to_stderr(
            f"only the first {row_limit} rows are printed; --limit and QUERY_ROW_LIMIT set how many"
        )


def _query_of(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        raise click.UsageError("give a query, or - for standard input, or --file")
    if file is not None:
        text = _decoded(file.read_bytes(), str(file))
    elif query == "-":
        text = _decoded(sys.stdin.buffer.read(_MOST_INPUT_BYTES), "standard input")
    else:
        text = query or ""
    # Both stores take one statement; ArcadeDB accepts nothing after its semicolon.
    text = text.strip().removesuffix(";").rstrip()
    if not text:
        raise click.UsageError("the query is empty")
    return text


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{place} is not UTF-8 text") from None


def _parameter(text: str) -> tuple[str, Any]:
    name, value = key_and_value(text, "--param")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _within(option: str, wanted: float | None, most: float, variable: str) -> float:
    if wanted is not None and wanted > most:
        raise InvalidArgument(f"{option}: at most {most:g} ({variable})")
    return most if wanted is None else wanted


def render(result: QueryResult, form: str, out: TextIO) -> None:
    """Write ``result`` to ``out`` in one of :data:`FORMATS`."""
    if form == "json":
        json.dump(as_document(result), out, ensure_ascii=False, indent=2, allow_nan=False)
        out.write("\n")
    elif form == "csv":
        out.write(_as_csv(result))
    else:
        columns = []
        for index, name in enumerate(result.columns):
            numbers = [isinstance(row[index], (int, float)) for row in result.rows]
            columns.append(Column(name, right=bool(numbers) and all(numbers), wraps=out.isatty()))
        table = Table(columns)
        for row in result.rows:
            table.add(*map(short, row))
        table.print(out)


def _as_csv(result: QueryResult) -> str:
    """Write rows as CSV (RFC 4180); lists, maps, nodes and edges become cells of JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    if result.columns:  # ArcadeDB names no columns where there is no row
        writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row] for row in result.rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else value
