"""What terminals and launchers add to the lines of captured console output."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
#: Times of CI services and containers, process numbers of mpirun, and pods of kubectl.
_PREFIX = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z "
    r"|\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?"
    r"|\[pod/[\w./-]{1,300}\] )+",
    re.MULTILINE,
)


def without_captures(text: str) -> str:
    """``text`` without colours of terminals and prefixes of launchers.

    >>> without_captures("[1,0]<stdout>:total images/sec: 2\\n\\x1b[32mFPS:3\\x1b[0m")
    'total images/sec: 2\\nFPS:3'
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return _PREFIX.sub("", text)
