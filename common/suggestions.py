"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: Least similarity of a suggestion, as :mod:`difflib` measures it.
_SIMILARITY = 0.6


def suggestion(
    name: str,
    known: Iterable[str],
    similarity: float = _SIMILARITY,
    shown: Callable[[str], str] = str,
) -> str:
    """The most similar known name in parentheses, whatever its case; empty if none is similar.

    :param shown: writes the known name

    >>> suggestion("packge", ["Package", "Stack"]), suggestion("x", ["Package"])
    (' (did you mean Package?)', '')
    """
    from difflib import get_close_matches

    spelt = {it.lower(): it for it in known}
    close = get_close_matches(name.lower(), spelt, 1, similarity)
    return f" (did you mean {shown(spelt[close[0]])}?)" if close else ""
