"""The command ``thoth``: finds the subcommands, and turns errors into messages and exit codes.

====  ==========================================================================
0     success
1     a document, query or comparison was rejected, or the output cannot be written
2     an argument, a file or a setting is invalid
3     a store or an index does not answer, or an embedded store could not be started
4     a store has the schema of another version
5     another process is already doing this
6     all work was done, but documents were refused
130   interrupted
141   the reader of the output has closed it
====  ==========================================================================
"""

import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from cli.options import CommandGroup
from common import __version__
from common.logs import set_up_logs
from common.settings import Settings
from model.errors import (
    AlreadyRunning,
    IndexProblem,
    InvalidArgument,
    InvalidSettings,
    NotRead,
    ProjectError,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from model.text import printable

_EXIT_CODES: dict[type[ProjectError], int] = {
    InvalidArgument: 2,
    InvalidSettings: 2,
    StoreUnavailable: 3,
    ServiceFailed: 3,
    IndexProblem: 3,
    NotRead: 3,
    SchemaMismatch: 4,
    AlreadyRunning: 5,
}
_FAILED, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141

_LOG = logging.getLogger(__name__)


#: Module and first sentence of each command. The sentence is here, too, because `thoth --help` and
#: completion list all commands, and to import all modules takes seconds.
COMMANDS = {
    "advise": ("advise", "Find the best versions for a project."),
    "advisories": ("advisories", "Read and list security advisories."),
    "analyze": ("analyze", "Show the native libraries that wheels need and that systems provide."),
    "audit": ("access", "List the API requests that wrote data."),
    "backup": ("record", "Write a backup of the record and its documents to a new FILE."),
    "benchmarks": (
        "benchmarks",
        "List results of other benchmark systems and of our own inspections.",
    ),
    "bisect": ("bisect", "Find the release that made an operation slower or faster."),
    "bisects": ("bisects", "List the searches of `thoth bisect`, or show the one with ID."),
    "changes": ("changes", "List settled changes of performance."),
    "check": ("advise", "Verify a report of advice."),
    "clean": ("stores", "Remove old environments of inspections, and cached pages."),
    "compare": ("compare", "Compare the speed of a command with other versions or settings."),
    "completion": ("main", "Print the completion script for a shell."),
    "cypher": ("graph", "Query the graph, read-only."),
    "down": ("stores", "Stop the embedded stores; their data stays."),
    "explain": ("explain", "Show what a claim of an advice rests on."),
    "export": ("export", "Export the record, or a lock, for other programs."),
    "fix": ("fix", "Find the smallest change of a lock that removes its vulnerabilities."),
    "graph": ("graph", "Update, rebuild and verify the graph, which is projected from PostgreSQL."),
    "guard": ("guard", "Compare two locks by speed, vulnerabilities and yanked versions."),
    "help": ("main", "Show the help of a command, or of all commands with `all`."),
    "ingest": (
        "ingest",
        "Ingest inspections and results of benchmarks, and list refused documents.",
    ),
    "inspect": ("inspect", "Build and measure stacks."),
    "loop": ("loop", "Keep the advice of watched projects up to date."),
    "mcp": ("mcp", "Answer assistants over the Model Context Protocol."),
    "migrate": ("stores", "Migrate the schemas of both stores to this version."),
    "monkey": ("monkey", "Generate valid stacks to measure (Dependency Monkey)."),
    "notices": ("loop", "Show and repeat notices; WEBHOOKS and NOTICE_TARGETS name their targets."),
    "pack": ("pack", "Build, verify, add and follow packs, which carry measurements to others."),
    "packages": ("packages", "Read, refresh and show releases of packages."),
    "pi": ("pi", "List, run and pin performance indicators."),
    "provenance": ("provenance", "Check where every file of a lock comes from."),
    "queue": ("service", "Show and cancel the jobs of the service."),
    "record": ("record", "Compare stored rows with the documents that they were made from."),
    "replay": ("advise", "Answer a recorded request again and compare the reports."),
    "report": ("report", "Report on the quality of measurements."),
    "restore": ("record", "Restore a backup into empty stores."),
    "serve": ("service", "Start the HTTP server."),
    "stacks": ("stacks", "Compare the speed of measured stacks."),
    "status": ("stores", "Show what this installation knows, and whether its stores are up."),
    "token": ("access", "Create, list, rotate and revoke the tokens of the service's clients."),
    "up": ("stores", "Start the embedded stores and wait until they answer."),
    "watch": ("loop", "Name the projects and packages that the nightly loop watches."),
    "why": ("why", "Explain why a package is in the advised stack."),
    "why-not": ("why", "Explain what choosing another version would cost."),
    "worker": ("service", "Process the jobs of the service."),
}

#: Commands that `thoth --help` shows first, each with its sentence.
FIRST_COMMANDS = ("advise", "compare", "bisect", "guard", "why", "status")
#: All other commands, by what a person wants.
PURPOSES = {
    "Ask": ("fix", "why-not", "explain", "check", "replay", "provenance"),
    "Measure": ("inspect", "pi", "monkey", "stacks", "report", "changes", "bisects", "benchmarks",
                "watch", "loop"),
    "Knowledge": ("packages", "advisories", "analyze", "ingest", "cypher", "export",
                  "pack"),
    "Serve": ("serve", "worker", "queue", "token", "audit", "notices", "mcp"),
    "Operate": ("up", "down", "migrate", "backup", "restore", "graph", "record", "clean",
                "completion", "help"),
}  # fmt: skip


_ALL = "all"


class LazyGroup(CommandGroup):
    """A group that imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"cli.{module}"), cmd_name.replace("-", "_"))
        return command

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, summary) for name, (_, summary) in COMMANDS.items()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        summaries = dict(self.summaries(ctx))
        with formatter.section("Start here"):
            formatter.write_dl([(it, summaries[it]) for it in FIRST_COMMANDS if it in summaries])
        with formatter.section("More commands"):
            formatter.write_dl([(it, ", ".join(names)) for it, names in PURPOSES.items()])
        formatter.write_paragraph()
        formatter.write_text("`thoth help all` says what each command does.")


@click.group("thoth", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Write logs to standard error.")
@click.version_option(__version__, prog_name="thoth", message="%(prog)s %(version)s")
@click.pass_context
def thoth(ctx: click.Context, verbose: bool) -> None:
    """Find the best versions of packages for a project on this machine, with the evidence."""
    ctx.obj = settings = Settings.from_env()
    set_up_logs(verbose, as_json=settings.log_format == "json")


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run ``command``, report errors on standard error, and return the exit code.

    :param arguments: by default those of the process
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stdout is None:
        click.echo("error: standard output is closed", err=True)
        return _FAILED
    try:
        return _status_of(command, arguments)
    except OSError as error:
        return _unwritten(error)


def _status_of(command: click.Command, arguments: Sequence[str] | None) -> int:
    try:
        result = command.main(arguments, "thoth", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        return _report_click_error(error)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except ProjectError as error:
        codes = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
        return _report(str(error), error.hint, next(codes, _FAILED))
    except UnicodeEncodeError as error:
        # Python has decoded bytes that are not UTF-8 to surrogates, which stores refuse.
        if not any("\ud800" <= it <= "\udfff" for it in error.object[error.start : error.end]):
            raise
        return _report("an argument is not UTF-8", None, 2)
    except SystemExit as error:
        # click exits with 1 after a broken pipe. Our commands return, or call ctx.exit.
        if error.code != 1:
            raise
        raise BrokenPipeError from error
    # A command returns its exit code, or passes it to ctx.exit. Ignore other values.
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _report_click_error(error: click.ClickException) -> int:
    message = error.format_message()
    if not isinstance(error, click.UsageError):
        return _report(message, None, error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return error.exit_code
    # click lists choices one per line, and calls a number by the name of its type.
    message = " ".join(message.split()).removesuffix(".")
    message = message.replace(". Choose from:", ": choose from")
    message = message.replace("a valid integer range", "a whole number")
    message = message.replace("a valid float range", "a number")
    if not message[:2].isupper():  # "ADVISORIES is not set" begins with a name
        message = message[:1].lower() + message[1:]
    hint = f"`{error.ctx.command_path} --help` shows the usage" if error.ctx else None
    return _report(message, hint, error.exit_code)


def _report(message: str, hint: str | None, exit_code: int) -> int:
    click.echo(printable(f"error: {message}", keep="\n"), err=True)
    if hint:
        click.echo(printable(f"hint: {hint}", keep="\n"), err=True)
    return exit_code


def _unwritten(error: OSError) -> int:
    """Report that the output cannot be written, and discard the rest."""
    # Otherwise, Python reports an error when it flushes standard output at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return _BROKEN_PIPE
    _LOG.debug("refused by the system", exc_info=error)
    where = f"{error.filename}: " if error.filename else ""
    return _report(f"{where}{error.strerror or error}", None, _FAILED)


def main() -> None:
    """The console script."""
    # The garbage collector took a fifth of the time of commands that run for a second, and found
    # no garbage in cycles.
    gc.set_threshold(500_000, 20, 20)
    exit_code = run(thoth)
    # Python's last collection visits every object of every module: a quarter of the time of
    # `thoth advise`. It skips frozen objects.
    gc.freeze()
    sys.exit(exit_code)


@click.command()
@click.argument("command", nargs=-1)
@click.pass_context
def help(context: click.Context, command: Sequence[str]) -> None:
    """Show the help of a command, or of all commands with `all`."""
    parent = context.find_root()
    if command == (_ALL,):
        formatter = parent.make_formatter()
        for purpose, names in {"Start here": FIRST_COMMANDS, **PURPOSES}.items():
            with formatter.section(purpose):
                formatter.write_dl([(it, COMMANDS[it][1]) for it in names if it in COMMANDS])
        click.echo(formatter.getvalue().strip("\n"))
        return
    shown: click.Command = parent.command
    for name in command:
        subcommand = shown.get_command(parent, name) if isinstance(shown, click.Group) else None
        if subcommand is None:
            message = f"{parent.command_path} has no command {name!r}"
            raise click.UsageError(message, context.find_root())
        parent, shown = click.Context(subcommand, parent, name), subcommand
    click.echo(parent.get_help())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    To load the script in each session, put `eval "$(thoth completion bash)"` into ~/.bashrc, the
    same line with zsh into ~/.zshrc, or `thoth completion fish | source` into
    ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise click.ClickException(f"click cannot complete commands in {shell}")
    click.echo(script(thoth, {}, "thoth", "_THOTH_COMPLETE").source())
