"""``thoth bisect``: which release, or which package of a lock, changed the speed."""

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from adviser.answering.index_stacks import IndexStacks
from adviser.answering.target_hardware import own_hardware
from adviser.bisect.search import SearchState, StackUnavailable, StepSearch, StopReason, find_step
from adviser.bisect.series import StackSeries, search_document, search_sentence
from adviser.resolver.worker import ResolverWorker
from cli.bisect_search import BisectRecorder, ExecutorMeasurer, SeriesMaker, identity
from cli.compare_stacks import project_requirements
from cli.console import print_json
from cli.inspect import ingest_folders
from cli.measuring import MachineGuard, SearchFolder, StackPinner, StackRuns, local_launcher
from cli.measuring_options import explained_errors, machine_of_this_command, machine_options
from cli.options import NamedPath, ProgramCommand, as_json_option, key_and_value, program_of
from cli.own_benchmarks import benchmark_option, confirmation_option, program_of_benchmark
from cli.project_files import lock_content
from cli.request_options import lock_options, lock_selection, selection_options
from common.settings import Settings
from graph.record.bisects import Bisect
from model.errors import InvalidArgument
from model.json_documents import digest
from model.packages.environments import environment
from model.packages.identity import DEFAULT_INDEX
from model.redaction import shown_variables, without_command_secrets
from model.text import counted, printable
from pis.catalogue import indicator_of
from pis.command_specifications import COMMAND_TIMEOUT_S, Command, command_of, script_text

#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1
#: Exit code if the machine stayed busy, as for any work that only one process may do at a time.
_BUSY = 5


@click.command(cls=ProgramCommand)
@click.argument("subjects", nargs=-1, required=True, metavar="REQUIREMENT | OLD NEW")
@click.option("--pi", "indicator", metavar="NAME",
              help="Performance indicator, such as matmul; see `thoth pi list`.")  # fmt: skip
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicator; repeat the option for more.")  # fmt: skip
@click.option("--script", "script_file", metavar="FILE",
              help="Python script that prints a result, in place of an indicator.")  # fmt: skip
@benchmark_option
@confirmation_option
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for the command; repeat the option for more."
              " Numbers and short words are stored; other values only as a digest.")  # fmt: skip
@click.option("--project/--no-project", default=True, show_default=True,
              help="Make the project in this folder importable for the command, and add its"
              " requirements to a requirement.")  # fmt: skip
@click.option("--with", "others", multiple=True, metavar="REQUIREMENT",
              help="Also install this package in every stack; repeat for more.")  # fmt: skip
@click.option("--python", "python_version", metavar="VERSION",
              help="Python version, such as 3.11.  [default: this interpreter's]")  # fmt: skip
@lock_options
@click.option("--index", metavar="NAME", help="Name of a configured package index.")
@click.option("--max-jobs", type=click.IntRange(4, 10_000), default=200, show_default=True,
              help="Largest number of jobs to measure.")  # fmt: skip
@click.option("--max-minutes", type=click.FloatRange(0, 100_000, min_open=True),
              help="Start no new block after this time.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the search.  [default: a new one in THOTH_HOME/bisect]")  # fmt: skip
@click.option("--ingest/--no-ingest", default=False, show_default=True,
              help="Ingest the inspections when the search ends.")  # fmt: skip
@click.option("--record/--no-record", default=True, show_default=True,
              help="Store the state of the search after each block, for pages and"
              " `thoth bisects`.")  # fmt: skip
