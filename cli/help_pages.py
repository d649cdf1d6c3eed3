"""Help pages that are never cut off and fit narrow terminals."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

#: Below this width, definitions are below their terms instead of beside them.
_NARROW = 60


class HelpFormatter(click.HelpFormatter):
    """Writes definitions below their terms if the terminal is narrow."""

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        if self.width >= _NARROW:
            super().write_dl(rows, col_max, col_spacing)
            return
        for term, definition in rows:
            for line in _broken(term, self.width - self.current_indent):
                self.write(f"{'':{self.current_indent}}{line}\n")
            with self.indentation(), self.indentation():
                self.write_text(definition)


def _broken(term: str, width: int) -> list[str]:
    """Break a long term after blanks and between the values of a choice.

    >>> _broken("--type [latest|stable]", 16)
    ['--type [latest|', '    stable]']
    """
    lines = [""]
    for part in re.findall(r"[^ |]+[ |]*", term):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("    ")
        lines[-1] += part
    return [line.rstrip() for line in lines]


class CommandGroup(click.Group):
    """A group whose help shows the whole first sentence of each command."""

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Name and first sentence of each command."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, command.get_short_help_str(1000)) for name, command in commands if command]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if rows := self.summaries(ctx):
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        rows = [row for row in self.summaries(ctx) if row[0].startswith(incomplete)]
        items = [CompletionItem(name, help=summary) for name, summary in rows]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


# The class is an attribute of every context, and subcommands do not inherit it from their group.
click.Context.formatter_class = HelpFormatter
