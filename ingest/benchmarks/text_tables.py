"""Texts of result files: complete lines, and tables in CSV and in Markdown."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.errors import InvalidDocument, Reason

_HEADING = re.compile(r"#{1,6}[ \t]+(.*\S)")
#: The row below the header of a Markdown table.
SEPARATOR = re.compile(r"(?=[^-]*-)(?=[^|]*\|)[-:| \t]+")
_CELL_END = re.compile(r"(?<!\\)\|")
#: Of CSV as programs and spreadsheets write it, depending on settings and language.
_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with a header.

    :param heading: the last Markdown heading above the table; empty if there is none
    :param rows: cells without surrounding spaces, as many as the header has
    """

    heading: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def complete_lines(text: str) -> str:
    """The lines with a line end; a last line without it may have been cut off inside a number.

    >>> complete_lines("time 12\\ntime 4"), complete_lines("12\\n")
    ('time 12\\n', '12\\n')
    """
    return text[: text.rfind("\n") + 1]


def delimiter_of(line: str) -> str:
    """The most frequent delimiter in a line of CSV.

    >>> delimiter_of("a;b;c"), delimiter_of("a")
    (';', ',')
    """
    return max(_DELIMITERS, key=line.count)


def csv_rows(text: str, delimiter: str = ",") -> Iterator[list[str]]:
    """Rows of a CSV file that are not empty.

    :raises InvalidDocument: if a cell is too long
    """
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield row
    except csv.Error as error:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"not CSV: {error}", field=f"line {reader.line_num}"
        ) from None


def markdown_tables(text: str) -> Iterator[TextTable]:
    """Tables in Markdown; other lines may come before, between and after them."""
    heading, block = "", list[str]()
    for line in [*text.split("\n"), ""]:
        stripped = line.strip()
        if "|" in stripped:
            block.append(stripped)
            continue
        if block:
            yield from _markdown(heading, block)
            block = []
        title = _HEADING.match(stripped)
        heading = title[1] if title else heading


def _markdown(heading: str, lines: Sequence[str]) -> Iterator[TextTable]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    rows: list[list[str]] = []
    for token in parser.parse("\n".join(_with_whole_separator(lines))):
        if token.type == "table_open":
            rows = []
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            parts = token.children or ()
            texts = (it.content for it in parts if it.type in ("text", "code_inline"))
            rows[-1].append("".join(texts).strip())
        elif token.type == "table_close" and rows:
            yield TextTable(heading, rows[0], rows[1:])
            rows = []


def _with_whole_separator(lines: Sequence[str]) -> Sequence[str]:
    """``lines`` with a cell of the separator for each column of the header.

    If the separator has another number of cells than the header, Markdown sees no table.
    Rows may be shorter than the header. If one is longer, or all are shorter, the columns are not
    known.

    >>> _with_whole_separator(["|a|b|", "|-|", "|1|2|", "|3|"])
    ['|a|b|', '|-|-|', '|1|2|', '|3|']
    """
    below = (number for number, it in enumerate(lines) if number and SEPARATOR.fullmatch(it))
    if (at := next(below, None)) is None:
        return lines
    columns, *rows = (
        len(_CELL_END.split(it.removeprefix("|").removesuffix("|")))
        for it in (lines[at - 1], *lines[at + 1 :])
    )
    if max(rows, default=columns) != columns:
        return lines
    return [*lines[:at], "|" + "-|" * columns, *lines[at + 1 :]]
