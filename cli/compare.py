"""``thoth compare``: is a command faster with other versions or other settings?"""

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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
    answer_sentences,
    attribution_sentence,
    benchmark_name,
    labels_of,
    stack_document,
)
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.verdicts import family_document, family_text
from adviser.stack_comparison import StackGroup, StackResult
from adviser.stacks_document import comparison_count, group_document
from cli.compare_stacks import (
    STATE_NAME,
    StackMeasurer,
    Subject,
    changed_series,
    indicator_fields,
    pinned_versions,
    project_requirements,
    resolved_stacks,
    subject_of,
)
from cli.console import Column, Styled, Table, print_json
from cli.inspect import ingest_folders
from cli.knowledge import answer_from_pack
from cli.measuring import MachineGuard, SearchFolder, StackPinner, StackRuns, local_launcher
from cli.measuring_options import (
    SecondsRange,
    explained_errors,
    machine_of_this_command,
    machine_options,
)
from cli.options import (
    NamedPath,
    ProgramCommand,
    as_json_option,
    key_and_value,
    pack_option,
    program_of,
)
from cli.own_benchmarks import benchmark_option, chosen_benchmarks, confirmation_option
from cli.request_options import lock_options, lock_selection
from cli.stacks import IntervalScale, difference_text, interval_scale, interval_text
from common.settings import Settings
from model.json_documents import digest
from model.measurements.job_stability import left_out_text
from model.measurements.units import DISPLAY_UNITS, Unit, byte_size
from model.packages.environments import environment
from model.packages.identity import DEFAULT_INDEX
from model.redaction import shown_variables
from model.text import counted, first_few, printable
from pis.command_specifications import COMMAND_TIMEOUT_S, Command, command_of, script_text

#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1
#: Exit codes: an open comparison, and a machine that stayed busy.
_UNDETERMINED, _BUSY = 4, 5
#: What a specification says about its jobs, beside the stack.
_SCRIPT_FIELDS = ("script", "parameters", "files", "environment", "run", "timeout_s")
_STYLES = {"faster": "green", "slower": "red", "equivalent": "cyan"}


@click.command(cls=ProgramCommand)
@click.argument("subjects", nargs=-1, required=True, metavar="A B [C]...")
@click.option("--env", "shared", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for all; repeat the option for more."
              " Numbers and short words are stored; other values only as a digest.")  # fmt: skip
