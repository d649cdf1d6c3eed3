"""What an inspection tells the person who waits for it, and scripts; only commands call it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from common.terminal import printable

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from pis.amun.launchers import BuildFailed, Inspection, Job
    from pis.amun.outcomes import InspectionOutcome


#: Grows when a key changes its meaning or goes away, not when one is added.
DOCUMENT_VERSION = 1
_ERROR_CHARACTERS = 300
_WIDEST = 10_000


class Lines:
    """Tells what happens line by line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._left = 0

    def building(self, inspection: Inspection) -> None:
        """An environment is about to be built."""
        self._say(f"{inspection.inspection_id}: building")

    def built(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        """It stands, or could not be built."""
        if failure is not None:
            self._say(f"{inspection.inspection_id}: not built: {printable(str(failure))}")
            if failure.hint:
                self._say(f"  hint: {failure.hint}")

    def measuring(self, jobs: int) -> None:
        """So many jobs are left to run."""
        self._left = jobs
        if jobs:
            self._say(f"{_jobs(jobs)} to run")

    def ran(self, job: Job, result: Mapping[str, Any]) -> None:
        """A job has come to its end."""
        self._left -= 1
        self._say(f"{job.inspection_id} job {job.number}: {_ending(result)}, {self._left} left")


class _Bar(Lines):
    """A bar that moves with every job; only what went wrong leaves a line."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(lambda line: progress.console.print(line, markup=False, highlight=False))
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def building(self, inspection: Inspection) -> None:
        words = f"building {inspection.inspection_id}"
        self._progress.update(self._task, description=words, refresh=True)

    def measuring(self, jobs: int) -> None:
        self._left = jobs
        self._progress.update(
            self._task, description="measuring", total=jobs, completed=0, refresh=True
        )

    def ran(self, job: Job, result: Mapping[str, Any]) -> None:
        from pis.amun.job_output import readings_of

        if readings_of(result).rates:
            self._left -= 1
        else:
            super().ran(job, result)
        self._progress.update(self._task, advance=1, refresh=True)


@contextmanager
def bar() -> Iterator[Lines]:
    """A progress bar on the terminal; drawn between jobs, so that it takes no time of theirs."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, auto_refresh=False,
    ) as progress:  # fmt: skip
        yield _Bar(progress)


def print_outcomes(
    outcomes: Sequence[InspectionOutcome], out: Path, *, as_json: bool, ingested: bool
) -> None:
    """The table of what was measured, and what to do next."""
    from common.job_stability import left_out_text

    if as_json:
        click.echo(json.dumps(_document(outcomes, out), indent=2))
        return
    _print_whole(_table(outcomes))
    for outcome in outcomes:
        if outcome.failed:
            log = outcome.folder / "results"
            fault = f"printed no result: {printable(outcome.fault)}; " if outcome.fault else ""
            click.echo(f"{_jobs(outcome.failed)} failed: {fault}see {log}/*/log", err=True)
        for text in dict.fromkeys(left_out_text(it.left_out) for it in outcome.noise):
            if text:
                label = printable(outcome.label)
                click.echo(f"left out of comparisons: {label}: {text}", err=True)
        for warning in outcome.warnings:
            click.echo(f"warning: {printable(warning)}", err=True)
        if outcome.failure is not None:
            click.echo(f"not built: see {outcome.folder / 'build' / 'log'}", err=True)
        if outcome.state == "host_problem":
            click.echo("a problem of this host, which says nothing of the stack", err=True)
    command = "thoth stacks" if ingested else f"thoth ingest inspections {shlex.quote(str(out))}"
    click.echo(f"next: {command}", err=True)


def _print_whole(table: Table) -> None:
    """Print ``table`` as wide as it is: an identifier that is cut in two is none any more."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    options = console.options.update(max_width=_WIDEST)
    width = Measurement.get(console, options, table).maximum
    Console(soft_wrap=True, width=max(width, console.width)).print(table)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _table(outcomes: Sequence[InspectionOutcome]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stack", no_wrap=True)
    for heading in ("measured", "failed", "left out", "spread", "median rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("inspection", no_wrap=True)
    for outcome in outcomes:
        table.add_row(
            escape(_stack(outcome)),
            str(outcome.measured),
            str(outcome.failed),
            str(max((sum(it.left_out.values()) for it in outcome.noise), default=0)),
            _spread(outcome),
            _rate(outcome),
            escape(outcome.inspection_id),
        )
    return table


def _stack(outcome: InspectionOutcome) -> str:
    if outcome.failure is not None:
        return f"not built: {outcome.failure.reason}"
    return printable(outcome.label)


def _spread(outcome: InspectionOutcome) -> str:
    """The largest of all measurements."""
    known = [it.variation for it in outcome.noise if it.variation is not None]
    return f"{max(known):.1%}" if known else "–"


def _rate(outcome: InspectionOutcome) -> str:
    if outcome.median_rate is None:
        return "–"
    return f"{outcome.median_rate:,.4g} {printable(outcome.unit or '')}"


def _ending(result: Mapping[str, Any]) -> str:
    from pis.amun.job_output import readings_of

    readings = readings_of(result)
    if readings.rates:
        return "measured"
    if readings.fault:
        return f"printed no result: {printable(readings.fault)[:_ERROR_CHARACTERS]}"
    ended, exit_code = result.get("ended", "ended"), result.get("exit_code")
    lines = str(result.get("stderr", "")).strip().splitlines()
    said = f": {printable(lines[-1])[:_ERROR_CHARACTERS]}" if lines else ""
    return f"{ended}, exit code {exit_code}{said}"


def _document(outcomes: Sequence[InspectionOutcome], out: Path) -> dict[str, Any]:
    return {
        "document_version": DOCUMENT_VERSION,
        "out": str(out),
        "inspections": [
            {
                "inspection_id": outcome.inspection_id,
                "folder": str(outcome.folder),
                "state": outcome.state,
                "reason": outcome.failure.reason if outcome.failure else None,
                "message": outcome.failure.message if outcome.failure else None,
                "component": outcome.component,
                "component_version": outcome.component_version,
                "jobs_measured": outcome.measured,
                "jobs_failed": outcome.failed,
                "measurements": [
                    {
                        "jobs": it.jobs,
                        "left_out": dict(it.left_out),
                        "spread_pct": None if it.variation is None else 100 * it.variation,
                    }
                    for it in outcome.noise
                ],
                "warnings": list(outcome.warnings),
                "median_rate": outcome.median_rate,
                "unit": outcome.unit,
            }
            for outcome in outcomes
        ],
    }
