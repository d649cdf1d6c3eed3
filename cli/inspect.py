"""``thoth inspect``: build stacks, run their jobs in turns, and write the documents."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import click

from cli.ingest import document_progress, print_ingest
from cli.inspect_view import Lines, bar, print_outcomes
from cli.machine import (
    SecondsRange,
    UnusableSpecification,
    busy_hint,
    machine_of_this_command,
    machine_options,
    warn_if_busy,
)
from cli.options import as_json_option
from common.private_folders import private_folder
from common.settings import Settings
from ingest.runs import run as run_ingest
from model.errors import InvalidArgument, InvalidSettings
from pis.amun.conditions import wait_until_quiet
from pis.amun.inspect import InspectOptions
from pis.amun.inspect import inspect as run
from pis.amun.launchers import Launcher
from pis.amun.launchers.container import ContainerLauncher
from pis.amun.launchers.kubernetes import KubernetesLauncher
from pis.amun.launchers.local import LocalLauncher
from pis.amun.launchers.ray import RayLauncher
from pis.amun.outcomes import InspectionOutcome
from pis.amun.processes import interrupted_by_signals
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import Specification, load_specification
from pis.amun.specification_files import read_specification

_LAUNCHERS: dict[str, Callable[[Settings], Launcher]] = {
    "local": LocalLauncher, "ray": RayLauncher, "container": ContainerLauncher,
    "kubernetes": KubernetesLauncher,
}  # fmt: skip
#: Launchers that make an image from the specification's ``base``.
_WITH_IMAGES = ("container", "kubernetes")


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
@click.option("--trust-script", is_flag=True,
              help="Run your own scripts without a sandbox.")  # fmt: skip
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
        if launcher == "local" and share_machine:
            warn_if_busy()
        observer = stack.enter_context(inspection_observer(quiet=quiet))
        if launcher == "local" and not share_machine:
            stack.enter_context(busy_hint())
            on_wait = partial(observer.waiting, wait_s=wait)
            observer.before_jobs = partial(
                wait_until_quiet, wait, settings.loop_busy_share, on_wait
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
    """Read the specifications.

    :raises UnusableSpecification: with the problems of all of them
    """
    indexes, problems = dict(settings.package_indexes), []
    checked: list[Specification] = []
    for name in names:
        try:
            specification = load_specification(read_specification(name), indexes)
            if launcher in _WITH_IMAGES and specification.base is None:
                message = f"missing: the launcher {launcher} needs the image to start from"
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
def inspection_observer(*, quiet: bool) -> Iterator[Lines]:
    """Show the progress of inspections: as a bar on a terminal, else as lines; or nothing."""
    if quiet:
        yield Lines(lambda line: None)
    elif sys.stderr.isatty():
        with bar() as observer:
            yield observer
    else:
        yield Lines(lambda line: click.echo(line, err=True))


@contextmanager
def hint_to_resume() -> Iterator[None]:
    """Tell that the same command continues, if the block is interrupted."""
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
