"""``thoth help`` and ``thoth completion``: what commands there are, for people and for shells."""

from __future__ import annotations

from collections.abc import Sequence

import click

_ALL = "all"


@click.command()
@click.argument("command", nargs=-1)
@click.pass_context
def help(context: click.Context, command: Sequence[str]) -> None:
    """Show the help of a command, or of all commands with `all`."""
    parent = context.find_root()
    if command == (_ALL,):
        click.echo(_all_commands(parent))
        return
    shown: click.Command = parent.command
    for name in command:
        subcommand = shown.get_command(parent, name) if isinstance(shown, click.Group) else None
        if subcommand is None:
            message = f"{parent.command_path} has no command {name!r}"
            raise click.UsageError(message, context.find_root())
        parent, shown = click.Context(subcommand, parent, name), subcommand
    click.echo(parent.get_help())


def _all_commands(root: click.Context) -> str:
    """Every command with its sentence, by purpose."""
    from cli.main import COMMANDS, FIRST_COMMANDS, PURPOSES

    formatter = root.make_formatter()
    for purpose, names in {"Start here": FIRST_COMMANDS, **PURPOSES}.items():
        with formatter.section(purpose):
            formatter.write_dl([(it, COMMANDS[it][1]) for it in names if it in COMMANDS])
    return formatter.getvalue().strip("\n")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    To load the script in each session, put `eval "$(thoth completion bash)"` into ~/.bashrc, the
    same line with zsh into ~/.zshrc, or `thoth completion fish | source` into
    ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    from cli.main import thoth

    script = get_completion_class(shell)
    if script is None:
        raise click.ClickException(f"click cannot complete commands in {shell}")
    click.echo(script(thoth, {}, "thoth", "_THOTH_COMPLETE").source())
