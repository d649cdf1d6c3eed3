"""What an index says, where our messages repeat it."""

from __future__ import annotations

#: Characters of an index's words that a message repeats.
_LONGEST = 200


def cut(words: object) -> str:
    """The words' beginning, printable: an index writes what it likes, and messages are stored.

    >>> len(cut("x" * 3_000_000)), cut("a\\0b")
    (201, 'a�b')
    """
    text = str(words)
    shown = "".join(it if it.isprintable() else "\ufffd" for it in text[:_LONGEST])
    return f"{shown}…" if len(text) > _LONGEST else shown
