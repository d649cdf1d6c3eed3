"""``thoth pi``: performance indicators, each of which measures one operation of a library."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

import click

from cli.console import Column, Table, print_json, print_note
from cli.measuring_options import UnusableSpecification, machine_of_this_command, machine_options
from cli.options import CommandGroup, as_json_option, key_and_value
from cli.project_files import keep_project_files, names_file, read_lock_file, write_file
from cli.request_options import lock_options, lock_selection
from common.formats.locks.entries import LockSelection
from common.settings import Settings
from ingest.benchmarks.readers.perfzero import perfzero_summaries
from model.errors import ProjectError
from model.json_documents import canonical_json
from model.packages.environments import environment
from model.packages.identity import DEFAULT_INDEX
from model.text import printable
from pis.amun.pinned_specifications import pinned_specification
from pis.amun.processes import SIGNAL_EXIT_CODE, interrupted_by_signals
from pis.amun.schema import InvalidSpecification
from pis.bundle import script_sha256
from pis.catalogue import INDICATORS, check_flags, indicator_of
from pis.indicators.harness import Indicator
from pis.metrics import metrics_of
from pis.script_run import results_in, run_script

_PYTHON_VERSION = re.compile(r"3\.[0-9]{1,2}(\.[0-9]{1,2})?")
_HELP = frozenset({"-h", "--help"})
#: Keys that the tables read; a document without them is no result of an indicator.
_KEYS = frozenset({"name", "component", "component_version", "threads", "build"})
_NUMBERS = ("rate", "elapsed", "jitter")
_OTHERS = frozenset({"unit", "repetitions", "calls_per_repetition", "peak", "warm_up"})


_RESULT_COLUMNS = ("median ms", "spread", "repetitions", "of peak")


class NoResult(ProjectError):
    """A program exited successfully but printed no result."""

    hint = "--python takes the path of an interpreter, such as /path/to/venv/bin/python"


@click.group(cls=CommandGroup)
def pi() -> None:
    """List, run and pin performance indicators."""


@pi.command("list")
@as_json_option
def list_indicators(as_json: bool) -> None:
    """List the indicators."""
    indicators = [indicator_of(name) for name in INDICATORS]
    if as_json:
        print_json({"indicators": [_head(indicator) for indicator in indicators]})
    else:
        table = Table([Column("name"), Column("libraries"), Column("what it does", wraps=True)])
        for indicator in indicators:
            table.add(indicator.name, ", ".join(indicator.frameworks), indicator.summary)
        table.print()


@pi.command()
@click.argument("name")
@as_json_option
def describe(name: str, as_json: bool) -> None:
    """Show what an indicator measures, and which flags it has."""
    indicator = indicator_of(name)
    if as_json:
        parameters = [_parameter(each) for each in indicator.all_parameters()]
        defaults = {each.name: each.default for each in indicator.all_parameters()}
        metrics = [
            {"benchmark": each.benchmark, **asdict(each.metric), "aggregate": each.aggregate}
            for each in metrics_of(name, defaults)
        ]
        head = {**_head(indicator), "script_sha256": script_sha256(name), "metrics": metrics}
        print_json({**head, "parameters": parameters})
    else:
        table = Table(
            [Column("flag"), Column("default"), Column("what it is", wraps=True)],
            title=f"{indicator.title}: {indicator.summary}",
        )
        for parameter in indicator.all_parameters():
            description = [parameter.help]
            if parameter.choices:
                description.append("one of " + ", ".join(map(str, parameter.choices)))
            if parameter.environment:
                description.append("variable " + " or ".join(parameter.environment))
            table.add(parameter.flag, str(parameter.default), "; ".join(description))
        table.print()


@pi.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--framework", help="Library to measure; the indicator must support it.")
@click.option("--device", help="Where to compute: cpu or cuda.")
@click.option("--python", metavar="PATH",
              help="Interpreter that has the library.  [default: this interpreter]")  # fmt: skip
@machine_options
@as_json_option
@click.option("--perfzero", is_flag=True, help="Print summaries of PerfZero, one on each line.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF THE INDICATOR]")
@click.pass_context
def run(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    name: str,
    framework: str | None,
    device: str | None,
    python: str | None,
    wait: float,
    share_machine: bool,
    as_json: bool,
    perfzero: bool,
    arguments: tuple[str, ...],
) -> None:
    """Measure once with an indicator.

    `thoth pi describe NAME` lists the flags of an indicator. Exit code 1 if the library's result or
    the rate cannot be right; 2 if the library or the device does not support the request.
    """
    if as_json and perfzero:
        raise click.UsageError("--json and --perfzero print different documents: give one of them")
    check_flags(name, arguments)
    options = {"--framework": framework, "--device": device}
    flags = [f"{flag}={value}" for flag, value in options.items() if value is not None]
    program = python or sys.executable
    asks_for_help = bool(_HELP & set(arguments))
    with (
        interrupted_by_signals(),
        machine_of_this_command(wait, share_machine or asks_for_help, warns=False),
        _status(name) as on_line,
    ):
        finished = run_script(name, program, [*flags, *arguments], on_line)
    for line in finished.errors:
        if line.startswith("warning: "):
            click.echo(printable(line), err=True)
    if finished.exit_code:
        message = finished.error or "the script printed no message"
        if finished.exit_code < 0:
            message = f"signal {-finished.exit_code} ended the script: {message}"
        click.echo(f"error: {printable(message, keep=chr(10))}", err=True)
        if "cannot be imported" in message:
            library = message.partition(" ")[0]
            click.echo(
                f"hint: install `{library}` into that Python, name another one with "
                "--python, or let `thoth inspect` build an environment",
                err=True,
            )
        code = finished.exit_code
        context.exit(code if code > 0 else SIGNAL_EXIT_CODE - code)
    if asks_for_help:
        click.echo(finished.stdout, nl=False)
        return
    document = document_of(finished.stdout)
    if document is None:
        raise NoResult(f"{program} printed no result of {name}")
    if as_json:
        click.echo(finished.stdout, nl=False)
        return
    if perfzero:
        for summary in perfzero_summaries(results_in(document, datetime.now(UTC))):
            click.echo(canonical_json(summary))
        return
    shared = _shared([it["@parameters"] for it in results_of(document)])
    parameters = ", ".join(f"{name} {value}" for name, value in shared.items())
    component = f"{document['component']} {document['component_version']}"
    click.echo(printable(f"{document['name']}, {component}: {parameters}"))
    result_table(document).print()
    for note in result_notes(document):
        click.echo(note)


@contextmanager
def _status(name: str) -> Iterator[Callable[[str], object]]:
    """A function that receives each line of the script; a terminal shows the last line."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    from rich.console import Console
    from rich.markup import escape

    prefix = f"{name}: "
    with Console(stderr=True).status(f"{prefix}starting") as status:

        def show(line: str) -> None:
            if line.startswith(prefix):
                status.update(escape(printable(line)))

        yield show


