"""Text from documents on a person's terminal."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str, keep: str = "") -> str:
    """``text`` with control characters written as escapes, but for those in ``keep``.

    >>> printable("red\\x1b[31m")
    'red\\\\x1b[31m'
    """
    return "".join(it if it.isprintable() or it in keep else repr(it)[1:-1] for it in text)


def first_few(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first ``most`` names in one line, and how many more there are.

    :param total: how many there are, if ``names`` has not all of them

    >>> first_few(["flask", "numpy", "torch"], 2), first_few(["flask"], 2)
    ('flask, numpy and 1 more', 'flask')
    """
    shown = names[:most]
    more = (len(names) if total is None else total) - len(shown)
    return " and ".join(filter(None, (", ".join(shown), f"{more} more" if more > 0 else "")))