@click.option("--trust-script", is_flag=True, help="Run the script without a sandbox.")
@machine_options
@as_json_option
@click.pass_context
def bisect(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    /,
    subjects: tuple[str, ...],
    indicator: str | None,
    parameters: tuple[str, ...],
    script_file: str | None,
    benchmarks: tuple[str, ...],
    confirmed: bool,
    variables: tuple[str, ...],
    project: bool,
    others: tuple[str, ...],
    python_version: str | None,
    index: str | None,
    max_jobs: int,
    max_minutes: float | None,
    out: Path | None,
    ingest: bool,
    record: bool,
    trust_script: bool,
    wait: float,
    share_machine: bool,
    as_json: bool,
    **selection: Any,
) -> None:
    """Find the release that made an operation slower or faster.

    Give a requirement, such as 'numpy>=1.24,<2.4', two releases, or two locks. Between two locks,
    the command first finds the package, then its release. Each block measures the two most
    informative stacks, and fresh jobs confirm the step. Run the same command again
    to continue after an interruption.

    Give a command of your own: thoth bisect OLD NEW -- python bench.py. It runs with all your
    permissions, as for `thoth compare`. Or give an indicator with --pi, or with --script a script
    that prints a result; the script runs in a sandbox unless you give --trust-script.

    While other processes use more than a fifth of the processors, the search waits, up to --wait
    seconds at a time; with --share-machine, it does not wait.

    Exit code 0 if a step was confirmed, or if there is none; 5 if the machine stayed busy; 1 if the
    search ended without an answer for another reason.
    """
    settings: Settings = context.obj
    program = program_of(context)
    if benchmarks and (program or indicator or script_file):
        raise click.UsageError("--benchmark, --pi, --script and a command: give only one of them")
    if not (program or indicator or script_file):
        program = program_of_benchmark(settings, Path.cwd(), benchmarks, confirmed=confirmed)
    command = command_of(program, Path.cwd(), project=project) if program else None
    measured = measured_script(indicator, parameters, script_file, command, trust_script)
    settled, concealed = shown_variables(dict(key_and_value(it, "--env") for it in variables))
    if settled and command is None:
        raise click.UsageError("--env needs a command: -- COMMAND")
    subjects = searched_subjects(subjects)
    chosen, repeated = lock_selection(selection), selection_options(selection)
    if command is not None and len(subjects) == 1 and project:
        others = tuple(dict.fromkeys((*others, *project_requirements(command.folder))))
    question = question_of(subjects, measured, parameters, others, python_version, index, repeated)
    question |= {"variables": settled} if settled else {}
    short = digest(question).removeprefix("sha256:")[:8]
    folder = SearchFolder((out or settings.home / "bisect" / short).absolute())
    index = index or DEFAULT_INDEX
    state = folder.state(question)
    deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
    with ExitStack() as stack:
        commands = [command] if command else []
        launcher = stack.enter_context(local_launcher(settings, commands, concealed))
        resolver = stack.enter_context(ResolverWorker()).resolve
        pinner = StackPinner(
            folder, IndexStacks(settings, index, environment(python_version), resolver),
            measured.script, dict(key_and_value(text, "-p") for text in parameters), python_version,
            index, dict(settings.package_indexes),
        )  # fmt: skip
        state["bisect"] = identity(state)
        waits = context.get_parameter_source("wait") is not click.core.ParameterSource.DEFAULT
        options = {
            "--trust-script": trust_script, "--script": script_file,
            "--env": [f"{name}={settled[name]}" for name in settled],
            "--no-project": not project and command is not None, "--max-jobs": max_jobs,
            "--out": out,
            "--ingest": ingest, "--wait": f"{wait:g}" if waits else None,
            "--share-machine": share_machine, **repeated,
        }  # fmt: skip
        recorder = BisectRecorder(
            settings, _template(question, state, subjects, options, program), record
        )
        stack.enter_context(recorder.recording())

        def begin() -> None:
            folder.write_state(state)
            recorder.open()
            if command is not None:
                click.echo(printable(f"note: {command} runs as you, as in a shell"), err=True)
            stack.enter_context(machine_of_this_command(wait, share_machine))

        trusted = trust_script or command is not None
        searches = _StepSearches(
            stacks=StackRuns(folder.path, launcher, pinner.indexes, trusted),
            begin=begin,
            guard=MachineGuard.of_this_command(settings, wait, share=share_machine),
            max_jobs=max_jobs,
            deadline=deadline,
            recorder=recorder,
            quiet=as_json,
            command=command,
            variables=settled,
        )
        series = SeriesMaker(settings, folder, state, pinner, chosen, dev=command is not None)
        stack.enter_context(explained_errors())
        if len(subjects) == 1:
            searches.search(series.releases(subjects[0], others))
        else:
            series.search_locks(subjects, searches.search)
    print_searches(searches.done, folder.path, as_json=as_json)
    accepted = not ingest or ingest_folders(settings, searches.folders, as_json=as_json)
    context.exit(max(0 if accepted else 1, *(_exit_code(it) for _, it in searches.done)))


def _exit_code(search: StepSearch) -> int:
    if search.state in {"step", "none"}:
        return 0
    stopped = search.stopped
    return _BUSY if stopped is not None and stopped.reason is StopReason.BUSY else 1


@dataclass(frozen=True, slots=True)
class MeasuredScript:
    """The script that the jobs of a search run.

    :param label: name of the indicator, or of the file of the script
    :param script: name of the indicator, or the text of the script
    :param identity: further parts of the question, as JSON values
    """

    label: str
    script: str
    identity: Mapping[str, Any] = field(default_factory=dict)