@pi.command()
@click.argument("names", nargs=-1, required=True, metavar="[INDICATOR] REQUIREMENT|LOCK...")
@click.option("--script", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Measure with this script of your own instead of INDICATOR.")  # fmt: skip
@click.option("--python", "python_version", metavar="VERSION",
              help="Python version, such as 3.11.  [default: this interpreter's]")  # fmt: skip
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicator; repeat the option for more.")  # fmt: skip
@click.option("--index", metavar="NAME", help="Name of a configured package index.")
@lock_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the specification to this file.  [default: standard output]")  # fmt: skip
@click.pass_obj
def pin(
    settings: Settings,
    /,
    names: tuple[str, ...],
    script: Path | None,
    python_version: str | None,
    parameters: tuple[str, ...],
    index: str | None,
    output: Path | None,
    **selection: Any,
) -> None:
    """Lock a stack and write its specification.

    Examples are `thoth pi pin matmul numpy==2.1.0` and, with a script of your own, `thoth pi pin
    --script mine.py numpy==2.3.5`. The requirements and their dependencies are locked with the
    hashes of their wheels, for this platform. `thoth inspect` measures the stack.

    Instead of requirements, you can name a lock, such as uv.lock or main:poetry.lock.
    """
    if python_version is not None and not _PYTHON_VERSION.fullmatch(python_version):
        raise UnusableSpecification(f"--python: {python_version!r} is no version such as 3.11")
    keep_project_files([output], [*names, script or ""])
    if output is not None and not output.exists():
        folder = output.absolute().parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UnusableSpecification(f"-o: {folder} is not a writable folder")
    if script is None:
        measured, requirements = names[0], names[1:]
    else:
        try:
            measured, requirements = script.read_text(encoding="utf-8"), names
        except (OSError, UnicodeDecodeError) as error:
            raise UnusableSpecification(f"--script: {script}: {error}") from None
    if not requirements:
        raise click.UsageError("missing argument 'REQUIREMENT...', such as numpy==2.1.0")
    chosen = lock_selection(selection)
    requirements = tuple(
        it for text in requirements for it in _pinned(text, python_version, chosen)
    )
    try:
        specification = pinned_specification(
            measured,
            requirements,
            python_version,
            dict(key_and_value(text, "-p") for text in parameters),
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
        write_file(output, text.encode())
    except OSError as error:
        raise UnusableSpecification(f"-o: {output}: {error.strerror}") from None
    packages = specification["python"]["requirements_locked"]["default"]
    versions = ", ".join(f"{name} {entry['version'][2:]}" for name, entry in packages.items())
    click.echo(f"{output}: {versions}", err=True)
    click.echo(f"next: thoth inspect {shlex.quote(str(output))} --jobs 10", err=True)


def _pinned(text: str, python_version: str | None, selection: LockSelection) -> list[str]:
    """The requirement, or the exact requirements of the lock that a text names."""
    if not names_file(text):
        return [text]
    markers = environment(python_version).markers
    lock = read_lock_file(Path(text), selection, markers)
    for warning in lock.warnings:
        print_note(warning.text)
    return [f"{name}=={it.version}" for name, it in lock.packages(markers).items()]


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


def document_of(text: str) -> dict[str, Any] | None:
    """Parse the result of an indicator; ``None`` if ``text`` is anything else."""
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
    """One row for each result."""
    results = results_of(document)
    shared = _shared([result["@parameters"] for result in results])
    names = dict.fromkeys(name for result in results for name in result["@parameters"])
    differing = [name for name in names if name not in shared]
    titles = (*differing, results[0]["@result"]["unit"], *_RESULT_COLUMNS)
    table = Table([Column(title, right=True) for title in titles])
    for result in results:
        parameters = [str(result["@parameters"].get(name, "")) for name in differing]
        measured = result["@result"]
        peak, calls = measured["peak"], measured["calls_per_repetition"]
        table.add(
            *parameters, f"{measured['rate']:,.5g}", f"{measured['elapsed']:,.5g}",
            f"{measured['jitter'] / measured['rate']:.1%}",
            f"{len(measured['repetitions'])} × {calls}",
            "–" if peak is None else f"{measured['rate'] / peak['rate']:.1%}",
        )  # fmt: skip
    return table


def results_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a document, which contains at least one."""
    results: list[dict[str, Any]] = document.get("@results", [document])
    return results


def _shared(parameters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Parameters that are the same in every result; all parameters if there is only one result."""
    first = parameters[0]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in parameters)
    }


def result_notes(document: dict[str, Any]) -> list[str]:
    """Lines below the table: threads, build and warnings."""
    threads, build = document["threads"], document["build"]
    used = "unknown" if threads["used"] is None else threads["used"]
    notes = [f"threads: {threads['requested']} requested, library uses {used}"]
    notes.append("build: " + printable(_build_text(build) or "unknown"))
    if document.get("gpu"):
        notes.append("gpu: " + printable(str(document["gpu"]["name"])))
    results = results_of(document)
    unsettled = sum(not it["@result"]["warm_up"]["settled"] for it in results)
    if unsettled:
        notes.append(
            f"{unsettled} of {len(results)} never became steady in the warm-up, so their spread is"
            " large"
        )
    return notes


def _build_text(build: dict[str, Any]) -> str:
    """The most important parts of a build."""
    blas = build.get("blas")
    if isinstance(blas, dict):
        blas = " ".join(str(blas[key]) for key in ("name", "version") if key in blas)
    kernels = [it.get("kernels") for it in build.get("blas_runtime") or []]
    parts = {"BLAS": blas, "kernels": ", ".join(filter(None, kernels))}
    for name in ("capability", "onednn", "cuda", "cudnn", "compiler", "git"):
        parts[name] = build.get(name)
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value)
