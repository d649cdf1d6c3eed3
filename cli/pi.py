"""``pi list``, ``pi describe`` and ``pi run``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cli.pin import pin
from common.errors import ProjectError
from common.terminal import printable

if TYPE_CHECKING:
    from pis.indicators.harness import Indicator
    from pis.scripts import Finished

_SIGNALLED = 128
_HELP = frozenset({"-h", "--help"})


class NoResult(ProjectError):
    """A program that ended well without having measured."""

    hint = "--python takes the path of an interpreter, such as /path/to/venv/bin/python"


as_json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document."
)


@click.group()
def pi() -> None:
    """Run performance indicators: one operation of one library, measured."""


@pi.command("list")
@as_json_option
def list_indicators(as_json: bool) -> None:
    """Show the indicators there are."""
    from rich.console import Console

    from cli.indicator_views import indicators_table
    from pis.catalogue import INDICATORS, indicator_of

    indicators = [indicator_of(name) for name in INDICATORS]
    if as_json:
        _print_json({"indicators": [_head(it) for it in indicators]})
    else:
        Console().print(indicators_table(indicators))


@pi.command()
@click.argument("name")
@as_json_option
def describe(name: str, as_json: bool) -> None:
    """Show what the indicator NAME measures and takes."""
    from rich.console import Console

    from cli.indicator_views import parameters_table
    from pis.bundle import script_sha256
    from pis.catalogue import indicator_of

    indicator = indicator_of(name)
    if as_json:
        _print_json(
            {
                **_head(indicator),
                "script_sha256": script_sha256(name),
                "parameters": [_parameter(it) for it in indicator.all_parameters()],
            }
        )
    else:
        Console().print(parameters_table(indicator))


@pi.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--framework", help="Library to measure: numpy, torch or tensorflow.")
@click.option("--device", help="Where to compute: cpu or cuda.")
@click.option("--python", metavar="PATH", help="Interpreter that has the library; else this one.")
@as_json_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF THE INDICATOR]")
@click.pass_context
def run(
    context: click.Context,
    name: str,
    framework: str | None,
    device: str | None,
    python: str | None,
    as_json: bool,
    arguments: tuple[str, ...],
) -> None:
    """Measure with the indicator NAME; `thoth pi describe NAME` lists its own flags.

    Exit code 1 if the library's answer or the rate cannot be right, 2 if library or device
    cannot do what was asked.
    """
    from cli.indicator_views import document_of
    from pis.amun.processes import interrupted_by_signals
    from pis.catalogue import check_flags
    from pis.scripts import run_script

    check_flags(name, arguments)
    chosen = {"--framework": framework, "--device": device}
    flags = [f"{flag}={value}" for flag, value in chosen.items() if value is not None]
    program = python or sys.executable
    with interrupted_by_signals(), _progress(name) as on_line:
        finished = run_script(name, program, [*flags, *arguments], on_line)
    for line in finished.errors:
        if line.startswith("warning: "):
            click.echo(printable(line), err=True)
    if finished.exit_code:
        _explain(finished)
        code = finished.exit_code
        context.exit(code if code > 0 else _SIGNALLED - code)
    if _HELP & set(arguments):
        click.echo(finished.stdout, nl=False)
        return
    document = document_of(finished.stdout)
    if document is None:
        raise NoResult(f"{program} printed no result of {name}")
    _show(finished.stdout, document, as_json=as_json)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str], object]]:
    """A function for the script's lines: a terminal shows the last one while it is at work."""
    from rich.console import Console
    from rich.markup import escape

    console, start = Console(stderr=True), f"{name}: "
    if not console.is_terminal:
        yield lambda line: None
        return
    with console.status(f"{start}starting") as status:

        def show(line: str) -> None:
            if line.startswith(start):
                status.update(escape(printable(line)))

        yield show


def _explain(finished: Finished) -> None:
    message = finished.error or "it said nothing"
    if finished.exit_code < 0:
        message = f"signal {-finished.exit_code} ended the script: {message}"
    click.echo(f"error: {printable(message, keep=chr(10))}", err=True)
    if "cannot be imported" in message:
        library = message.partition(" ")[0]
        click.echo(
            f"hint: install the extra `{library}` into that Python, name another one with "
            "--python, or let `thoth inspect` build an environment",
            err=True,
        )


def _show(text: str, document: dict[str, Any], *, as_json: bool) -> None:
    from rich.console import Console

    from cli.indicator_views import (
        result_notes,
        result_table,
        result_title,
    )

    if as_json:
        click.echo(text, nl=False)
        return
    console = Console()
    click.echo(result_title(document))
    console.print(result_table(document))
    for note in result_notes(document):
        click.echo(note)


def _head(indicator: Indicator) -> dict[str, Any]:
    return {
        "name": indicator.name,
        "title": indicator.title,
        "summary": indicator.summary,
        "frameworks": list(indicator.frameworks),
    }


def _parameter(parameter: Any) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "flag": parameter.flag,
        "type": type(parameter.default).__name__,
        "default": parameter.default,
        "choices": list(parameter.choices),
        "environment": list(parameter.environment),
        "help": parameter.help,
    }


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))


pi.add_command(pin)
