"""``pi list``, ``pi describe`` and ``pi run``."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.inspect import UnusableSpecification
from common.errors import ProjectError
from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from pis.indicators.harness import Indicator
    from pis.scripts import ScriptRun
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from pis.indicators.harness import Indicator


_VERSION = re.compile(r"3\.[0-9]{1,2}(\.[0-9]{1,2})?")


@click.command()
@click.argument("indicator")
@click.argument("requirements", nargs=-1, required=True, metavar="REQUIREMENT…")
@click.option("--python", "python_version", metavar="VERSION", help="Such as 3.11.")
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicator; repeat for more.")  # fmt: skip
@click.option("--index", metavar="NAME", help="A configured package index.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Write here instead of to standard output.")  # fmt: skip
@click.pass_obj
def pin(
    settings: Settings,
    indicator: str,
    requirements: tuple[str, ...],
    python_version: str | None,
    parameters: tuple[str, ...],
    index: str | None,
    output: Path | None,
) -> None:
    """Pin a stack for INDICATOR, such as `thoth pi pin matmul numpy==2.1.0`.

    All that the requirements need is locked with the hashes of its wheels, for this
    platform. `thoth inspect` measures what comes out.
    """
    from common.packages import DEFAULT_INDEX
    from pis.amun.pinning import pinned_specification
    from pis.amun.schema import InvalidSpecification

    if python_version is not None and not _VERSION.fullmatch(python_version):
        raise UnusableSpecification(f"--python: {python_version!r} is no version such as 3.11")
    if output is not None and not output.exists():
        folder = output.absolute().parent
        if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
            raise UnusableSpecification(f"-o: {folder} is no folder to write to")
    try:
        specification = pinned_specification(
            indicator,
            requirements,
            python_version,
            dict(_pair(text) for text in parameters),
            index=index or DEFAULT_INDEX,
            indexes=dict(settings.package_indexes),
        )
    except InvalidSpecification as error:
        raise UnusableSpecification(str(error)) from None
    text = json.dumps(specification, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnusableSpecification(f"-o: {output}: {error.strerror}") from None
    packages = specification["python"]["requirements_locked"]["default"]
    named = ", ".join(f"{name} {entry['version'][2:]}" for name, entry in packages.items())
    click.echo(f"{output}: {named}", err=True)
    click.echo(f"next: thoth inspect {shlex.quote(str(output))} --jobs 10", err=True)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-p")
    return name, value


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


def _explain(finished: ScriptRun) -> None:
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


#: What the tables read; a document without it is no result of ours.
_KEYS = frozenset({"name", "component", "component_version", "threads", "build"})
_NUMBERS = ("rate", "elapsed", "jitter")
_OTHERS = frozenset({"unit", "repetitions", "calls_per_repetition", "peak", "warm_up"})

_COLUMNS = ("median ms", "spread", "repetitions", "of peak")


def _table(title: str, columns: Iterable[str], numbers: Sequence[str] = ()) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    for column in columns:
        right = column in numbers
        table.add_column(
            column, justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    return table


def indicators_table(indicators: Iterable[Indicator]) -> Table:
    """What there is."""
    from rich.markup import escape

    table = _table("", ("name", "libraries", "what it does"))
    for it in indicators:
        table.add_row(it.name, ", ".join(it.frameworks), escape(it.summary))
    return table


def parameters_table(indicator: Indicator) -> Table:
    """What one indicator takes."""
    from rich.markup import escape

    table = _table(
        f"{indicator.title}: {escape(indicator.summary)}", ("flag", "default", "what it is")
    )
    for it in indicator.all_parameters():
        words = [it.help]
        if it.choices:
            words.append("one of " + ", ".join(map(str, it.choices)))
        if it.environment:
            words.append("variable " + " or ".join(it.environment))
        table.add_row(it.flag, str(it.default), escape("; ".join(words)))
    return table


def document_of(text: str) -> dict[str, Any] | None:
    """The result document that ``text`` is; ``None`` if it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not document.keys() >= _KEYS:
        return None
    results = document.get("@results", [document])
    whole = isinstance(results, list) and results and all(map(_is_result, results))
    return document if whole else None


def _is_result(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("@parameters"), dict):
        return False
    result = part.get("@result")
    if not isinstance(result, dict) or not result.keys() >= _OTHERS:
        return False
    numbers = [it for it in map(result.get, _NUMBERS) if isinstance(it, (int, float))]
    return len(numbers) == len(_NUMBERS) and all(map(isfinite, numbers)) and result["rate"] > 0


def result_table(document: dict[str, Any]) -> Table:
    """One row a result."""
    from rich.markup import escape

    results = results_of(document)
    shared = _shared([it["@parameters"] for it in results])
    differing = [name for name in results[0]["@parameters"] if name not in shared]
    columns = (*differing, results[0]["@result"]["unit"], *_COLUMNS)
    table = _table("", columns, columns)
    for it in results:
        cells = [str(it["@parameters"][name]) for name in differing]
        table.add_row(*map(escape, cells), *_numbers(it["@result"]))
    return table


def result_title(document: dict[str, Any]) -> str:
    """What was measured: the library, and the parameters that all results share."""
    shared = _shared([it["@parameters"] for it in results_of(document)])
    told = ", ".join(f"{name} {value}" for name, value in shared.items())
    component = f"{document['component']} {document['component_version']}"
    return printable(f"{document['name']}, {component}: {told}")


def results_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a document that holds one or several."""
    results: list[dict[str, Any]] = document.get("@results", [document])
    return results


def _shared(parameters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Parameters that are the same in every result; all of them if there is one result."""
    first = parameters[0]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in parameters)
    }


def _numbers(result: dict[str, Any]) -> list[str]:
    peak, calls = result["peak"], result["calls_per_repetition"]
    return [
        f"{result['rate']:,.5g}",
        f"{result['elapsed']:,.5g}",
        f"{result['jitter'] / result['rate']:.1%}",
        f"{len(result['repetitions'])} × {calls}",
        "–" if peak is None else f"{result['rate'] / peak['rate']:.1%}",
    ]


def result_notes(document: dict[str, Any]) -> list[str]:
    """Lines under the table: threads, build, and what a reader should know."""
    threads, build = document["threads"], document["build"]
    used = "unknown" if threads["used"] is None else threads["used"]
    notes = [f"threads: {threads['requested']} requested, library uses {used}"]
    notes.append("build: " + printable(_build_words(build) or "unknown"))
    if document.get("gpu"):
        notes.append("gpu: " + printable(str(document["gpu"]["name"])))
    results = results_of(document)
    restless = sum(not it["@result"]["warm_up"]["settled"] for it in results)
    if restless:
        notes.append(f"{restless} of {len(results)} never settled in the warm-up: mind the spread")
    return notes


def _build_words(build: dict[str, Any]) -> str:
    """The parts of a build that a person asks for first."""
    blas = build.get("blas")
    if isinstance(blas, dict):
        blas = " ".join(str(blas[key]) for key in ("name", "version") if key in blas)
    kernels = [it.get("kernels") for it in build.get("blas_runtime") or []]
    words = {"BLAS": blas, "kernels": ", ".join(filter(None, kernels))}
    for name in ("capability", "onednn", "cuda", "cudnn", "compiler", "git"):
        words[name] = build.get(name)
    return ", ".join(f"{name} {value}" for name, value in words.items() if value)
