"""Text from documents on a person's terminal."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """``text`` with control characters written as escapes, but for those in ``keep``.

    >>> printable("red\\x1b[31m")
    'red\\\\x1b[31m'
    """
    return "".join(it if it.isprintable() or it in keep else repr(it)[1:-1] for it in text)
