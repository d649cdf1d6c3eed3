"""``thoth inspect``: build stacks, run their jobs in turns, and write the documents."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import Column, Table, print_json
from cli.ingest import document_progress, print_ingest
from cli.measuring_options import (
    SecondsRange,
    UnusableSpecification,
    busy_hint,
    machine_of_this_command,
    machine_options,
    print_wait,
    time_left,
)
from cli.options import as_json_option
from common.files import private_folder
from common.settings import Settings
from ingest.runs import run as run_ingest
from model.errors import InvalidArgument, InvalidSettings
from model.measurements.job_stability import left_out_text
from model.text import counted, printable
from pis.amun.conditions import wait_until_quiet
from pis.amun.inspect import InspectOptions
from pis.amun.inspect import inspect as run
from pis.amun.inspection_folder import InspectionOutcome
from pis.amun.job_output import readings_of
from pis.amun.launchers import BuildFailed, Inspection, Job, Launcher
from pis.amun.launchers.container import ContainerLauncher
from pis.amun.launchers.kubernetes import KubernetesLauncher
from pis.amun.launchers.local import LocalLauncher
from pis.amun.launchers.ray import RayLauncher
from pis.amun.processes import interrupted_by_signals
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import Specification, load_specification, read_specification

_LAUNCHERS: dict[str, Callable[[Settings], Launcher]] = {
    "local": LocalLauncher, "ray": RayLauncher, "container": ContainerLauncher,
    "kubernetes": KubernetesLauncher,
}  # fmt: skip
#: Launchers that make an image from the specification's ``base``.
_WITH_IMAGES = ("container", "kubernetes")


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


class _Folder(click.Path):
    """A folder. An empty name is rejected, because it would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in {"", b""}:
            self.fail("the name of a folder is empty", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("specifications", nargs=-1, required=True, metavar="SPEC...")
@click.option("--jobs", type=click.IntRange(1, 10_000),
              help="Jobs per stack, instead of the number in its specification.")  # fmt: skip
@click.option("--interleave/--no-interleave", default=True, show_default=True,
              help="Alternate between the stacks, so that drift affects all alike.")  # fmt: skip
@click.option("--reference-jobs", type=click.IntRange(1, 100), metavar="N",
              help="Number of jobs of the first stack in each turn.  [default: 1, or about the"
              " square root of the number of other stacks if there are three or more]")  # fmt: skip
@click.option("--ingest", is_flag=True, help="Ingest the documents after they are written.")
@click.option("--out", type=_Folder(file_okay=False, path_type=Path),
              help="Folder for the documents.  [default: THOTH_HOME/inspections]")  # fmt: skip
@click.option("--launcher", type=click.Choice(list(_LAUNCHERS)), default="local", show_default=True,
              help="Where the jobs run.")  # fmt: skip
@click.option("--timeout", type=SecondsRange(0, 86_400, min_open=True), metavar="S",
              help="Time limit of a job in seconds.  [default: the specification's]")  # fmt: skip
@click.option("--trust-script", is_flag=True, help="Run your own scripts without a sandbox.")
@machine_options
@as_json_option
@click.pass_context
def inspect(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    specifications: tuple[str, ...],
    jobs: int | None,
    interleave: bool,
    reference_jobs: int | None,
    ingest: bool,
    out: Path | None,
    launcher: str,
    timeout: float | None,
    trust_script: bool,
    wait: float,
    share_machine: bool,
    as_json: bool,
) -> None:
    """Build and measure stacks.

    SPEC is a file with a specification in JSON, or - for standard input; `thoth pi pin` writes one.
    If a stack cannot be built or a job fails, the failure is recorded, and the exit code is 1. Run
    the command again to continue after an interruption; finished jobs are kept. If the first job of
    your own script prints no result, no further job runs.

    Before jobs run, the command waits until other processes use at most a fifth of the processors,
    up to --wait seconds; with --share-machine, it does not wait.

    Your own scripts run in a sandbox made by bubblewrap. With --trust-script, scripts run with all
    your permissions: use that option only for scripts that you wrote or read.
    """
    settings: Settings = context.obj
    if trust_script and launcher != "local":
        raise click.UsageError("--trust-script is for --launcher local, which runs on this machine")
    checked = _checked(specifications, settings, launcher)
    _require_folders(out, settings, launcher)
    options = InspectOptions(
        (out or settings.home / "inspections").absolute(), jobs, interleave, timeout,
        trust_script=trust_script, reference_jobs=reference_jobs,
    )  # fmt: skip
    if trust_script:
        user = "root" if os.geteuid() == 0 else "you"
        click.echo(f"--trust-script: your own scripts run as {user}, without a sandbox", err=True)
    rounds = [(checked, options)]
    outcomes = run_rounds(settings, rounds, launcher, wait, share_machine, quiet=as_json)
    print_outcomes(outcomes, options.out, as_json=as_json, ingested=ingest)
    if launcher == "local" and any(_lacks_sandbox(outcome) for outcome in outcomes):
        click.echo("hint: --trust-script runs your own script as you, without a sandbox", err=True)
    folders = [it.folder for it in outcomes if it.state != "stopped" or it.measured]
    accepted = not ingest or ingest_folders(settings, folders, as_json=as_json)
    if not accepted or any(outcome.state != "measured" for outcome in outcomes):
        context.exit(1)


def run_rounds(
    settings: Settings,
    rounds: Iterable[tuple[Sequence[Specification], InspectOptions]],
    launcher: str,
    wait: float,
    share_machine: bool,
    *,
    quiet: bool,
) -> list[InspectionOutcome]:
    """Run inspections, one round after another, and show the progress.

    A job of a script that breaks the result protocol ends the rounds.

    :param launcher: name; ``local`` waits for this machine
    :param wait: for other measurements of this machine, s
    """
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_signals())
        if launcher == "local":
            stack.enter_context(machine_of_this_command(wait, share_machine))
        waits = launcher == "local" and not share_machine
        observer = stack.enter_context(
            inspection_observer(settings, wait if waits else None, quiet=quiet)
        )
        runs_on = stack.enter_context(closing(_LAUNCHERS[launcher](settings)))
        stack.enter_context(hint_to_resume())
        outcomes: list[InspectionOutcome] = []
        for specifications, options in rounds:
            outcomes += run(specifications, runs_on, options, observer)
            if any(it.not_run for it in outcomes):
                break
    return outcomes


