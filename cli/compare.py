"""``thoth compare``: is a command faster with other versions or other settings?"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import click

from adviser.answering.index_stacks import IndexStacks
from adviser.bisect.search import SearchStopped, StopReason
from adviser.planned_comparison import (
    ComparedStack,
    PlannedLook,
    attribution_sentence,
    labels_of,
    stack_document,
    verdict_sentence,
)
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.verdicts import family_document, family_text
from adviser.stack_comparison import StackGroup
from adviser.stacks_document import comparison_count, group_document
from cli.bisect_measurer import MachineGuard, SearchFolder, StackPinner
from cli.compare_jobs import StackMeasurer, Usage
from cli.compare_stacks import (
    STATE_NAME,
    Subject,
    changed_series,
    project_requirements,
    resolved_stacks,
    subject_of,
)
from cli.console import Column, Styled, Table, print_json
from cli.inspect import hint_to_resume, ingest_folders
from cli.machine import (
    SecondsRange,
    explained_errors,
    machine_of_this_command,
    machine_options,
    print_wait,
    warn_if_busy,
)
from cli.options import NamedPath, ProgramCommand, as_json_option, key_and_value, program_of
from cli.request_options import lock_options, lock_selection
from cli.stacks import difference_text, interval_scale, interval_text
from common.settings import Settings
from model.errors import InvalidArgument
from model.json_documents import digest
from model.measurements.units import byte_size
from model.packages.environments import environment
from model.packages.identity import DEFAULT_INDEX
from model.text import counted, first_few, printable
from pis.amun.launchers.local import LocalLauncher
from pis.amun.processes import interrupted_by_signals
from pis.commands import Command, command_of, script_text

#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1
#: Exit codes: an open comparison, and a machine that stayed busy.
_UNDETERMINED, _BUSY = 4, 5
_STYLES = {"faster": "green", "slower": "red", "equivalent": "cyan"}


@click.command(cls=ProgramCommand)
@click.argument("subjects", nargs=-1, required=True, metavar="A B [C]...")
@click.option("--env", "shared", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for all; repeat the option for more.")  # fmt: skip
@click.option("--env-a", "own_a", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for A only.")  # fmt: skip
@click.option("--env-b", "own_b", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for B only.")  # fmt: skip
@click.option("--with", "others", multiple=True, metavar="REQUIREMENT",
              help="Another package of every stack; repeat the option for more.")  # fmt: skip
@click.option("--project/--no-project", default=True, show_default=True,
              help="Make the project in this folder importable, and add its requirements to those"
              " of A and B.")  # fmt: skip
@lock_options
@click.option("--python", "python_version", metavar="VERSION",
              help="Python version, such as 3.11.  [default: this interpreter's]")  # fmt: skip
@click.option("--index", metavar="NAME", help="Name of a configured package index.")
@click.option("--max-minutes", type=click.FloatRange(0, 100_000, min_open=True), default=20,
              show_default=True, help="Start no new block of jobs after this time.")  # fmt: skip
@click.option("--timeout", type=SecondsRange(0, 86_400, min_open=True), default=3600, metavar="S",
              show_default=True, help="Time limit of a job in seconds.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the comparison.  [default: one in THOTH_HOME/compare]")  # fmt: skip
@click.option("--ingest/--no-ingest", default=False, show_default=True,
              help="Ingest the inspections at the end.")  # fmt: skip
@machine_options
@as_json_option
@click.pass_context
def compare(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    /,
    subjects: tuple[str, ...],
    shared: tuple[str, ...],
    own_a: tuple[str, ...],
    own_b: tuple[str, ...],
    others: tuple[str, ...],
    project: bool,
    python_version: str | None,
    index: str | None,
    max_minutes: float,
    timeout: float,
    out: Path | None,
    ingest: bool,
    wait: float,
    share_machine: bool,
    as_json: bool,
    **selection: Any,
) -> None:
    """Compare the speed of a command with other versions or settings.

    A, B and so on are requirements such as numpy==2.1.0, locks, or specifications. What they leave
    open is resolved once and held equal. The command behind -- runs in turns in the environment of
    each, in this folder, with all your permissions and variables, as in a shell:

      thoth compare numpy==1.26.4 numpy==2.4.6 -- python bench.py

    Measuring ends as soon as the answer is settled, or after --max-minutes. Run the same command
    again to continue.

    Exit code 0 if every difference is settled or ruled out, 4 if one is undetermined, 1 if a stack
    cannot be built or run, 5 if the machine stayed busy.
    """
    settings: Settings = context.obj
    command = _command(program_of(context), project)
    variables = _variables(len(subjects), shared, own_a, own_b)
    if len(subjects) < 2 or len(subjects) > len(ascii_uppercase):
        raise click.UsageError("give two stacks or more, such as numpy==1.26.4 numpy==2.4.6")
    chosen = lock_selection(selection)
    with explained_errors():
        named = [subject_of(it, python_version, chosen) for it in subjects]
    if project and any(it.requirements for it in named):
        others = (*others, *project_requirements(command.folder))
    question = _question(named, command, variables, others, python_version, index)
    short = digest(question).removeprefix("sha256:")[:8]
    folder = SearchFolder((out or settings.home / "compare" / short).absolute(), STATE_NAME)
    state, index = folder.state(question), index or DEFAULT_INDEX
    deadline = time.monotonic() + 60 * max_minutes
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_signals())
        stack.enter_context(hint_to_resume())
        stack.enter_context(explained_errors())
        launcher = stack.enter_context(closing(LocalLauncher(settings, command=command)))
        resolver = stack.enter_context(ResolverWorker()).resolve
        pinner = StackPinner(
            folder, IndexStacks(settings, index, environment(python_version), resolver),
            script_text(), {}, python_version, index, dict(settings.package_indexes),
        )  # fmt: skip
        _say("resolving", as_json)
        stacks, parts = resolved_stacks(pinner, named, others, variables, state)
        folder.write_state(state)
        stack.enter_context(machine_of_this_command(wait, share_machine))
        if share_machine:
            warn_if_busy()
        for note in _notes(folder, question, command, named):
            click.echo(f"note: {note}", err=True)
        guard = MachineGuard(
            None if share_machine else wait, settings.loop_busy_share,
            partial(print_wait, wait_s=wait),
        )  # fmt: skip
        labels = labels_of(stacks)
        measurer = StackMeasurer(
            folder.path, launcher, guard, pinner.indexes, stacks, labels,
            [
                [_identified(command.specification(part, it.variables, timeout), it)]
                for it, part in zip(stacks, parts, strict=True)
            ],
            True, state, lambda: folder.write_state(state), deadline,
            partial(_require_unchanged, command),
            lambda look: _print_progress(look, stacks, labels, as_json),
        )  # fmt: skip
        look, stopped = measurer.run()
    answer = ComparisonAnswer(look, stopped, stacks, labels, command)
    if as_json:
        print_json({**answer.document(), "out": str(folder.path)})
    else:
        answer.print(measurer)
        click.echo(f"inspections: {folder.path}", err=True)
    folders = sorted(set(measurer.folders.values()))
    accepted = not ingest or ingest_folders(settings, folders, as_json=as_json)
    context.exit(answer.exit_code if accepted else 1)


def _command(program: Sequence[str], project: bool) -> Command:
    if not program:
        raise click.UsageError("give a command behind --, such as: -- python bench.py")
    return command_of(program, Path.cwd(), project=project)


def _variables(
    count: int, shared: Sequence[str], own_a: Sequence[str], own_b: Sequence[str]
) -> list[dict[str, str]]:
    """The variables of each stack.

    :raises InvalidArgument: if an option is not ``NAME=VALUE``
    """
    common = dict(key_and_value(it, "--env") for it in shared)
    own = [
        dict(key_and_value(it, name) for it in texts)
        for name, texts in (("--env-a", own_a), ("--env-b", own_b))
    ]
    return [common | (own[place] if place < len(own) else {}) for place in range(count)]


def _question(
    subjects: Sequence[Subject],
    command: Command,
    variables: Sequence[Mapping[str, str]],
    others: Sequence[str],
    python_version: str | None,
    index: str | None,
) -> dict[str, Any]:
    """What is compared, as JSON values; the default folder is named by their digest."""
    return {
        "subjects": [it.identity for it in subjects],
        "command": str(command),
        "files": dict(command.files),
        "project": command.project,
        "variables": [dict(sorted(it.items())) for it in variables],
        "with": sorted(others),
        "python": python_version,
        "index": index,
    }


def _identified(specification: Mapping[str, Any], stack: ComparedStack) -> dict[str, Any]:
    """A specification whose inspection no other stack of the comparison has."""
    return {**specification, "identifier": f"command-{stack.letter.lower()}"}


def _require_unchanged(command: Command) -> None:
    """:raises InvalidArgument: if a file that the command names changed since the start"""
    now = command_of(command.arguments, command.folder, project=command.project).files
    names = sorted(it for it in now.keys() | command.files if now.get(it) != command.files.get(it))
    if names:
        raise InvalidArgument(
            f"{', '.join(names)}: changed while it was measured: run the same command again to"
            " measure it as it is now"
        )


def _notes(
    folder: SearchFolder,
    question: Mapping[str, Any],
    command: Command,
    subjects: Sequence[Subject],
) -> Iterator[str]:
    yield f"{command} runs as you, as in a shell, in {command.folder}"
    if (program := command.own_environment) is not None:
        yield f"{program} may run it in an environment of its own; name the program itself"
    for subject in subjects:
        if subject.left_out:
            names = first_few(subject.left_out, 5)
            yield f"{subject.text}: not from an index, so not installed: {names}"
    if (changed := changed_series(folder.path, question)) is not None:
        yield changed


def _say(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(text, err=True)


def _print_progress(
    look: PlannedLook, stacks: Sequence[ComparedStack], labels: Sequence[str], quiet: bool
) -> None:
    texts = []
    for _, stack, comparison in look.comparisons:
        label = labels[ascii_uppercase.index(stack.stack_digest or "A")]
        texts.append(
            f"{label} {comparison.interval_low_pct:+.1f} to {comparison.interval_high_pct:+.1f} %"
            if math.isfinite(comparison.standard_error)
            else f"{label} unknown"
        )
    _say(printable(f"{counted(look.blocks, 'job')} each: {'; '.join(texts[:4])}"), quiet)


class ComparisonAnswer:
    """The answer of a comparison, for people and as JSON."""

    def __init__(
        self,
        look: PlannedLook,
        stopped: SearchStopped | None,
        stacks: Sequence[ComparedStack],
        labels: Sequence[str],
        command: Command,
    ) -> None:
        self.look = look
        self.stopped = stopped
        self.stacks = stacks
        self.labels = labels
        self.command = command

    @property
    def exit_code(self) -> int:
        """0 if everything is settled."""
        if self.look.settled:
            return 0
        busy = self.stopped is not None and self.stopped.reason is StopReason.BUSY
        return _BUSY if busy else _UNDETERMINED

    @property
    def sentences(self) -> list[str]:
        """The verdicts, and what the differences can be due to."""
        verdicts = [
            verdict_sentence(
                self.look, comparison, self._label(stack.stack_digest), self.labels[0],
                f"`{self._what(group)}`",
            )
            for group, stack, comparison in self.look.comparisons
        ]  # fmt: skip
        if not verdicts:
            verdicts = [f"Too few jobs of `{self.command}` ran to compare them."]
        causes = [attribution_sentence(it, self.stacks[0]) for it in self.stacks[1:]]
        if len(causes) > 1:
            causes = [f"{self.labels[n]}: {it}" for n, it in enumerate(causes, start=1)]
        return [*verdicts, *causes]

    def _label(self, letter: str | None) -> str:
        return self.labels[ascii_uppercase.index(letter or "A")]

    def _what(self, group: StackGroup) -> str:
        return str(group.parameters.get("benchmark", self.command))

    def print(self, measurer: StackMeasurer) -> None:
        """Print a table for each benchmark, then the sentences."""
        for group in self.look.groups:
            self._table(group, measurer.usage).print()
        for sentence in self.sentences:
            click.echo(printable(sentence))
        if self.stopped is not None:
            remedy = ": run the same command again to continue"
            click.echo(self.stopped.message + remedy * self.look.continuing_helps, err=True)
        if count := comparison_count(self.look.groups):
            click.echo(family_text(count), err=True)

    def _table(self, group: StackGroup, usage_of: Any) -> Table:
        scale = interval_scale(group)
        table = Table(
            [
                Column("stack", wraps=True), Column("jobs", right=True), Column("time", right=True),
                Column("CPU time", right=True), Column("memory", right=True),
                Column("speed", right=True), *([] if scale is None else [Column(scale.title)]),
                Column("95 % interval", right=True), Column("verdict"),
            ],
            title=printable(self._what(group)),
        )  # fmt: skip
        for stack in sorted(group.stacks, key=lambda it: it.stack_digest or ""):
            usage: Usage = usage_of(stack.stack_digest)
            comparison = stack.comparison
            counts = stack.jobs - len(stack.unstable)
            elapsed_s = 1 / stack.median_rate if stack.median_rate else None
            table.add(
                printable(self._label(stack.stack_digest)),
                str(stack.jobs) if counts == stack.jobs else f"{counts} of {stack.jobs}",
                _time(elapsed_s), _time(usage.cpu_s),
                "–" if usage.memory_bytes is None else byte_size(usage.memory_bytes),
                "" if comparison is None else difference_text(comparison),
                *([] if scale is None else [scale.drawn(comparison)]),
                "" if comparison is None else interval_text(comparison),
                Styled("baseline", "") if comparison is None
                else Styled(str(comparison.verdict), _STYLES.get(comparison.verdict, "")),
            )  # fmt: skip
        return table

    def document(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return {
            "document_version": DOCUMENT_VERSION,
            "command": str(self.command),
            "settled": self.look.settled,
            "stopped": self.stopped and {
                "reason": self.stopped.reason.value, "message": self.stopped.message,
            },
            "sentences": self.sentences,
            "jobs_each": self.look.blocks,
            "looks": self.look.number + 1,
            "stacks": [
                stack_document(it, label, self.stacks[0])
                for it, label in zip(self.stacks, self.labels, strict=True)
            ],
            "family": family_document(comparison_count(self.look.groups)),
            "benchmarks": [group_document(it) for it in self.look.groups],
        }  # fmt: skip


def _time(seconds: float | None) -> str:
    """A time with three digits, in the unit that fits.

    >>> _time(1.2345), _time(0.0456), _time(125.0)
    ('1.23 s', '45.6 ms', '125 s')
    """
    if seconds is None:
        return "–"
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{1e3 * seconds:.3g} ms"
