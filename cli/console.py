"""What commands print with: JSON documents, labelled lines, tables, notes and progress bars.

Answers go to standard output; notes, hints and progress go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from common.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from common.errors import ProjectError

#: Where the text of a labelled line begins.
LABEL_WIDTH = 14
#: Width of prose and of tables with prose where standard output is no terminal.
_PIPE_WIDTH = 120
#: Characters of one text out of a document; texts of packages may be long.
_LONGEST_TEXT = 500
#: The narrowest column of prose, in characters; where it would be narrower, rows are stacked.
_NARROWEST = 16


@dataclass(frozen=True, slots=True)
class Styled:
    """Text of a cell with a style of rich."""

    text: str
    style: str


Cell = str | Styled


def shown(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Text out of a document for a terminal: no control characters, at most ``longest`` long."""
    return printable(text[:longest]) + "…" * (len(text) > longest)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "entry", "entries"), counted(2, "job")
    ('1 entry', '2 jobs')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts by name in one line, the largest first.

    >>> counts_text({"no_metadata": 1, "solved": 3})
    '3 solved, 1 no metadata'
    """
    largest_first = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in largest_first)


def moment_text(moment: datetime) -> str:
    """A moment to the minute, in UTC.

    >>> moment_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04 UTC'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def print_json(value: Any) -> None:
    """Print one JSON document, with moments in UTC."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_json_value))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        from common.releases import as_json_time

        return as_json_time(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def print_canonical_json(value: Any) -> None:
    """Print one JSON document with sorted keys in one line, as digests are computed of it."""
    import orjson

    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    click.echo(data, nl=False)


def print_field(label: str, text: str, *, err: bool = False, width: int = LABEL_WIDTH) -> None:
    """Print a label and its text; lines of one block have their texts below each other."""
    click.echo(f"{label:<{width - 1}} {text}", err=err)


def print_list(label: str, lines: Sequence[str], most: int) -> None:
    """Print the first ``most`` lines on standard error, each with ``label``, and count the rest."""
    for line in lines[:most]:
        print_field(label, printable(line), err=True)
    if lines[most:]:
        print_field("", f"and {len(lines) - most} more", err=True)


def print_graph_state(
    lag: int | None, error: ProjectError | None, *, width: int = LABEL_WIDTH
) -> None:
    """Print whether the graph shows what the record holds; nothing after a dry run.

    :param lag: outbox entries that the graph does not show yet
    :param error: why the graph could not catch up
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
    """Print a note beside the answer, on standard error; nothing for ``None``."""
    if note is not None:
        click.echo(f"note: {shown(note)}", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that may come out of documents."""
    for line in lines:
        print_text(shown(line))


def print_text(text: Cell, file: TextIO | None = None) -> None:
    """Print a line, wrapped where a terminal or ``COLUMNS`` sets a width."""
    from rich.text import Text

    out = console(file=file)
    whole = not out.is_terminal and "COLUMNS" not in os.environ
    with out.capture() as captured:
        out.print(Text(_text(text), _style(text)), soft_wrap=whole)
    _print_captured(captured.get(), out)


def console(width: int | None = None, file: TextIO | None = None) -> Console:
    """A console for standard output, or for ``file``.

    :param width: where that is no terminal and ``COLUMNS`` is not set
    """
    from rich.console import Console

    made = Console(file=file or sys.stdout, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = width or _PIPE_WIDTH
    return made


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    :param right: whether its cells are aligned to the right
    :param wraps: whether its cells are prose, which may be broken into lines
    """

    title: str
    right: bool = False
    wraps: bool = False


@dataclass(slots=True)
class Table:
    """Rows for a person.

    On a terminal that is too narrow for it, each row becomes a block of lines
    ``title: value``, so that no column is cut off.
    """

    columns: Sequence[Column]
    title: str = ""
    caption: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row; texts out of documents are made printable."""
        self.rows.append(cells)

    def print(self, file: TextIO | None = None, *, width: int | None = None) -> None:
        """Print the table; in a pipe or a file its cells are never cut.

        :param file: standard output if unset
        :param width: that of the terminal, of ``COLUMNS`` or of prose if unset
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
        """The least width of a column, in characters."""
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
    """Print without the blanks that fill up rows where nobody sees them."""
    if not out.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    click.echo(text, file=out.file, nl=False, color=out.is_terminal)


class ProgressBars:
    """Progress of named tasks on the terminal; without one nothing is shown."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    @property
    def visible(self) -> bool:
        """Whether anything is shown."""
        return self._bars is not None

    def update(
        self, name: str, completed: int, total: int | None = None, *, description: str | None = None
    ) -> None:
        """Show how much of a task is done; ``total`` is unknown if it is ``None``."""
        if self._bars is not None:
            self._bars.update(
                self._task(name),
                completed=completed,
                total=total,
                description=description or name,
            )

    def advance(self, name: str, total: int | None = None) -> None:
        """Show that one more step of a task is done."""
        if self._bars is not None:
            self._bars.update(self._task(name), advance=1, total=total)

    def _task(self, name: str) -> TaskID:
        assert self._bars is not None  # noqa: S101 - callers checked
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=None)
        return self._tasks[name]


@contextmanager
def progress_bars(*names: str, hidden: bool = False) -> Iterator[ProgressBars]:
    """Bars on standard error until the block ends, if that is a terminal.

    :param names: tasks whose bars are shown from the start
    """
    if hidden or not sys.stderr.isatty():
        yield ProgressBars(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    ) as bars:  # fmt: skip
        made = ProgressBars(bars)
        for name in names:
            made.update(name, 0)
        yield made
