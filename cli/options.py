"""Options of several commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from model.errors import InvalidArgument

Command = TypeVar("Command", bound=Callable[..., Any])
Text = TypeVar("Text")
Value = TypeVar("Value")

_LABEL = re.compile(r"\s*([^=;]+?)\s*=\s*([^;]*?)\s*")


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
    help="Answer from a pack of measurements alone, without stores and network; by default from the"
         " one that ships. Only speed is looked at. Give it last, or as --pack=PATH.",
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
