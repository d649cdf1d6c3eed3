"""Printing of JSON documents, labelled lines, tables, notes and progress bars.

Results go to standard output; notes, hints and progress go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
import orjson

from model.errors import ProjectError
from model.json_documents import as_json_time
from model.text import counted, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

#: Column at which the text of a labelled line begins.
LABEL_WIDTH = 14
#: Width of prose and of tables with prose if standard output is not a terminal.
_PIPE_WIDTH = 120
#: Maximum length of a text from a document; descriptions of packages may be long.
_LONGEST_TEXT = 500
#: Maximum number of characters of a line; the sentences of a result are shorter.
_LONGEST_LINE = 10_000
#: Minimum width of a column of prose. Below it, the cells of a row are printed as lines.
_NARROWEST = 16

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Styled:
    """Text of a cell, with a rich style."""

    text: str
    style: str


Cell = str | Styled


def shown(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from a document printable, and cut it after ``longest`` characters."""
    return printable(text[:longest]) + "…" * (len(text) > longest)


def moment_text(moment: datetime) -> str:
    """Format a time to the minute, in UTC.

    >>> moment_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04 UTC'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def print_json(value: Any) -> None:
    """Print one JSON document, with times in UTC, and a dataclass as its fields."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_json_value))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return as_json_time(value)
    if is_dataclass(value):
        return {it.name: getattr(value, it.name) for it in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def print_canonical_json(value: Any) -> None:
    """Print one JSON document in the form that digests are computed from."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    click.echo(data, nl=False)


def print_field(label: str, text: str, *, err: bool = False, width: int = LABEL_WIDTH) -> None:
    """Print a label and its text, which starts at column ``width``."""
    click.echo(f"{label:<{width - 1}} {text}", err=err)


def print_list(label: str, lines: Sequence[str], most: int) -> None:
    """Print the first ``most`` lines on standard error, each with ``label``, and count the rest."""
    for line in lines[:most]:
        print_field(label, printable(line), err=True)
    if lines[most:]:
        print_field("", f"and {len(lines) - most} more", err=True)


def cut_list(rows: Sequence[_Row], limit: int, ends: str) -> tuple[list[_Row], bool]:
    """Return the first ``limit`` rows, and whether there are more; a note says so.

    :param rows: read with a limit of one row more
    :param ends: which rows these are
    """
    truncated = len(rows) > limit
    if truncated:
        click.echo(f"only the {ends} {limit} are listed; --limit lists more", err=True)
    return list(rows[:limit]), truncated


def print_graph_state(
    lag: int | None, error: ProjectError | None, *, width: int = LABEL_WIDTH
) -> None:
    """Print whether the graph contains the whole record; after a dry run, print nothing.

    :param lag: outbox entries that the graph does not contain yet
    :param error: why the graph could not be updated
    """
    if error is not None:
        print_field("graph", f"behind: {error}", err=True, width=width)
        if lag:
            text = f"{counted(lag, 'entry waits', 'entries wait')}; `thoth graph sync` later"
            print_field("", text, err=True, width=width)
    elif lag is not None:
        text = counted(lag, "entry waits", "entries wait") if lag else "up to date"
        print_field("graph", text, width=width)


def print_note(note: str | None) -> None:
    """Print a note on standard error; ``None`` prints nothing."""
    if note is not None:
        click.echo(f"note: {shown(note)}", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that may come from documents."""
    for line in lines:
        print_text(shown(line, _LONGEST_LINE))


def print_text(text: Cell, file: TextIO | None = None) -> None:
    """Print a line, wrapped if a terminal or ``COLUMNS`` sets the width."""
    from rich.text import Text

    out = console(file=file)
    whole = not out.is_terminal and "COLUMNS" not in os.environ
    with out.capture() as captured:
        out.print(Text(_text(text), _style(text)), soft_wrap=whole)
    _print_captured(captured.get(), out)


def console(width: int | None = None, file: TextIO | None = None) -> Console:
    """Return a console for ``file``, by default standard output.

    :param width: used if the output is not a terminal and ``COLUMNS`` is not set
    """
    from rich.console import Console

    output = Console(file=file or sys.stdout, highlight=False)
    if not output.is_terminal and "COLUMNS" not in os.environ:
        output.width = width or _PIPE_WIDTH
    return output


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    :param right: align cells to the right
    :param wraps: cells are prose, and may be wrapped
    """

    title: str
    right: bool = False
    wraps: bool = False


@dataclass(slots=True)
class Table:
    """A table for people.

    On a narrow terminal, each row is printed as lines ``title: value``, so that nothing is cut
    off.
    """

    columns: Sequence[Column]
    title: str = ""
    caption: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row. Texts may come from documents; they are made printable."""
        self.rows.append(cells)

    def print(self, file: TextIO | None = None, *, width: int | None = None) -> None:
        """Print the table. In a pipe or a file, cells are never cut.

        :param file: by default standard output
        :param width: by default the width of the terminal, of ``COLUMNS`` or of prose
        """
        out = console(max(_PIPE_WIDTH, self._least_width()), file)
        if width is not None:
            out.width = width
        if out.width < self._least_width():
            self._print_stacked(out)
        else:
            self._print_whole(out)

    def _least_width(self) -> int:
        return sum(self._least(number) for number in range(len(self.columns))) + 2 * (
            len(self.columns) - 1
        )

    def _least(self, number: int) -> int:
        """Return the minimum width of a column, in characters."""
        column = self.columns[number]
        texts = [_text(row[number]) for row in self.rows]
        if column.wraps:
            longest = max((len(word) for text in texts for word in text.split()), default=0)
            return max(len(column.title), min(longest, _NARROWEST))
        longest = max((len(line) for text in texts for line in text.split("\n")), default=0)
        return max(len(column.title), longest)

    def _print_whole(self, out: Console) -> None:
        from rich import table
        from rich.box import SIMPLE_HEAD
        from rich.text import Text

        whole = table.Table(
            title=Text(self.title) if self.title else None,
            caption=Text(self.caption) if self.caption else None,
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            title_justify="left",
            caption_justify="left",
        )
        for column in self.columns:
            whole.add_column(
                Text(printable(column.title)),
                justify="right" if column.right else "left",
                overflow="fold",
                no_wrap=not column.wraps,
            )
        for row in self.rows:
            whole.add_row(*(Text(_text(cell), _style(cell)) for cell in row))
        with out.capture() as captured:
            out.print(whole)
        _print_captured(captured.get(), out)

    def _print_stacked(self, out: Console) -> None:
        lines = [*_wrapped(self.title, out.width)] if self.title else []
        for row in self.rows:
            lines += _wrapped(_text(row[0]), out.width)
            for column, cell in zip(self.columns[1:], row[1:], strict=True):
                if text := _text(cell).replace("\n", ", "):
                    lines += _wrapped(f"  {printable(column.title)}: {text}", out.width)
        if self.caption:
            lines += _wrapped(self.caption, out.width)
        click.echo("\n".join(lines), file=out.file)


def _text(cell: Cell) -> str:
    return printable(cell.text if isinstance(cell, Styled) else cell, keep="\n")


def _style(cell: Cell) -> str:
    return cell.style if isinstance(cell, Styled) else ""


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _print_captured(text: str, out: Console) -> None:
    """Print output of rich, and strip trailing blanks if it does not go to a terminal."""
    if not out.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    click.echo(text, file=out.file, nl=False, color=out.is_terminal)


#: Seconds between two lines of progress, where no terminal shows bars.
_LINE_EVERY_S = 30.0


class ProgressBars:
    """Progress of named tasks: bars on a terminal, and a line now and then elsewhere.

    :param hidden: nothing is shown
    """

    def __init__(self, bars: Progress | None, *, hidden: bool = False) -> None:
        self._bars = bars
        self._hidden = hidden
        self._tasks: dict[str, TaskID] = {}
        self._completed: Counter[str] = Counter()
        self._next_line = time.monotonic() + _LINE_EVERY_S

    @property
    def visible(self) -> bool:
        """Whether bars are shown."""
        return self._bars is not None

    def update(
        self, name: str, completed: int, total: int | None = None, *, description: str | None = None
    ) -> None:
        """Set the progress of a task; ``None`` means an unknown total."""
        self._completed[name] = completed
        self._show(name, total, description or name)

    def advance(
        self, name: str, total: int | None = None, *, description: str | None = None
    ) -> None:
        """Advance a task by one step."""
        self._completed[name] += 1
        self._show(name, total, description or name)

    def _show(self, name: str, total: int | None, description: str) -> None:
        completed = self._completed[name]
        if self._bars is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=None)
            self._bars.update(
                self._tasks[name], completed=completed, total=total, description=description
            )
        elif not self._hidden and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            of_all = "" if total is None else f" of {total:,}"
            click.echo(f"{description}: {completed:,}{of_all}", err=True)


@contextmanager
def progress_bars(*names: str, hidden: bool = False) -> Iterator[ProgressBars]:
    """Show progress on standard error until the block ends.

    :param names: tasks whose bars are shown from the start
    """
    if hidden or not sys.stderr.isatty():
        yield ProgressBars(None, hidden=hidden)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    ) as bars:  # fmt: skip
        progress = ProgressBars(bars)
        for name in names:
            progress.update(name, 0)
        yield progress
