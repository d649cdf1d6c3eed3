"""Texts of result files: complete lines, tables in CSV and Markdown, and captured output.

Captured output has lines to which terminals, launchers and loggers added a prefix.
"""

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


_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
#: Times of CI services and containers, and what logcat writes before a message.
_PREFIX = re.compile(
    r"^(?:"
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ [VDIWEF] [^:\n]{1,80}?: "
    r"|(?:\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} )?[VDIWEF]/[^(\n]{1,80}\( *\d+\): "
    rf"|{_TIME} (?:std(?:out|err) [FP] )?"
    rf"|\[{_TIME}\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[\w.-]{1,100} [\w./-]{1,100}\[\d+\]: )?"
    r")+",
    re.MULTILINE,
)
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)(?![\w/])"
_LINE = r"\[?[A-Za-z_<][\w./<>:-]{0,200}:\d+(?:\]| -)(?!\S)"
#: Loggers: of absl and glog, and of Python by level, with time, name and line in the usual orders.
#: A name before a colon may be the title of a value instead, and a name with a number a host.
_LOGGER = re.compile(
    r"^(?P<head>"
    r"[IWEF]\d{4,8} \d\d:\d\d:\d\d\.\d{1,9} +\d+ [^\s\]]{1,200}:\d+\](?!\S)"
    rf"|(?:{_TIME} (?:std(?:out|err) [FP] )?|\[{_TIME}\] ?)+(?:- |(?P<bar>\| ))?"
    rf"(?:\[[\w.]{{1,100}}\] ?|[\w.]{{1,100}}(?: [-|])? )?(?:\[{_LEVEL} *\]|{_LEVEL})"
    rf"(?(bar) *\||(?::| -(?!\S)|(?!\S)))(?: +{_LINE})?"
    rf"|{_LEVEL} (?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{{1,9}})? {_LINE}"
    rf"|\[{_LEVEL} *\](?: -)?(?!\S)"
    rf"|{_LEVEL}(?: -(?!\S)|:(?:(?:root|tensorflow|absl|__main__):)?)"
    r")(?P<name> ?(?:[A-Za-z_][A-Za-z_.]{0,100}:|\[[A-Za-z_.]{1,100}\](?!:)))?(?P<space> *)",
    re.MULTILINE,
)
#: Names of processes before their lines: ranks of ``mpirun`` and ``torchrun``, and pods.
_PROCESS = re.compile(
    r"^(?:\[(?:[^\]\s]{1,200}@)?(\d{1,6},\d{1,6})\]<std(?:out|err)>: ?"
    r"|\[(pod/[\w./-]{1,300})\] "
    r"|\[(?:default|rank)(\d{1,6})\]: ?)",
    re.MULTILINE,
)
#: Task numbers of ``srun --label`` and of Intel MPI. Tables may begin with such numbers, too.
_TASK = re.compile(r"^(?: *(\d{1,6}):|\[(\d{1,6})\])(?: |$)", re.MULTILINE)
#: Containers of Docker Compose and Swarm. Tables may begin with names, too.
_CONTAINER = re.compile(r"^(?=[\w.@-]{0,100}[A-Za-z])([\w.@-]{1,100}) +\|(?: |$)", re.MULTILINE)
#: Hosts of ``pdsh``, whose names have a number. Titles of values may have one, too.
_HOST = re.compile(r"^(?=[A-Za-z][\w.-]{0,100}\d)([\w.-]{1,100}):(?: |$)", re.MULTILINE)
#: Few lines of a table or a list have the same name or number.
_LINES_OF_A_NAME = 2
#: Maximum number of prefixes in a row; a rank in a container on a host has three.
_MOST_PREFIXES = 6


