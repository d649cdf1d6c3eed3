"""What terminals and launchers add to the lines of captured console output."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
#: Times of CI services, containers and loggers, process numbers of mpirun, pods of kubectl, and
#: what logcat writes before a message.
_PREFIX = re.compile(
    r"^(?:"
    r"\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?"
    r"|\[pod/[\w./-]{1,300}\] "
    r"|(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ [VDIWEF] [^:\n]{1,80}?: "
    r"|(?:\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} )?[VDIWEF]/[^(\n]{1,80}\( *\d+\): "
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
    r"|\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[\w.-]{1,100} [\w./-]{1,100}\[\d+\]: )?"
    r")+",
    re.MULTILINE,
)
#: Task numbers of ``srun --label`` and of Intel MPI. Tables may begin with such numbers, too.
_TASK = re.compile(r"^(?: *\d{1,6}:|\[\d{1,6}\])(?: |$)", re.MULTILINE)


def without_captures(text: str) -> str:
    """``text`` without colours, prefixes of launchers, and spaces at the ends of lines.

    Task numbers are removed if most lines have one. Tabs at the end of a line separate empty cells.

    >>> without_captures("[1,0]<stdout>:total images/sec: 2\\n\\x1b[32mFPS:3\\x1b[0m")
    'total images/sec: 2\\nFPS:3'
    >>> without_captures("0: total images/sec: 2\\n1: \\n"), without_captures("0: a\\nb\\n")
    ('total images/sec: 2\\n\\n', '0: a\\nb\\n')
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    text = _PREFIX.sub("", text)
    if _TASK.search(text) and 2 * len(_TASK.findall(text)) > len(text.rstrip("\n").split("\n")):
        text = _PREFIX.sub("", _TASK.sub("", text))
    if " \n" in text:
        text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    return text
