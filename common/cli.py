"""The command ``thoth``: finds the rooms' commands, and speaks to people.

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
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, entry_points
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


class RoomCommands(click.Group):
    """A group of the commands that installed rooms offer as ``thoth.commands``.

    A room is imported when its command is asked for, so that one broken or
    unfinished room leaves the others in use.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_offered()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        offered = _offered().get(cmd_name)
        if offered is None:
            return super().get_command(ctx, cmd_name)
        try:
            command = offered.load()
        except (ImportError, AttributeError) as error:
            return _broken(cmd_name, error)
        return command if isinstance(command, click.Command) else None


@cache
def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="thoth.commands")}


def _broken(name: str, error: Exception) -> click.Command:
    words = f"cannot be loaded: {error}"

    @click.command(name, short_help=f"({words})", context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1)
    def command(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"`{name}` {words}") from error

    return command


def _begin(ctx: click.Context, verbose: bool) -> None:
    """Set up what every command shares: logs, and the settings as ``ctx.obj``."""
    set_up_logs(verbose)
    ctx.obj = Settings.from_env()


def group(name: str, help_text: str, *commands: click.Command) -> click.Group:
    """A stand-alone group of ``commands``, for ``python -m ROOM``."""
    return _with_options(click.Group(name, help=help_text, commands=commands))


def _with_options(made: click.Group) -> click.Group:
    made.params.append(
        click.Option(["-v", "--verbose"], is_flag=True, help="Log what is done, on stderr.")
    )
    made.callback = click.pass_context(_begin)
    return click.version_option(__version__, prog_name="thoth", message="%(prog)s %(version)s")(
        made
    )


thoth = _with_options(
    RoomCommands(
        "thoth",
        help="Which versions of which packages should this project run on this machine, "
        "and how do we know?",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
)


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


def run_beside(context: click.Context, name: str, *arguments: str) -> int:
    """Run another command as a person would; all that it prints goes to standard error.

    So a room can be of use to one that may not import it, whose answer is on standard output.

    :param context: of the command that calls: settings are shared
    :param name: what the other room offers the command as
    :returns: its exit code
    :raises ProjectError: as that command does
    """
    root = context.find_root()
    command = thoth.get_command(root, name)
    if command is None:
        raise click.ClickException(f"`{name}` is not installed")
    with redirect_stdout(sys.stderr):
        return _code_of(command.main(arguments, name, standalone_mode=False, parent=root))


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
