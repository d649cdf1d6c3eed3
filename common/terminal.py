"""Text from documents, made safe for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str, keep: str = "") -> str:
    """``text`` with control characters escaped, except those in ``keep``.

    >>> printable("red\\x1b[31m")
    'red\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def first_few(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first ``most`` names in one line, and the number of the others.

    :param total: number of all names, if ``names`` is incomplete

    >>> first_few(["flask", "numpy", "torch"], 2), first_few(["flask"], 2)
    ('flask, numpy and 1 more', 'flask')
    """
    shown = names[:most]
    more = (len(names) if total is None else total) - len(shown)
    return " and ".join(filter(None, (", ".join(shown), f"{more} more" if more > 0 else "")))
