"""A project's file that cannot be read, told with file, place and remedy."""

from __future__ import annotations

from typing import NoReturn

from common.errors import InvalidFile
from common.redaction import without_secrets


class InvalidProject(InvalidFile):
    """A manifest or a lock that cannot be used.

    :param place: name of the file
    :param field: path of the field, or ``line 3``
    :param hint: what to do about it
    """

    def __init__(self, reason: str, message: str, *, place: str, field: str, hint: str) -> None:
        super().__init__(reason, message, field=field, place=place)
        self.hint = hint


def refuse(reason: str, message: str, at: str, hint: str) -> NoReturn:
    """Raise :class:`InvalidProject` for a place such as ``Pipfile:packages.flask``.

    A message may quote what was read; secrets of addresses in it are taken out.
    """
    place, _, field = at.partition(":")
    told = without_secrets(message)
    raise InvalidProject(reason, told, place=place, field=field or "$", hint=hint)


def shown(value: object, most: int = 80) -> str:
    """A value within a message, short and printable whatever it holds.

    >>> shown("a" * 100, 5), shown("\\n")
    ("'aaaa…", "'\\\\n'")
    """
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else f"{text[:most]}…"