def measured_script(
    indicator: str | None,
    parameters: Sequence[str],
    script_file: str | None,
    command: Command | None,
    trusted: bool,
) -> MeasuredScript:
    """The indicator, the script or the command to run.

    :raises click.UsageError: if none or several are given
    """
    if sum(it is not None for it in (indicator, script_file, command)) != 1:
        raise click.UsageError(
            "give an indicator with --pi, a command behind --, or a script with --script"
        )
    if trusted and script_file is None:
        raise click.UsageError("--trust-script is for --script")
    if indicator is not None:
        indicator_of(indicator)
        return MeasuredScript(indicator, indicator)
    if parameters:
        raise click.UsageError("-p is for --pi: only indicators have parameters")
    if command is not None:
        return MeasuredScript(printable(str(command)), script_text(), command.identity)
    name = script_file or ""
    try:
        text = Path(name).read_bytes()
        script = text.decode()
    except OSError as error:
        raise InvalidArgument(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name}: {error}") from None
    identity = {"script_sha256": sha256(text).hexdigest(), "trusted": trusted}
    return MeasuredScript(printable(Path(name).name), script, identity)


def searched_subjects(subjects: tuple[str, ...]) -> tuple[str, ...]:
    """The subjects, with two releases of one package as one requirement.

    >>> searched_subjects(("numpy==2.4.6", "numpy==1.26.4"))
    ('numpy>=1.26.4,<=2.4.6',)

    :raises InvalidArgument: if a release has extras or a marker, which a search would not keep
    """
    try:
        releases = [Requirement(it) for it in subjects]
        versions = sorted(Version(str(it.specifier).removeprefix("==")) for it in releases)
    except (InvalidRequirement, InvalidVersion):
        return subjects
    if len(subjects) != 2 or len({canonicalize_name(it.name) for it in releases}) > 1:
        return subjects
    for text, release in zip(subjects, releases, strict=True):
        if release.extras or release.marker:
            raise InvalidArgument(f"{text!r}: give a name and versions only")
    return (f"{releases[0].name}>={versions[0]},<={versions[1]}",)