@click.option("--env-a", "own_a", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for A only.")  # fmt: skip
@click.option("--env-b", "own_b", multiple=True, metavar="NAME=VALUE",
              help="Set a variable for B only.")  # fmt: skip
@click.option("--with", "others", multiple=True, metavar="REQUIREMENT",
              help="Also install this package in every stack; repeat for more.")  # fmt: skip
@click.option("--project/--no-project", default=True, show_default=True,
              help="Make the project in this folder importable, and add its requirements to those"
              " of A and B.")  # fmt: skip
@benchmark_option
@confirmation_option
@lock_options
@click.option("--python", "python_version", metavar="VERSION",
              help="Python version, such as 3.11.  [default: this interpreter's]")  # fmt: skip
@click.option("--index", metavar="NAME", help="Name of a configured package index.")
@click.option("--max-minutes", type=click.FloatRange(0, 100_000, min_open=True), default=20,
              show_default=True, help="Start no new block of jobs after this time.")  # fmt: skip
@click.option("--timeout", type=SecondsRange(0, 86_400, min_open=True), metavar="S",
              default=COMMAND_TIMEOUT_S, show_default=True,
              help="Time limit of a job in seconds.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the comparison.  [default: one in THOTH_HOME/compare]")  # fmt: skip
@click.option("--ingest/--no-ingest", default=False, show_default=True,
              help="Ingest the inspections at the end.")  # fmt: skip
@pack_option
@click.option("--hardware", metavar="DIGEST",
              help="With --pack, the hardware class, by the first digits of its digest."
                   "  [default: this machine's]")  # fmt: skip
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
    benchmarks: tuple[str, ...],
    confirmed: bool,
    pack: Path | None,
    hardware: str | None,
    **selection: Any,
) -> None:
    """Compare the speed of a command with other versions or settings.

    A, B and so on are requirements such as numpy==2.1.0, locks, or specifications. Packages that
    they leave open have equal versions in every stack. The command behind -- runs in turns in
    the environment of each, in this folder, with all your permissions and variables, as in a shell:

      thoth compare numpy==1.26.4 numpy==2.4.6 -- python bench.py

    Without a command, the benchmarks of the project run, else the indicators of packages that
    differ.

    With --pack, nothing is measured: a pack answers about the versions of A and B.

    The command and the variables are stored, without values that look like secrets.

    Measuring ends as soon as the answer is settled, or after --max-minutes. Run the same command
    again to continue.

    Exit code 0 if every difference is settled or ruled out, 4 if one is undetermined, 1 if a stack
    cannot be built or run, 2 for wrong input, 3 if an index cannot be reached, 5 if the machine
    stayed busy.
    """
    settings: Settings = context.obj
    program = program_of(context)
    if program and benchmarks:
        raise click.UsageError("give a command behind --, or --benchmark")
    if hardware and pack is None:
        raise click.UsageError("--hardware is for --pack: jobs run on this machine")
    if not 2 <= len(subjects) <= len(ascii_uppercase):
        raise click.UsageError("give two stacks or more, such as numpy==1.26.4 numpy==2.4.6")
    variables, concealed = _variables(len(subjects), shared, own_a, own_b)
    with explained_errors():
        named = [subject_of(it, python_version, lock_selection(selection)) for it in subjects]
    if pack is not None:
        context.exit(
            answer_from_pack(
                settings, pack, [(it.text, pinned_versions(it)) for it in named],
                python_version, hardware, [program, benchmarks, others, *variables],
                as_json=as_json,
            )
        )  # fmt: skip
    folder = Path.cwd()
    commands = [command_of(program, folder, project=project)] if program else []
    if not program and not any(it.document for it in named):
        chosen_commands = chosen_benchmarks(settings, folder, benchmarks, confirmed=confirmed)
        commands = [command_of([it], folder, project=project) for it in chosen_commands.values()]
    if commands and project and any(it.requirements for it in named):
        others = (*others, *project_requirements(folder))
    question = {
        "subjects": [it.identity for it in named],
        "commands": [it.named for it in commands],
        "files": {name: digest for it in commands for name, digest in it.files.items()},
        "indicators": [] if commands else list(settings.loop_indicators),
        "project": project,
        "variables": [dict(sorted(it.items())) for it in variables],
        "with": sorted(others),
        "python": python_version,
        "index": index,
    }
    place = out or settings.home / "compare" / digest(question).removeprefix("sha256:")[:8]
    kept = SearchFolder(place.absolute(), STATE_NAME)
    state, index = kept.state(question), index or DEFAULT_INDEX
    with ExitStack() as stack:
        launcher = stack.enter_context(local_launcher(settings, commands, concealed))
        stack.enter_context(explained_errors())
        resolver = stack.enter_context(ResolverWorker()).resolve
        pinner = StackPinner(
            kept, IndexStacks(settings, index, environment(python_version), resolver),
            script_text(), {}, python_version, index, dict(settings.package_indexes),
        )  # fmt: skip
        _say("resolving", as_json)
        stacks, parts = resolved_stacks(pinner, named, others, variables, state)
        kept.write_state(state)
        stack.enter_context(machine_of_this_command(wait, share_machine))
        for note in _notes(kept.path, question, commands, named):
            click.echo(f"note: {note}", err=True)
        labels = labels_of(stacks)
        measurer = StackMeasurer(
            runner=StackRuns(kept.path, launcher, pinner.indexes, bool(commands)),
            guard=MachineGuard.of_this_command(settings, wait, share=share_machine),
            stacks=stacks,
            labels=labels,
            specifications=_specifications(settings, commands, named, stacks, parts, timeout),
            state=state,
            write_state=lambda: kept.write_state(state),
            limit_s=60 * max_minutes,
            progress=partial(_print_progress, quiet=as_json),
            say=partial(_say, as_json=as_json),
        )
        look, stopped = measurer.run()
    answer = ComparisonAnswer(look, stopped, stacks, labels, measurer.context(look))
    if as_json:
        print_json({**answer.document(measurer), "out": str(kept.path)})
    else:
        answer.print(measurer)
        click.echo(f"inspections: {kept.path}", err=True)
    folders = sorted(set(measurer.folders.values()))
    accepted = not ingest or ingest_folders(settings, folders, as_json=as_json)
    context.exit(answer.exit_code if accepted else 1)


