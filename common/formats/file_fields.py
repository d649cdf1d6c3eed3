"""Typed access to keys of a user's TOML and JSON files. Errors name file, key and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from model.errors import InvalidFile
from model.reasons import Reason
from model.redaction import without_secrets


def refuse(reason: str, message: str, at: str, hint: str) -> NoReturn:
    """Raise :class:`InvalidFile` for a path such as ``Pipfile:packages.flask``.

    :param message: may quote the file; secrets in URLs are removed
    """
    place, _, field = at.partition(":")
    raise InvalidFile(reason, without_secrets(message), place=place, field=field or "$", hint=hint)


def value_text(value: object, most: int = 80) -> str:
    """A value for a message: one short, printable line.

    >>> value_text("a" * 100, 5), value_text("\\n")
    ("'aaaa…", "'\\\\n'")
    """
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else f"{text[:most]}…"


def table_in(table: Mapping[str, Any], key: str, at: str) -> Mapping[str, Any]:
    """A table within a table; empty if it is missing.

    :param at: path of the outer table
    :raises InvalidFile: if it has another type
    """
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        wrong_type(value, "a table", inside(at, key))
    return value


def text_in(table: Mapping[str, Any], key: str, at: str) -> str | None:
    """A text, or ``None`` if it is missing."""
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        wrong_type(value, "a text", inside(at, key))
    return value


def flag_in(table: Mapping[str, Any], key: str, at: str, default: bool = False) -> bool:
    """A boolean; ``default`` if it is missing."""
    value = table.get(key, default)
    if not isinstance(value, bool):
        wrong_type(value, "true or false", inside(at, key))
    return value


def texts_in(table: Mapping[str, Any], key: str, at: str) -> list[str]:
    """A list of texts; empty if it is missing."""
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(it, str) for it in value):
        wrong_type(value, "a list of texts", inside(at, key))
    return value


def tables_in(table: Mapping[str, Any], key: str, at: str) -> list[Mapping[str, Any]]:
    """A list of tables; empty if it is missing."""
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(it, Mapping) for it in value):
        wrong_type(value, "a list of tables", inside(at, key))
    return value


def inside(at: str, key: str) -> str:
    """Path of a key: ``Pipfile`` and ``packages`` give ``Pipfile:packages``."""
    named = key if key.isprintable() else repr(key)
    return f"{at}{'.' if ':' in at else ':'}{named[:80]}"


def wrong_type(value: Any, wanted: str, at: str) -> NoReturn:
    """Raise an error for a value whose type is not ``wanted``."""
    refuse(
        Reason.WRONG_TYPE,
        f"{value_text(value)} where {wanted} was expected",
        at,
        f"write {wanted} there",
    )
