"""``thoth packages import``: releases from metadata dumps and from solvers' results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from common.settings import Settings

if TYPE_CHECKING:
    from common.errors import ProjectError
    from ingest.releases import Reading, ReleaseReport


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
    from common.redaction import absolute_source

    settings: Settings = context.obj
    moment = None if as_of is None else _moment(as_of)
    sources = [absolute_source(file) for file in files]
    with ExitStack() as stack:
        on_release = _progress(stack, quiet=as_json)
        run = _check if dry_run else _run
        report = run(settings, sources, _reading(settings, moment), on_release)
    _print(report, as_json=as_json, dry_run=dry_run)
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


def _moment(text: str) -> datetime:
    """A date or a time; one without zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a date", param_hint="--as-of") from None
    if moment > datetime.now(UTC):
        raise click.BadParameter("lies in the future", param_hint="--as-of")
    return moment


def _reading(settings: Settings, as_of: datetime | None) -> Reading:
    from common.index.configuration import configured_indexes
    from ingest.releases import Reading

    addresses = {
        index.url.rstrip("/"): name for name, index in configured_indexes(settings).items()
    }
    return Reading(as_of=as_of, addresses=addresses)


def _check(
    settings: Settings, sources: Sequence[str], reading: Reading, on_release: Callable[[], None]
) -> _ImportReport:
    """What a run would do in an empty record; no store is started or written."""
    from ingest.releases import check_releases

    return _ImportReport(check_releases(sources, reading, on_release))


def _run(
    settings: Settings, sources: Sequence[str], reading: Reading, on_release: Callable[[], None]
) -> _ImportReport:
    from graph.projection import lag
    from ingest.beside import graph_beside, start_side_by_side
    from ingest.record import open_record
    from ingest.releases import import_releases

    start_side_by_side(settings)
    with open_record(settings) as engine:
        with graph_beside(settings, engine) as projector:
            report = import_releases(
                settings, engine, sources, reading,
                on_release=on_release, on_commit=projector.wake,
            )  # fmt: skip
        return _ImportReport(report, lag(engine).count, projector.error)


def _progress(stack: ExitStack, *, quiet: bool) -> Callable[[], None]:
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


def _print(report: _ImportReport, *, as_json: bool, dry_run: bool) -> None:
    from cli.release_view import print_graph, print_releases

    if as_json:
        import json

        click.echo(json.dumps({"dry_run": dry_run, **report.as_json()}, indent=2))
        return
    print_releases(report.releases, dry_run=dry_run)
    print_graph(report.lag, report.graph_error)