def _variables(
    count: int, shared: Sequence[str], own_a: Sequence[str], own_b: Sequence[str]
) -> tuple[list[dict[str, str]], dict[str, str]]:
    """The variables of each stack without secrets, and the real value of each shown value."""
    common = dict(key_and_value(it, "--env") for it in shared)
    own = [
        dict(key_and_value(it, name) for it in texts)
        for name, texts in (("--env-a", own_a), ("--env-b", own_b))
    ]
    known = [shown_variables(common | it) for it in (*own, *[{}] * count)[:count]]
    return [shown for shown, _ in known], dict(ChainMap(*(it for _, it in known)))


def _specifications(
    settings: Settings,
    commands: Sequence[Command],
    subjects: Sequence[Subject],
    stacks: Sequence[ComparedStack],
    parts: Sequence[Mapping[str, Any]],
    timeout_s: float,
) -> list[list[dict[str, Any]]]:
    """For each stack, a specification of each measurement.

    It runs a command, the script of the first specification among the subjects, or an indicator.
    """
    own = next((it.document for it in subjects if it.document is not None), None)
    scripts = [{name: own[name] for name in _SCRIPT_FIELDS if name in own}] if own else []
    if not commands and own is None:
        scripts = indicator_fields(settings, stacks)
    rows = []
    for stack, part in zip(stacks, parts, strict=True):
        row = [it.specification(part, stack.variables, timeout_s) for it in commands]
        variables = [{"name": it, "value": value} for it, value in stack.variables.items()]
        for script in [] if commands else scripts:
            environment = [*script.get("environment", ()), *variables]
            row.append({**script, "python": dict(part), "environment": environment})
        # No other stack of the comparison has the same inspection.
        rows.append([{**it, "identifier": f"compared-{stack.letter.lower()}"} for it in row])
    return rows


def _notes(
    folder: Path,
    question: Mapping[str, Any],
    commands: Sequence[Command],
    subjects: Sequence[Subject],
) -> Iterator[str]:
    for command in commands:
        yield f"{command} runs as you, as in a shell, in {command.folder}"
        if (program := command.own_environment) is not None:
            yield f"{program} may use its own environment; give the command without {program}"
    for subject in subjects:
        if subject.left_out:
            names = first_few(subject.left_out, 5)
            yield f"{subject.text}: not from an index, so not installed: {names}"
    if (changed := changed_series(folder, question)) is not None:
        yield changed


