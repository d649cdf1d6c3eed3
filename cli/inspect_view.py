"""Output of ``thoth inspect``: progress, measured stacks and failures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import Column, Table, print_json
from cli.machine import print_wait, time_left
from model.measurements.job_stability import left_out_text
from model.text import counted, printable
from pis.amun.job_output import readings_of
from pis.amun.launchers import BuildFailed, Inspection, Job
from pis.amun.outcomes import InspectionOutcome

if TYPE_CHECKING:
    from rich.progress import Progress


#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1
_ERROR_CHARACTERS = 300
#: What to do about a script that prints no result.
_PROTOCOL = (
    "The script must print one JSON object on standard output, with `name`, `component`,"
    " `@parameters` and `@result` (`rate`, `unit`, `elapsed` and `repetitions` in ms), and"
    " everything else on standard error. Correct it, pin it again with `thoth pi pin --script`, and"
    " inspect the new specification"
)


class Lines:
    """Reports each step of an inspection as a line.

    :ivar before_jobs: called before the first job, if there is one
    """

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print = print_line
        self._left = 0
        self.before_jobs: Callable[[], None] = lambda: None

    def waiting(self, cause: str, waited_s: float, wait_s: float) -> None:
        """Called each second while the jobs wait."""
        print_wait(cause, waited_s, wait_s)

    def build_started(self, inspection: Inspection) -> None:
        """Called before an environment is built."""
        self._print(f"{inspection.inspection_id}: building")

    def build_finished(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        """Called when an environment was built, or could not be."""
        if failure is not None:
            self._print(f"{inspection.inspection_id}: not built: {printable(str(failure))}")
            if failure.hint:
                self._print(f"  hint: {failure.hint}")

    def jobs_started(self, jobs: int) -> None:
        """Called with the number of jobs to run."""
        self._left = jobs
        if jobs:
            self.before_jobs()
            self._print(f"{counted(jobs, 'job')} to run")

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        """Called after each job."""
        self._left -= 1
        self._print(f"{job.inspection_id} job {job.number}: {_ending(result)}, {self._left} left")


class _Bar(Lines):
    """A progress bar; only failures are printed as lines."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(lambda line: progress.console.print(line, markup=False, highlight=False))
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def build_started(self, inspection: Inspection) -> None:
        description = f"building {inspection.inspection_id}"
        self._progress.update(self._task, description=description, refresh=True)

    def waiting(self, cause: str, waited_s: float, wait_s: float) -> None:
        description = f"{cause}: waiting, {time_left(waited_s, wait_s)}"
        self._progress.update(self._task, description=description, refresh=True)

    def jobs_started(self, jobs: int) -> None:
        self._left = jobs
        if jobs:
            self.before_jobs()
        self._progress.update(
            self._task, description="measuring", total=jobs, completed=0, refresh=True
        )

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        if readings_of(result).rates:
            self._left -= 1
        else:
            super().job_finished(job, result)
        self._progress.update(self._task, advance=1, refresh=True)


@contextmanager
def bar() -> Iterator[Lines]:
    """Show a progress bar, which is drawn between jobs, so that it does not slow them down."""
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
    """Print the measured stacks, failures, and what to do next."""
    if as_json:
        print_json(_document(outcomes, out))
        return
    _table(outcomes).print()
    stopped = sum(outcome.not_run for outcome in outcomes)
    for outcome in outcomes:
        if outcome.failed:
            log = outcome.folder / "results"
            fault = f"printed no result: {printable(outcome.fault)}; " if outcome.fault else ""
            click.echo(f"{counted(outcome.failed, 'job')} failed: {fault}see {log}/*/log", err=True)
        for text in dict.fromkeys(left_out_text(it.left_out) for it in outcome.noise):
            if text:
                label = printable(outcome.label)
                click.echo(f"left out of comparisons: {label}: {text}", err=True)
        for warning in outcome.warnings:
            click.echo(f"warning: {printable(warning)}", err=True)
        if outcome.failure is not None:
            click.echo(f"not built: see {outcome.folder / 'build' / 'log'}", err=True)
        if outcome.state == "host_problem":
            click.echo("a problem of this host; it says nothing about the stack", err=True)
    if stopped:
        click.echo(f"stopped: {counted(stopped, 'job')} did not run. {_PROTOCOL}", err=True)
        return
    command = "thoth stacks" if ingested else f"thoth ingest inspections {shlex.quote(str(out))}"
    click.echo(f"next: {command}", err=True)


def _table(outcomes: Sequence[InspectionOutcome]) -> Table:
    numbers = ("measured", "failed", "left out", "spread", "median rate")
    table = Table(
        [Column("stack"), *(Column(title, right=True) for title in numbers), Column("inspection")]
    )
    for outcome in outcomes:
        left_out = max((sum(it.left_out.values()) for it in outcome.noise), default=0)
        table.add(
            _stack(outcome), str(outcome.measured), str(outcome.failed), str(left_out),
            _spread(outcome), _rate(outcome), outcome.inspection_id,
        )  # fmt: skip
    return table


def _stack(outcome: InspectionOutcome) -> str:
    if outcome.failure is not None:
        return f"not built: {outcome.failure.reason}"
    return printable(outcome.label)


def _spread(outcome: InspectionOutcome) -> str:
    """The largest spread of any measurement."""
    known = [it.variation for it in outcome.noise if it.variation is not None]
    return f"{max(known):.1%}" if known else "–"


def _rate(outcome: InspectionOutcome) -> str:
    if outcome.median_rate is None:
        return "–"
    return f"{outcome.median_rate:,.4g} {printable(outcome.unit or '')}"


def _ending(result: Mapping[str, Any]) -> str:
    readings = readings_of(result)
    if readings.rates:
        return "measured"
    if readings.fault:
        return f"printed no result: {printable(readings.fault)[:_ERROR_CHARACTERS]}"
    ended, exit_code = result.get("ended", "ended"), result.get("exit_code")
    lines = str(result.get("stderr", "")).strip().splitlines()
    message = f": {printable(lines[-1])[:_ERROR_CHARACTERS]}" if lines else ""
    return f"{ended}, exit code {exit_code}{message}"


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
                "jobs_not_run": outcome.not_run,
                "fault": outcome.fault,
                "measurements": [
                    {
                        "jobs": measurement.jobs,
                        "left_out": dict(measurement.left_out),
                        "spread_pct": None
                        if measurement.variation is None
                        else 100 * measurement.variation,
                    }
                    for measurement in outcome.noise
                ],
                "warnings": list(outcome.warnings),
                "median_rate": outcome.median_rate,
                "unit": outcome.unit,
            }
            for outcome in outcomes
        ],
    }
