"""The command ``thoth``: its groups of commands, and how errors become messages and exit codes.

Exit codes:

====  ==========================================================================
0     all is well
1     something was refused: a document, a query, a comparison; or the output cannot be written
2     the command, a file that it was given, or a setting cannot be used as it is
3     a store or an index does not answer, or an embedded store could not be started
4     a store's schema and this code do not fit together
5     another process does what only one may do at a time
130   interrupted
141   nobody reads the output any more
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
from typing import Any

import click

from common import __version__
from common.errors import (
    AlreadyRunning,
    IndexProblem,
    InvalidArgument,
    InvalidSettings,
    ProjectError,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from common.logs import set_up_logs
from common.settings import Settings

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


#: Where each command is defined. A module is imported when its command runs or shows its help.
COMMANDS = {
    "advise": "cli.advise:advise",
    "advisories": "cli.advisories:advisories",
    "analyze": "cli.analyze:analyze",
    "audit": "cli.service:audit",
    "cypher": "cli.cypher:cypher",
    "down": "cli.stores:down",
    "graph": "cli.graph:graph",
    "guard": "cli.guard:guard",
    "ingest": "cli.ingest:ingest",
    "inspect": "cli.inspect:inspect",
    "migrate": "cli.stores:migrate",
    "packages": "cli.packages:packages",
    "pi": "cli.pi:pi",
    "provenance": "cli.provenance:provenance",
    "record": "cli.record:record",
    "replay": "cli.advise:replay",
    "serve": "cli.service:serve",
    "stacks": "cli.stacks:stacks",
    "status": "cli.stores:status",
    "token": "cli.token:token",
    "up": "cli.stores:up",
    "why": "cli.why:why",
    "why-not": "cli.why:why_not",
    "worker": "cli.service:worker",
}


class LazyGroup(click.Group):
    """A group that imports each command's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        return getattr(import_module(module), name) if module else None


@click.group("thoth", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log what is done, on stderr.")
@click.version_option(__version__, prog_name="thoth", message="%(prog)s %(version)s")
@click.pass_context
def thoth(ctx: click.Context, verbose: bool) -> None:
    """Find the best versions of packages for a project on this machine, with the evidence."""
    set_up_logs(verbose)
    ctx.obj = Settings.from_env()


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run ``command``; errors become a line for a person and an exit code.

    :param arguments: the process's own if unset
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
        status = _code_of(command.main(args=arguments, standalone_mode=False))
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except ProjectError as error:
        return _report(error)
    except SystemExit as error:
        # Click ends so after a broken pipe; a command of ours returns or uses ctx.exit.
        if error.code != 1:
            raise
        raise BrokenPipeError from error
    return status


def _unwritten(error: OSError) -> int:
    """Nobody reads, or the system refuses: what else was to be written is given up."""
    # Python would complain when it flushes standard output at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return _BROKEN_PIPE
    _LOG.debug("refused by the system", exc_info=error)
    where = f"{error.filename}: " if error.filename else ""
    click.echo(f"error: {where}{error.strerror or error}", err=True)
    return _FAILED


def _code_of(result: Any) -> int:
    """What a command returned, or gave to ``ctx.exit``; other return values are no code."""
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _report(error: ProjectError) -> int:
    click.echo(f"error: {error}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def main() -> None:
    """The console script."""
    # Measured: most commands live a second and make no garbage in circles, and by its default
    # the collector looks through all that they load a dozen times, for a fifth of that second.
    gc.set_threshold(100_000, 20, 20)
    sys.exit(run(thoth))
