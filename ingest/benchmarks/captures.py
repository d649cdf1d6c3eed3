"""What terminals and launchers add to the lines of captured console output."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
#: Times of CI services, containers and loggers, and what logcat writes before a message.
_PREFIX = re.compile(
    r"^(?:"
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ [VDIWEF] [^:\n]{1,80}?: "
    r"|(?:\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} )?[VDIWEF]/[^(\n]{1,80}\( *\d+\): "
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
    r"|\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[\w.-]{1,100} [\w./-]{1,100}\[\d+\]: )?"
    r")+",
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
#: Containers of Docker Compose. Tables may begin with names, but few lines have the same.
_CONTAINER = re.compile(r"^(?=[\w.-]{0,100}[A-Za-z])([\w.-]{1,100}) +\|(?: |$)", re.MULTILINE)
_LINES_OF_A_CONTAINER = 2
#: The line below the header of a Markdown table, which no container wrote.
_MARKDOWN = re.compile(r"^[ :-]+\|[ :|-]*$", re.MULTILINE)


def without_captures(text: str) -> str:
    """``text`` without colours, prefixes of launchers, and spaces at the ends of lines.

    Lines of several processes are put together by process, because a result of one process must not
    have values of another. Task numbers and containers are removed if most lines have one. Tabs at
    the end of a line separate empty cells.

    >>> without_captures("[1,0]<stdout>:total images/sec: 2\\n\\x1b[32mFPS:3\\x1b[0m")
    'total images/sec: 2\\nFPS:3'
    >>> without_captures("1: c\\n0: a\\n1: d\\n0: b\\n"), without_captures("0: a\\nb\\n")
    ('a\\nb\\nc\\nd\\n', '0: a\\nb\\n')
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    text = _PREFIX.sub("", text)
    if _PROCESS.search(text):
        text = _by_process(text, _PROCESS)
    if _on_most_lines(text, _TASK):
        text = _by_process(text, _TASK)
    elif _on_most_lines(text, _CONTAINER) and not _MARKDOWN.search(text):
        names = _CONTAINER.findall(text)
        if len(names) >= _LINES_OF_A_CONTAINER * len(set(names)):
            text = _by_process(text, _CONTAINER)
    if " \n" in text:
        text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    return text


def _on_most_lines(text: str, mark: re.Pattern[str]) -> bool:
    if not mark.search(text):
        return False
    return 2 * sum(1 for _ in mark.finditer(text)) > text.rstrip("\n").count("\n") + 1


def _by_process(text: str, mark: re.Pattern[str]) -> str:
    """``text`` without ``mark``; if several processes wrote it, by process in order of their names.

    Lines without a mark are of the launcher, and come first. A last line without its end stays the
    last with the other lines of its process, so that readers see that it may have been cut off.
    """
    lines: dict[str, list[str]] = {}
    complete = text.endswith("\n")
    process = ""
    for line in text.removesuffix("\n").split("\n"):
        match = mark.match(line)
        process = "" if match is None else next(filter(None, match.groups()), "")
        lines.setdefault(process, []).append(line if match is None else line[match.end() :])
    if len(lines) - ("" in lines) < 2:
        return _PREFIX.sub("", mark.sub("", text))
    names = sorted(lines, key=lambda it: (it == process and not complete, _numbers(it)))
    ordered = "\n".join(line for it in names for line in lines[it])
    return _PREFIX.sub("", ordered) + "\n" * complete


def _numbers(name: str) -> tuple[list[int], str]:
    """Sorts names by the numbers in them."""
    return [int(it) for it in re.findall(r"\d{1,9}", name)], name
