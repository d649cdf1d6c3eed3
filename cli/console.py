"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import orjson
from rich.console import Console, Group, RenderableType
from rich.text import Text

from adviser.explain import ForcedOutcome, ForcedStack, PackagePresence, VersionChange
from adviser.reports.unfetched_versions import without_fetch_hint
from cli.report_view import report_view, shown

#: Of a table in a pipe or a file: as wide as people read; cells are wrapped, never cut.
_WIDTH = 120


def print_json(value: Any) -> None:
    """One JSON document, in the canonical spelling that digests are made of."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    click.echo(data, nl=False)


def print_report(
    report: Mapping[str, Any], *, fetched: bool = False, verbose: bool = False
) -> None:
    """A report for a person; see :func:`report_view`."""
    _print(report_view(report, fetched=fetched, verbose=verbose))


def print_missing(message: str | None, *, fetched: bool) -> None:
    """What is not known; and how it gets known, unless that was tried just now."""
    print_note(without_fetch_hint(message) if message and fetched else message)


def console() -> Console:
    """Standard output; where it is no terminal, as wide as ``COLUMNS`` says."""
    made = Console(highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDTH
    return made


def _print(*what: RenderableType) -> None:
    """Print without the blanks that fill up rows; a terminal keeps its styles."""
    out = console()
    # Who reads a pipe looks for whole lines, unless a width was asked for; cells are wrapped.
    whole = not out.is_terminal and "COLUMNS" not in os.environ
    with out.capture() as captured:
        for it in _flat(what):
            out.print(it, soft_wrap=whole and isinstance(it, str | Text))
    text = captured.get()
    if not out.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    click.echo(text, nl=False, color=out.is_terminal)


def _flat(what: Iterable[RenderableType]) -> Iterator[RenderableType]:
    for it in what:
        if isinstance(it, Group):
            yield from _flat(it.renderables)
        else:
            yield it


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text that may hold anything."""
    _print(*(Text(shown(line)) for line in lines))


def print_note(note: str | None) -> None:
    """What a person should know beside the answer, on standard error; nothing of ``None``."""
    if note is not None:
        click.echo(f"note: {shown(note)}", err=True)


def presence_lines(it: PackagePresence) -> Iterator[str]:
    """Why a package is there."""
    if it.no_stack:
        limit = "" if it.conflict else " was found within the limit"
        yield f"{it.name} is in no advised stack, as there is none{limit}"
        yield from (f"  {line}" for line in (it.conflict.lines() if it.conflict else ()))
        return
    if it.version is None:
        yield f"{it.name} is not in the advised stack"
        return
    yield f"{it.name} {it.version}"
    yield from (f"  because {step}" for step in it.path)
    yield from (f"  also, {step}" for step in it.askers if step not in it.path)
    if it.placing is not None:
        yield f"  this version: {it.placing.message}"
    for forced in (it.without, it.otherwise):
        if forced is not None:
            yield from forced_lines(forced)


def forced_lines(it: ForcedStack) -> Iterator[str]:
    """What forcing something costs."""
    if it.outcome is ForcedOutcome.ADVISED:
        yield f"{it.what}: the advised stack has it"
    elif it.outcome is ForcedOutcome.UNKNOWN:
        yield f"{it.what}: not known, the budget was spent"
    elif it.problem is not None:
        yield f"{it.what}: impossible: {it.problem}"
    elif it.outcome is ForcedOutcome.CONFLICT:
        yield f"{it.what}: impossible with the known versions"
        yield from (f"  {line}" for line in (it.conflict.lines() if it.conflict else ()))
    else:
        loss = "" if it.points is None else f", at a loss of {it.points:.3f} points"
        yield f"{it.what}: possible{loss}"
        yield from (f"  {loss.criterion}: {-loss.points:+.3f} points" for loss in it.losses)
        yield from (f"  {change_text(change)}" for change in it.changes)


def change_text(it: VersionChange) -> str:
    """``click 8.1 instead of 8.2``."""
    if it.forced is None:
        return f"{it.name} {it.advised} goes"
    if it.advised is None:
        return f"{it.name} {it.forced} comes"
    return f"{it.name} {it.forced} instead of {it.advised}"
