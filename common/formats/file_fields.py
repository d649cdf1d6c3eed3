"""Typed access to keys of a user's TOML and JSON files. Errors name file, key and remedy."""

from typing import Any, NoReturn

from model.errors import InvalidFile, Reason
from model.json_fields import Fields
from model.redaction import without_secrets

#: What a user writes, by what a document has.
_EXPECTED = {"an object": "a table", "text": "a text", "a boolean": "true or false"}


def invalid_file(reason: Reason, message: str, at: str, hint: str) -> InvalidFile:
    """The error for a path such as ``Pipfile:packages.flask``.

    :param message: may quote the file; secrets in URLs are removed
    """
    place, colon, field = at.partition(":")
    if not colon:
        place, field = "", at
    return InvalidFile(reason, without_secrets(message), place=place, field=field or "$", hint=hint)


def refuse(reason: Reason, message: str, at: str, hint: str) -> NoReturn:
    """Raise :func:`invalid_file`."""
    raise invalid_file(reason, message, at, hint)


def value_text(value: object, most: int = 80) -> str:
    """A value for a message: one short, printable line.

    >>> value_text("a" * 100, 5), value_text("\\n")
    ("'aaaa…", "'\\\\n'")
    """
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else f"{text[:most]}…"


class FileTable(Fields):
    """A table of a user's file, with its path such as ``pyproject.toml:tool.uv``."""

    __slots__ = ()
    longest = None
    #: What to do about a wrong value; by default, to write another.
    hint: str | None = None

    def invalid(self, reason: Reason, message: str, *keys: str | int) -> InvalidFile:
        """The error for the value of ``keys``."""
        return invalid_file(reason, message, self.path(*keys), self.hint or "correct it there")

    def wrong_type(self, value: Any, expected: str, *keys: str | int) -> InvalidFile:
        """The error for the value of ``keys``, whose type is not ``expected``."""
        expected = _EXPECTED.get(expected, expected)
        message = f"{value_text(value)} where {expected} was expected"
        hint = self.hint or f"write {expected} there"
        return invalid_file(Reason.WRONG_TYPE, message, self.path(*keys), hint)
