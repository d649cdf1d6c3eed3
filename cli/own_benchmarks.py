"""The benchmarks that a project names in its files: which run, and whether they are confirmed."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.console import print_note
from common.settings import Settings
from loop.watched_projects import benchmark_files, benchmarks_of, confirm_commands, unconfirmed
from model.errors import InvalidArgument
from model.measurements.evidence import COMMAND, COMMAND_FILES, COMMAND_TEXT, Evidence
from model.text import first_few, printable

Command = TypeVar("Command", bound=Callable[..., Any])


def benchmark_option(command: Command) -> Command:
    """Add ``--benchmark``, which names benchmarks of the project in this folder."""
    return click.option(
        "--benchmark", "benchmarks", multiple=True, metavar="NAME",
        help="Run this benchmark of the project, which [tool.thoth.benchmarks] names; repeat the"
        " option for more.",
    )(command)  # fmt: skip


def confirmation_option(command: Command) -> Command:
    """Add ``--yes``, which confirms the commands of the project's files."""
    return click.option(
        "--yes", "confirmed", is_flag=True,
        help="Do not ask before running benchmarks that the project's files name.",
    )(command)  # fmt: skip


def chosen_benchmarks(
    settings: Settings, folder: Path, names: Sequence[str], *, confirmed: bool
) -> dict[str, str]:
    """The commands of these benchmarks by name, which the user has confirmed; by default all.

    :param confirmed: whether the user confirms new commands without being asked
    :raises InvalidArgument: if there is no such benchmark, or nobody can confirm it
    """
    known = benchmarks_of(folder)
    for name in names:
        if name not in known:
            listed = first_few(list(known), 10)
            raise InvalidArgument(
                f"--benchmark: the project has no benchmark {name!r}",
                hint=f"it has {listed}" if known else "name it in [tool.thoth.benchmarks]",
            )
    chosen = {name: it for name, it in known.items() if not names or name in names}
    require_confirmed(settings, folder, chosen, confirmed=confirmed)
    return chosen


def of_these_files(
    evidence: Evidence, folders: Sequence[Path], note: Callable[[str], object] = print_note
) -> Evidence:
    """The evidence without measurements of commands whose files have changed in these folders.

    These measurements are of other projects, or of earlier states of these files.

    :param note: called with a sentence about the removed measurements
    """
    measured = {
        number: str(series.parameters.get(COMMAND_TEXT))
        for number, series in enumerate(evidence.series)
        if series.indicator == COMMAND
    }
    commands = {it: it for it in measured.values()}
    here = [benchmark_files(folder, commands) for folder in folders]
    others = {
        number: command
        for number, command in measured.items()
        if evidence.series[number].parameters.get(COMMAND_FILES)
        not in {it.get(command) for it in here}
    }
    if not others:
        return evidence
    left_out = first_few([f"`{it}`" for it in dict.fromkeys(others.values())], 5)
    note(f"not counted, because it was measured with other files than those here: {left_out}")
    left = tuple(it for it in evidence.readings if it.series not in others)
    return replace(evidence, readings=left)


def program_of_benchmark(
    settings: Settings, folder: Path, names: Sequence[str], *, confirmed: bool
) -> tuple[str, ...]:
    """The command of one benchmark, as behind ``--``; empty if the project has no benchmark.

    :param names: of one benchmark; empty for the only one of the project
    :raises InvalidArgument: if there is no such benchmark, or there are several
    """
    known = benchmarks_of(folder)
    if not known and not names:
        return ()
    if len(set(names) or known) > 1:
        listed = first_few(list(names or known), 5)
        raise InvalidArgument(f"--benchmark: name one of them: {listed}")
    return tuple(chosen_benchmarks(settings, folder, names, confirmed=confirmed).values())


def confirm_own_benchmarks(settings: Settings, folder: Path, *, confirmed: bool) -> None:
    """Ask for a confirmation of a project's benchmarks; without a terminal, say what will not run.

    :raises click.Abort: if the user refuses
    """
    commands = benchmarks_of(folder)
    new = unconfirmed(settings, folder, commands)
    if new and not confirmed and not sys.stdin.isatty():
        print_note(f"not run, because nobody confirmed them (--yes): {first_few(list(new), 5)}")
        return
    require_confirmed(settings, folder, commands, confirmed=confirmed)


def require_confirmed(
    settings: Settings, folder: Path, commands: Mapping[str, str], *, confirmed: bool
) -> None:
    """Show the commands that are new, and ask for a confirmation.

    :raises InvalidArgument: if nobody can be asked
    :raises click.Abort: if the user refuses
    """
    new = unconfirmed(settings, folder, commands)
    if not new:
        return
    click.echo(f"The files of {folder.absolute()} name commands that are new here:", err=True)
    for name, command in new.items():
        click.echo(f"  {name}: {printable(command)}", err=True)
    if not confirmed:
        if not sys.stdin.isatty():
            raise InvalidArgument(
                "nobody has confirmed these commands on this machine",
                hint="add --yes if you trust the project: they run with all your permissions",
            )
        click.confirm("Run them with all your permissions?", abort=True, err=True)
    confirm_commands(settings, folder, new)