def _say(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(text, err=True)


def _print_progress(look: PlannedLook, quiet: bool) -> None:
    done = counted(look.blocks, "job")
    if len(look.comparisons) == 1:
        ((_, _, comparison),) = look.comparisons
        _say(f"{done} each: {interval_text(comparison)}", quiet)
    else:
        settled = sum(it.verdict.settled for *_, it in look.comparisons)
        _say(f"{done} each: {settled} of {len(look.comparisons)} comparisons settled", quiet)


@dataclass(frozen=True)
class ComparisonAnswer:
    """The answer of a comparison, for people and as JSON."""

    look: PlannedLook
    stopped: SearchStopped | None
    stacks: Sequence[ComparedStack]
    labels: Sequence[str]
    context: Sequence[str]

    @property
    def exit_code(self) -> int:
        """0 if everything is settled."""
        if self.look.settled:
            return 0
        busy = self.stopped is not None and self.stopped.reason is StopReason.BUSY
        return _BUSY if busy else _UNDETERMINED

    @property
    def sentences(self) -> list[str]:
        """The verdicts, and the possible causes of differences."""
        labels = {it.letter: label for it, label in zip(self.stacks, self.labels, strict=True)}
        verdicts = answer_sentences(self.look, labels) or ["Too few jobs ran to compare them."]
        causes = [attribution_sentence(it, self.stacks[0]) for it in self.stacks[1:]]
        if len(causes) > 1:
            causes = [f"{self.labels[n]}: {it}" for n, it in enumerate(causes, start=1)]
        return [*verdicts, *causes, *self.context]

    def _label(self, stack: StackResult) -> str:
        return printable(self.labels[ascii_uppercase.index(stack.stack_digest or "A")])

    def print(self, measurer: StackMeasurer) -> None:
        """Print one table, then the sentences."""
        if len(self.look.groups) == 1:
            self._stacks_table(self.look.groups[0], measurer).print()
        elif self.look.groups:
            self._benchmarks_table().print()
        for sentence in self.sentences:
            click.echo(printable(sentence))
        for group in self.look.groups:
            for stack in group.stacks:
                if stack.unstable:
                    text = left_out_text(Counter(stack.unstable))
                    click.echo(f"left out: {self._label(stack)}: {text}", err=True)
        for text in measurer.excluded():
            click.echo(printable(f"not compared: {text}"), err=True)
        if self.stopped is not None:
            remedy = ": run the same command again to continue"
            click.echo(self.stopped.message + remedy * self.look.continuing_helps, err=True)
        if count := comparison_count(self.look.groups):
            click.echo(family_text(count), err=True)

    def _stacks_table(self, group: StackGroup, measurer: StackMeasurer) -> Table:
        """A row for each stack."""
        scale = interval_scale(group)
        counted_energy = any("energy_j" in measurer.usage(it.stack_digest) for it in group.stacks)
        used = ("CPU time", "memory", *["energy"] * counted_energy)
        numbers = ("jobs", "time" if _is_time(group) else "value", *used, "speed")
        table = Table(
            [
                Column("stack", wraps=True), *(Column(it, right=True) for it in numbers),
                *([] if scale is None else [Column(scale.title)]),
                Column("95 % interval", right=True), Column("verdict"),
            ],
            title=printable(benchmark_name(group)),
        )  # fmt: skip
        for stack in sorted(group.stacks, key=lambda it: it.stack_digest or ""):
            usage, counts = measurer.usage(stack.stack_digest), stack.jobs - len(stack.unstable)
            table.add(
                self._label(stack),
                str(stack.jobs) if counts == stack.jobs else f"{counts} of {stack.jobs}",
                _value(group, stack),
                _time(usage["user_s"] + usage["system_s"]) if "user_s" in usage else "–",
                byte_size(usage["memory_bytes"]) if "memory_bytes" in usage else "–",
                *[f"{usage['energy_j']:.3g} J" if "energy_j" in usage else "–"] * counted_energy,
                *_difference(stack, scale),
            )
        return table

    def _benchmarks_table(self) -> Table:
        """A row for each benchmark and stack but the baseline."""
        several = len(self.stacks) > 2
        table = Table([
            Column("benchmark", wraps=True), *([Column("stack")] * several),
            Column(self.labels[0], right=True),
            Column("other" if several else self.labels[1], right=True),
            Column("speed", right=True), Column("95 % interval", right=True), Column("verdict"),
        ])  # fmt: skip
        for group, stack, _ in self.look.comparisons:
            table.add(
                printable(benchmark_name(group)),
                *([self._label(stack)] * several),
                "–" if group.baseline is None else _value(group, group.baseline),
                _value(group, stack), *_difference(stack, None),
            )  # fmt: skip
        return table

    def document(self, measurer: StackMeasurer) -> dict[str, Any]:
        """The answer as JSON values."""
        return {
            "document_version": DOCUMENT_VERSION,
            "settled": self.look.settled,
            "stopped": self.stopped
            and {"reason": self.stopped.reason.value, "message": self.stopped.message},
            "sentences": self.sentences,
            "jobs_each": self.look.blocks,
            "looks": self.look.number + 1,
            "stacks": [
                stack_document(it, label, self.stacks[0]) | measurer.usage(it.letter)
                for it, label in zip(self.stacks, self.labels, strict=True)
            ],
            "family": family_document(comparison_count(self.look.groups)),
            "benchmarks": [group_document(it) for it in self.look.groups],
        }


def _difference(stack: StackResult, scale: IntervalScale | None) -> list[str | Styled]:
    """Cells of the difference, its interval, drawn if there is a scale, and the verdict."""
    comparison = stack.comparison
    drawn = [] if scale is None else [scale.draw(comparison)]
    if comparison is None:
        return ["", *drawn, "", "baseline"]
    verdict = Styled(str(comparison.verdict), _STYLES.get(comparison.verdict, ""))
    return [difference_text(comparison), *drawn, interval_text(comparison), verdict]


def _is_time(group: StackGroup) -> bool:
    return group.unit is Unit.RUNS_PER_SECOND and "value" not in group.parameters


def _value(group: StackGroup, stack: StackResult) -> str:
    """The median of a stack, as the person's program states it."""
    rate = stack.median_rate
    if not rate:
        return "–"
    if _is_time(group):
        return _time(1 / rate)
    unit, _, direction = str(group.parameters.get("value", "")).partition(", ")
    multiple = DISPLAY_UNITS[group.unit]
    number = 1 / rate if direction.startswith("lower") else rate / multiple.factor
    return f"{number:.4g} {printable(unit or multiple.name)}"


def _time(seconds: float) -> str:
    """A time with three digits, in the unit that fits.

    >>> _time(1.2345), _time(0.0456), _time(7.8e-6), _time(125.0)
    ('1.23 s', '45.6 ms', '7.8 µs', '125 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