def _lacks_sandbox(outcome: InspectionOutcome) -> bool:
    return outcome.failure is not None and outcome.failure.reason == "cannot-confine"


def _checked(names: Sequence[str], settings: Settings, launcher: str) -> list[Specification]:
    """Read the specifications."""
    indexes, problems = dict(settings.package_indexes), []
    checked: list[Specification] = []
    for name in names:
        try:
            specification = load_specification(read_specification(name), indexes)
            if launcher in _WITH_IMAGES and specification.base is None:
                message = f"missing: the launcher {launcher} needs a base image"
                raise InvalidSpecification([SpecificationProblem("base", message)])
            checked.append(specification)
        except InvalidSpecification as error:
            problems += [str(InvalidSpecification([each], name)) for each in error.problems]
    if problems:
        raise UnusableSpecification("\n".join(problems))
    return checked


def _require_folders(out: Path | None, settings: Settings, launcher: str) -> None:
    """Check, before anything runs, that documents and environments can be written."""
    if out is not None:
        try:
            _try_to_write(out)
        except OSError as error:
            raise InvalidArgument(f"--out: {out}: {error.strerror or error}") from None
    needed = ["inspections"] if out is None else []
    needed += ["environments"] if launcher == "local" else []
    for name in needed:
        try:
            _try_to_write(private_folder(settings.home / name))
        except OSError as error:
            reason = error.strerror or error
            raise InvalidSettings(
                f"THOTH_HOME: {settings.home} cannot be written: {reason}"
            ) from None


def _try_to_write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def inspection_observer(
    settings: Settings, wait_s: float | None, *, quiet: bool
) -> Iterator[Lines]:
    """Show the progress of inspections: as a bar on a terminal, else as lines; or nothing.

    :param wait_s: before jobs, wait until this machine is quiet, but no longer; ``None`` not to
        wait
    """
    with ExitStack() as stack:
        if quiet:
            observer = Lines(lambda line: None)
        elif sys.stderr.isatty():
            observer = stack.enter_context(bar())
        else:
            observer = Lines(lambda line: click.echo(line, err=True))
        if wait_s is not None:
            stack.enter_context(busy_hint())
            on_wait = partial(observer.waiting, wait_s=wait_s)
            observer.before_jobs = partial(
                wait_until_quiet, wait_s, settings.loop_busy_share, on_wait
            )
        yield observer


@contextmanager
def hint_to_resume() -> Iterator[None]:
    """Say that the same command continues, if the block is interrupted."""
    resume = "finished jobs are kept: run the same command again to continue"
    try:
        yield
    except KeyboardInterrupt:
        click.echo(resume, err=True)
        raise
    except OSError as error:  # such as a full disk
        raise click.ClickException(f"{error}\n{resume}") from error


def ingest_folders(settings: Settings, folders: Sequence[Path], *, as_json: bool) -> bool:
    """Ingest inspection folders, and return whether all documents were accepted.

    With ``--json``, standard output must contain one document, so the report is on standard error.
    """
    sources = [str(folder) for folder in folders]
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        with document_progress("inspections", sources) as on_document:
            ingested = run_ingest(settings, sources, on_document)
        print_ingest(ingested)
    return not ingested.report.quarantined


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