def question_of(
    subjects: Sequence[str],
    measured: MeasuredScript,
    parameters: Sequence[str],
    others: Sequence[str],
    python_version: str | None,
    index: str | None,
    selection: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The question of the search as JSON values; the default folder is named by their digest.

    :param selection: parts of locks that count, see :func:`cli.request_options.selection_options`

    :raises click.UsageError: if there are more than two subjects, or packages besides two locks
    """
    if len(subjects) > 2:
        raise click.UsageError("give one requirement, or two locks")
    if len(subjects) == 2 and others:
        raise click.UsageError("--with is for a requirement; two locks name all packages")
    selected = {option: it for option, it in (selection or {}).items() if it}
    if len(subjects) == 1 and selected:
        raise click.UsageError(f"{next(iter(selected))} is for two locks")
    return {
        "subjects": [sha256(lock_content(Path(it))).hexdigest() for it in subjects]
        if len(subjects) == 2
        else list(subjects),
        "indicator": measured.label,
        **measured.identity,
        "parameters": sorted(parameters),
        "with": sorted(others),
        "python": python_version,
        "index": index,
        **({"selection": selected} if selected else {}),
    }


def _template(
    question: Mapping[str, Any],
    state: Mapping[str, Any],
    subjects: Sequence[str],
    options: Mapping[str, Any],
    program: Sequence[str],
) -> Bisect:
    """The search without its results.

    :param options: further options of the command that continues the search
    """
    hardware = own_hardware()
    question_options = {
        "--pi": None if program or options["--script"] else question["indicator"],
        "-p": question["parameters"],
        "--with": question["with"],
        "--python": question["python"],
        "--index": question["index"],
    }
    return Bisect(
        bisect_id=state["bisect"]["bisect_id"],
        subjects=[printable(it) for it in subjects],
        packages=[],
        indicator=question["indicator"],
        parameters=dict(key_and_value(it, "-p") for it in question["parameters"]),
        others=question["with"],
        python_version=question["python"],
        index_name=question["index"] or DEFAULT_INDEX,
        hardware_digest=hardware.digest,
        hardware_label=hardware.label,
        command=printable(command_line(subjects, {**question_options, **options}, program)),
        state=SearchState.RUNNING.value,
        max_jobs=options["--max-jobs"],
        started_at=datetime.fromisoformat(state["bisect"]["started_at"]),
    )


def command_line(
    subjects: Sequence[str], options: Mapping[str, Any], program: Sequence[str] = ()
) -> str:
    """The command of a search, without secrets.

    :param options: an option with several values is repeated; ``None`` and ``False`` are left out
    :param program: behind ``--``

    >>> command_line(["a>=1"], {"-p": ["m=1", "n=2"], "--out": None, "--share-machine": True})
    "thoth bisect 'a>=1' -p m=1 -p n=2 --share-machine"
    """
    arguments = ["thoth", "bisect", *subjects]
    for name, option in options.items():
        for value in option if isinstance(option, list | tuple) else [option]:
            if value is not None and value is not False:
                arguments += [name] if value is True else [name, str(value)]
    arguments += ["--", *program] if program else []
    return without_command_secrets(shlex.join(arguments))


@dataclass
class _StepSearches:
    """Runs the searches of a command: one for a requirement, up to two between locks.

    :param begin: called before the first search, when all arguments are known to be valid
    :param guard: waits before jobs run, and stops the search
    :ivar done: each series with its result
    :ivar folders: folders of all inspections
    """

    stacks: StackRuns
    begin: Callable[[], None]
    guard: MachineGuard
    max_jobs: int
    deadline: float | None
    recorder: BisectRecorder
    quiet: bool
    command: Command | None
    variables: Mapping[str, str]
    done: list[tuple[StackSeries, StepSearch]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def search(self, series: StackSeries) -> StepSearch:
        """Search a series with the jobs that earlier searches left.

        :raises InvalidArgument: if fewer than two stacks can be measured
        """
        if not self.done:
            self.begin()
        measurer = ExecutorMeasurer(
            series.name, self.stacks, self.guard, partial(self._specification, series),
            self.deadline, warm=self.command is None,
        )  # fmt: skip
        spent = sum(earlier.jobs for _, earlier in self.done)
        try:
            result = find_step(
                measurer, len(series.labels), max_jobs=self.max_jobs - spent,
                progress=lambda at: self._progress(series, at, spent),
            )  # fmt: skip
        except StackUnavailable as error:
            label = series.labels[error.stack]
            raise InvalidArgument(
                f"fewer than two stacks can be measured; {label}: {printable(error.reason)}"
            ) from None
        self.folders.extend(measurer.folders)
        self.done.append((series, result))
        self.recorder.progress(self.done)
        return result

    def _specification(self, series: StackSeries, place: int) -> tuple[dict[str, Any] | None, str]:
        document, refusal = series.specification_of(place)
        if document is not None and self.command is not None:
            python = document["python"]
            document = self.command.specification(python, self.variables, COMMAND_TIMEOUT_S)
        return document, refusal

    def _progress(self, series: StackSeries, at: StepSearch, spent: int) -> None:
        self.recorder.progress([*self.done, (series, at)])
        if not self.quiet:
            jobs = counted(at.jobs + spent, "job")
            click.echo(printable(f"{jobs}: {search_sentence(series, at)}"), err=True)


def print_searches(
    searches: Sequence[tuple[StackSeries, StepSearch]], out: Path, *, as_json: bool
) -> None:
    """Print the answer of each search."""
    if as_json:
        documents = [search_document(series, search) for series, search in searches]
        print_json({"document_version": DOCUMENT_VERSION, "out": str(out), "searches": documents})
        return
    for series, search in searches:
        click.echo(printable(search_sentence(series, search)))
        for note in _notes(series, search):
            click.echo(printable(f"  {note}"))
    click.echo(f"inspections: {out}", err=True)


def _notes(series: StackSeries, search: StepSearch) -> list[str]:
    labels = series.labels
    notes = [
        f"{counted(search.jobs, 'job')}: {search.search_jobs} to find,"
        f" {search.confirming_jobs} fresh ones to confirm"
    ]
    if search.unusable_jobs:
        notes.append(f"{counted(search.unusable_jobs, 'job')} failed or unstable, so not used")
    for place, reason in search.unavailable.items():
        notes.append(f"skipped: {labels[place]}: {_first_line(reason)}")
    if not search.flat_remainder and search.remainder is not None:
        rest = search.remainder
        notes.append(
            f"the rest is not flat: {labels[rest.first]} … {labels[rest.last]} probably differ by"
            f" another {100 * math.expm1(rest.effect):+.0f} %; this was not confirmed"
        )
    return notes


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "unknown reason"
