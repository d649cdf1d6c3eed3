"""``thoth advise``: the best stack for a project, why, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import NamedPath, request_options
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.locks.lock_model import LockFile, LockFormat
    from adviser.projects.project import Project


#: The values of ``adviser.locks.lock_model.LockFormat``.
FORMATS = ("pipfile-lock", "requirements", "pylock", "constraints")
_BY_NAME = {"Pipfile.lock": "pipfile-lock"}
#: By which a file says that it is a lock, and not which; what is expected under some.
_OPEN_SUFFIXES = frozenset({".toml", ".lock", ".json"})
_SUFFIXES = {
    ".toml": ("pylock",), ".txt": ("requirements", "constraints"), ".json": ("pipfile-lock",)
}  # fmt: skip


class AdviseGroup(click.Group):
    """``thoth advise PATH`` as well as ``thoth advise check REPORT``.

    A project in a folder that is called as a subcommand is named ``./check``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["project", *args]
        return super().parse_args(ctx, args)


@click.group(cls=AdviseGroup, options_metavar="", subcommand_metavar="[PATH] [OPTIONS]")
def advise() -> None:
    """Advise the best versions for the project in PATH, this folder by default.

    `thoth advise project --help` shows all options. Exit code 0 if a stack is advised; 1 if
    there is none, or the lock that was asked for cannot be written; 2 if the project or an option
    cannot be used; 3 if a store does not answer.
    """


@advise.command("project")
@click.argument("path", type=NamedPath(path_type=Path), default=".")
@request_options
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="How many stacks, best first.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also print which measured stack is nearest to this one."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the lock of the best stack to this file.",
)
@click.option(
    "--format",
    "lock_format",
    type=click.Choice(FORMATS),
    help="Of the lock; by the file's name, else the project's own.",
)
@click.pass_context
def project_command(
    context: click.Context,
    /,
    path: Path,
    count: int,
    verbose: bool,
    as_json: bool,
    output: Path | None,
    lock_format: str | None,
    **given: Any,
) -> None:
    """Advise the best versions for the project in PATH, a folder or a file.

    With --format and without -o the lock is printed. The advice is stored: `thoth replay` gives
    it again, `thoth advise check` verifies its report. Exit codes as of `thoth advise`.
    """  # fmt: skip
    from adviser.answering.answers import answer, on_hardware, store
    from adviser.locks.lock_model import LockFormat
    from adviser.resolver.worker import ResolverWorker
    from cli.console import (
        print_json,
        print_note,
        print_report,
    )
    from cli.options import asked_of, fetch
    from cli.project_files import keep_manifest, write_file
    from common.errors import InvalidArgument
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    if output is not None and not output.absolute().parent.is_dir():
        raise InvalidArgument(f"there is no folder {output.parent}")
    with ResolverWorker() as worker:
        asked = asked_of(settings, path, given, count=count)
        if output is not None:
            keep_manifest(output, path, asked.project)
        form = LockFormat(lock_format or _format_of(output, asked.project))
        with migrated_stores(settings) as stores:
            if given["fetch"]:
                fetch(stores, asked)
            asked = on_hardware(stores, asked, given["hardware"])
            made = answer(
                stores,
                asked,
                worker.resolve,
                threads=given["threads"],
                urls=form is LockFormat.PYLOCK and (output is not None or lock_format is not None),
            )
            store(stores, made)
    lock = None
    if made.advice.best is not None and (output is not None or lock_format is not None):
        lock = _lock(made, form)
    if output is not None and lock is not None:
        write_file(output, lock.data)
        click.echo(f"wrote {output} ({form.value})", err=True)
        print_note(_odd_name(output, form))
    if as_json:
        print_json(made.report)
    elif lock is not None and output is None:
        click.echo(lock.data.decode(), nl=False)
    else:
        print_report(made.report, fetched=given["fetch"], verbose=verbose)
    if made.advice.best is None:
        context.exit(1)


