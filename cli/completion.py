"""``thoth completion``: completion of commands and options in a shell."""

from __future__ import annotations

import click


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