def without_captures(text: str) -> str:
    """``text`` without colours, prefixes of launchers and loggers, and spaces at ends of lines.

    Lines of several processes are put together by process, because a result of one process must not
    have values of another. Task numbers, containers and hosts are removed if most lines have one,
    from the first to the last such line. Several prefixes in a row are removed one by one. Tabs
    at the end of a line separate empty cells.

    >>> without_captures("[1,0]<stdout>:total images/sec: 2\\n\\x1b[32mFPS:3\\x1b[0m")
    'total images/sec: 2\\nFPS:3'
    >>> without_captures("1: c\\n0: a\\n1: d\\n0: b\\n"), without_captures("0: a\\nb\\n")
    ('a\\nb\\nc\\nd\\n', '0: a\\nb\\n')
    >>> without_captures("node1: [rank1]: b\\nnode1: [rank0]: a\\nnode2: [rank0]: c\\nnode2: d\\n")
    'a\\nb\\nc\\nd\\n'
    >>> without_captures("INFO:bench:a: 1\\nINFO:bench:b: 2\\n"), without_captures("INFO: a: 1\\n")
    ('a: 1\\nb: 2\\n', 'a: 1\\n')
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    text = _without_prefixes(text, _MOST_PREFIXES)
    if " \n" in text:
        text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    return text


def _without_prefixes(text: str, most: int) -> str:
    """``text`` without at most ``most`` prefixes in a row."""
    text = _PREFIX.sub("", _without_loggers(text))
    mark = next((it for it in (_PROCESS, _TASK, _CONTAINER, _HOST) if _is_prefix(text, it)), None)
    return text if mark is None or not most else _by_process(text, mark, most - 1)


def _without_loggers(text: str) -> str:
    """``text`` without prefixes of loggers.

    If loggers have names, most lines have one, and there are few names. A level may be padded, so
    the spaces that all lines of a form share are removed; other spaces indent the message.
    """
    lines = list(_LOGGER.finditer(text))
    names = [it["name"] for it in lines if it["name"]]
    named = 4 * len(names) > 3 * len(lines) and len(names) >= _LINES_OF_A_NAME * len(set(names))
    padding: dict[str, int] = {}
    for line in lines:
        if text[line.end() : line.end() + 1] not in ("", "\n") and (named or not line["name"]):
            form, width = _form(line), len(line["space"])
            padding[form] = min(width, padding.get(form, width))

    def message(line: re.Match[str]) -> str:
        if named or not line["name"]:
            return line["space"][padding.get(_form(line), 0) :]
        return line["name"].lstrip() + line["space"]

    return _LOGGER.sub(message, text) if lines else text


def _form(line: re.Match[str]) -> str:
    """Levels and punctuation of a logger's prefix, without its numbers and names."""
    return re.sub(r"[^A-Z\[\]|-]", "", line["head"])


def _is_prefix(text: str, mark: re.Pattern[str]) -> bool:
    """Whether ``mark`` is a prefix in ``text``, and not a part of a table or a list."""
    first = mark.search(text)
    if first is None or mark is _PROCESS:
        return first is not None
    names, end = [], 0
    for match in mark.finditer(text):
        names.append(match[0])
        end = match.end()
    repeated = len(names) >= _LINES_OF_A_NAME * len(set(names))
    if mark is _TASK and 2 * len(names) > text.rstrip("\n").count("\n") + 1:
        return True
    if not repeated or (mark is _CONTAINER and _has_names_in_table(text)):
        return False
    return 2 * len(names) > text.count("\n", first.start(), end) + 1


def _has_names_in_table(text: str) -> bool:
    """Whether the rows of a Markdown table begin with a cell, as lines of containers do."""
    return any(SEPARATOR.fullmatch(it) and it[0] != "|" for it in text.split("\n"))


def _by_process(text: str, mark: re.Pattern[str], most: int) -> str:
    """``text`` without ``mark``; if several processes wrote it, by process in order of their names.

    Lines without a mark are of the launcher, and come first. A last line without a line end stays
    the last, after the other lines of its process, so that readers see that it may be cut off.
    """
    lines: dict[str, list[str]] = {}
    complete = text.endswith("\n")
    process = ""
    for line in text.removesuffix("\n").split("\n"):
        match = mark.match(line)
        process = "" if match is None else next(filter(None, match.groups()), "")
        lines.setdefault(process, []).append(line if match is None else line[match.end() :])
    if len(lines) - ("" in lines) < 2:
        return _without_prefixes(mark.sub("", text), most)
    numbers = {it: [int(number) for number in re.findall(r"\d{1,9}", it)] for it in lines}
    names = sorted(lines, key=lambda it: (it == process and not complete, numbers[it], it))
    parts = ["\n".join(lines[it]) + "\n" for it in names]
    if not complete:
        parts[-1] = parts[-1].removesuffix("\n")
    return "".join(_without_prefixes(it, most) for it in parts)