@advise.command()
@click.argument("report", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Where the advice is not in this record: its snapshot, as `thoth replay --known` writes.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Likewise, its evidence.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def check(
    context: click.Context,
    report: Path,
    snapshot: Path | None,
    evidence: Path | None,
    as_json: bool,
) -> None:
    """Verify a REPORT: that nothing of it was edited, and that its stacks meet the request and
    score what it says.

    Every leaf is compared with the recorded report, and the stacks are followed anew on the
    recorded snapshot, without the solver. Of advice that is not in this record it is said what
    could be verified and what could not. Exit code 1 if something does not hold; 2 if nothing is
    wrong and not all of it could be verified.
    """  # fmt: skip
    from adviser.answering.recorded_advice import (
        check_recorded,
        read_report,
        unrepeated,
    )
    from adviser.reports.serialization import plain
    from cli.console import print_json, print_lines
    from cli.project_files import refusing_files
    from graph.evidence import Evidence
    from graph.migrate import migrated_stores
    from graph.snapshot import Snapshot

    settings: Settings = context.obj
    with refusing_files():
        document = read_report(report)
        known = (
            None if snapshot is None else Snapshot.from_json(unrepeated(snapshot)),
            None if evidence is None else Evidence.from_json(unrepeated(evidence)),
        )
        with migrated_stores(settings, graph=False) as stores:
            found = check_recorded(stores, document, *known)
    if as_json:
        print_json({"report": document["metadata"]["document_id"], **plain(found)})
    else:
        print_lines(found.problems)
        if found.unverified:
            print_lines(f"verified: {it}" for it in found.verified if not found.problems)
            print_lines(f"not verified: {it}" for it in found.unverified)
        elif not found.problems:
            stacks = len(document["result"]["report"]["products"])
            click.echo(f"all of it holds: {stacks} {'stack' if stacks == 1 else 'stacks'}")
    context.exit(1 if found.problems else 2 if found.unverified else 0)


def _format_of(output: Path | None, project: Project) -> str:
    """The format that a file's name says, else that of the project's own tool.

    :raises InvalidArgument: if the name is like that of a lock, and not of which one
    """
    from adviser.projects.locks import is_pylock
    from adviser.projects.project import ProjectFormat
    from common.errors import InvalidArgument

    if output is not None:
        if is_pylock(output.name):
            return "pylock"
        if output.name in _BY_NAME:
            return _BY_NAME[output.name]
        if output.name.endswith("constraints.txt"):
            return "constraints"
        if output.suffix == ".txt":
            return "requirements"
        if output.suffix in _OPEN_SUFFIXES:
            raise InvalidArgument(
                f"{output.name} does not say which lock it is to be: give --format, or call it "
                "Pipfile.lock, pylock.toml or pylock.NAME.toml"
            )
    return "pipfile-lock" if project.format is ProjectFormat.PIPFILE else "requirements"


def _odd_name(output: Path, form: LockFormat) -> str | None:
    """What a person should know of a file whose name is that of another format."""
    from adviser.locks.lock_model import LockFormat
    from adviser.projects.locks import is_pylock

    if form is LockFormat.PYLOCK and not is_pylock(output.name):
        return "installers know such a lock by the names pylock.toml and pylock.NAME.toml only"
    expected = _SUFFIXES.get(output.suffix)
    if expected is not None and form.value not in expected:
        return f"{output.name} is {form.value}, and called like {' or '.join(expected)}"
    return None


def _lock(made: Any, form: LockFormat) -> LockFile:
    from adviser.reports.documents import lock_of

    return lock_of(made.advice, made.advice.best, made.known, form)


@click.command()
@click.argument("advice_id", metavar="ADVICE-ID")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Of the solver."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report that came out.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file.",
)
@click.option(
    "--known",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Write snapshot.json and evidence.json into this folder, for `thoth advise check`"
    " elsewhere.",
)
@click.pass_context
def replay(
    context: click.Context,
    advice_id: str,
    threads: int,
    as_json: bool,
    output: Path | None,
    folder: Path | None,
) -> None:
    """Answer a recorded request again, and compare the report byte by byte.

    Exit code 1 if it differs, which it may only do where the search ended at its limit, or
    another version of the solver or of this code answers.
    """  # fmt: skip
    from adviser.answering.recorded_advice import (
        recorded,
        replayed,
        why_it_may_differ,
    )
    from cli.project_files import write_file
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    with migrated_stores(settings, graph=False) as stores:
        stored = recorded(stores, advice_id)
    advice, report = replayed(stored, threads)
    same = report == stored.report
    if output is not None:
        write_file(output, report + b"\n")
    if folder is not None:
        write_file(folder / "snapshot.json", stored.snapshot)
        write_file(folder / "evidence.json", stored.evidence)
    if as_json:
        click.echo(report + b"\n", nl=False)
    elif same:
        click.echo(f"the same {len(report)} bytes, result {stored.head.result_digest}")
    if not same:
        reason = why_it_may_differ(stored, advice)
        why = f": {reason}, so the answer may differ" if reason else ""
        click.echo(f"the report differs from the recorded one{why}", err=True)
    context.exit(0 if same else 1)
