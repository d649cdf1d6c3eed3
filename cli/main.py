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

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from cli.help_pages import CommandGroup
from common import __version__
from common.logs import set_up_logs
from common.settings import Settings
from model.errors import (
    AlreadyRunning,
    IndexProblem,
    InvalidArgument,
    InvalidSettings,
    ProjectError,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)

_EXIT_CODES: dict[type[ProjectError], int] = {
    InvalidArgument: 2,
    InvalidSettings: 2,
    StoreUnavailable: 3,
    ServiceFailed: 3,
    IndexProblem: 3,
    SchemaMismatch: 4,
    AlreadyRunning: 5,
}
_FAILED, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141

_LOG = logging.getLogger(__name__)


#: Module and name of each command. A module is imported when its command is used.
COMMANDS = {
    "advise": "cli.advise:advise",
    "advisories": "cli.advisories:advisories",
    "analyze": "cli.analyze:analyze",
    "audit": "cli.audit:audit",
    "backup": "cli.backup:backup",
    "benchmarks": "cli.benchmarks:benchmarks",
    "bisect": "cli.bisect:bisect",
    "bisects": "cli.bisects:bisects",
    "changes": "cli.changes:changes",
    "check": "cli.advise:check",
    "clean": "cli.clean:clean",
    "completion": "cli.completion:completion",
    "cypher": "cli.cypher:cypher",
    "down": "cli.stores:down",
    "explain": "cli.explain:explain",
    "export": "cli.export:export",
    "graph": "cli.graph:graph",
    "guard": "cli.guard:guard",
    "ingest": "cli.ingest:ingest",
    "inspect": "cli.inspect:inspect",
    "ledger": "cli.ledger:ledger",
    "loop": "cli.loop:loop",
    "migrate": "cli.stores:migrate",
    "monkey": "cli.monkey:monkey",
    "notices": "cli.notices:notices",
    "packages": "cli.packages:packages",
    "pi": "cli.pi:pi",
    "provenance": "cli.provenance:provenance",
    "queue": "cli.queue:queue",
    "record": "cli.record:record",
    "replay": "cli.advise:replay",
    "report": "cli.report:report",
    "restore": "cli.backup:restore",
    "serve": "cli.service:serve",
    "stacks": "cli.stacks:stacks",
    "status": "cli.stores:status",
    "token": "cli.token:token",
    "up": "cli.stores:up",
    "watch": "cli.watch:watch",
    "why": "cli.why:why",
    "why-not": "cli.why:why_not",
    "worker": "cli.service:worker",
}


class LazyGroup(CommandGroup):
    """A group that imports each command's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        return getattr(import_module(module), name) if module else None


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
        return _report(str(error), error.hint, _exit_code_of(error))
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
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return exit_code


def _exit_code_of(error: ProjectError) -> int:
    codes = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
    return next(codes, _FAILED)


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
