"""Options of several commands, groups of commands, and help pages that are never cut off."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from model.errors import InvalidArgument

as_json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document."
)


def limit_option(what: str, most: int = 10_000) -> Callable[[Any], Any]:
    """The option ``--limit`` of a list.

    :param what: is listed, with its order
    :param most: largest number
    """
    return click.option(
        "--limit", type=click.IntRange(1, most), default=100, show_default=True,
        help=f"Number of {what}.",
    )  # fmt: skip


class ExclusiveSwitch(click.Option):
    """A switch such as ``--fetch/--offline``; giving both is refused, not decided by the last."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        for names, value in ((self.opts, True), (self.secondary_opts, False)):
            parser.add_option(
                obj=self, opts=names, dest=self.name, action="append_const", const=value
            )

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        name = self.name or ""
        choices = opts.get(name, ())
        if len(set(choices)) > 1:
            both = " and ".join((self.opts[0], self.secondary_opts[0]))
            raise click.UsageError(f"{both}: give only one of them", ctx)
        values = {**opts, name: choices[0]} if choices else opts
        return super().handle_parse_result(ctx, values, args)


#: Key of the program in the context of a command.
_PROGRAM = "cli.options.program"


class ProgramCommand(click.Command):
    """A command whose last arguments, behind ``--``, are a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_PROGRAM] = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND]"]


def program_of(context: click.Context) -> tuple[str, ...]:
    """The arguments behind ``--``; empty without them."""
    program: tuple[str, ...] = context.meta[_PROGRAM]
    return program


class NamedPath(click.Path):
    """A path; an empty path is rejected, because it would mean the current folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty; `.` names the current folder", param, ctx)
        return super().convert(value, param, ctx)


#: The pack that ships.
SHIPPED_PACK = Path(__file__).parents[1] / "evidence"

pack_argument: Callable[[Any], Any] = click.argument(
    "path", type=NamedPath(exists=True, path_type=Path), metavar="[PACK]", default=SHIPPED_PACK
)

pack_option: Callable[[Any], Any] = click.option(
    "--pack", type=NamedPath(path_type=Path), is_flag=False, flag_value=str(SHIPPED_PACK),
    metavar="[PATH]",
    help="Answer only about speed, from a pack of measurements, without stores and network; by"
         " default, from the pack that ships with Thoth. Give --pack last, or as --pack=PATH.",
)  # fmt: skip


vex_option: Callable[[Any], Any] = click.option(
    "--vex", type=NamedPath(path_type=Path), multiple=True, metavar="FILE",
    help="Also honour this OpenVEX or CycloneDX document; repeat the option for more.  [always:"
         " thoth.vex.json beside the lock]",
)  # fmt: skip


def key_and_value(text: str, option: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``.

    :raises InvalidArgument: naming the option
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidArgument(f"{option}: {text!r} is not NAME=VALUE")
    return name, value


#: Parts of a budget of time.
_BUDGET = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m(?:in)?)?(?:(\d{1,6})s)?")


class BudgetOfTime(click.ParamType[Any]):
    """A time such as ``20m``, ``2h`` or ``1h30m``, in seconds."""

    name = "budget"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        parts = _BUDGET.fullmatch(str(value).strip())
        hours, minutes, seconds = (int(it or 0) for it in parts.groups()) if parts else (0, 0, 0)
        total = 3600.0 * hours + 60 * minutes + seconds
        if not total:
            self.fail(f"{value!r} is not a time such as 20m, 2h or 1h30m", param, ctx)
        return total


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
