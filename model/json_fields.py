"""Typed access to the fields of a document. Errors name the field by its path.

``null`` and a missing key are equal, because the programs that wrote the documents used both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import reduce
from operator import truediv
from typing import Any, Self, TypeVar

from model.errors import InvalidDocument, Reason

Record = dict[str, Any]
Choice = TypeVar("Choice", bound=StrEnum)

#: Clocks of machines differ, and times without a zone may not be UTC.
FUTURE_TOLERANCE = timedelta(hours=24)
#: Longer names do not fit an index: keys have at most 2.7 kB in PostgreSQL and 8 kB in Neo4j.
MAX_NAME_LENGTH = 500

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN = re.compile(r"[\w@.+-]{1,80}\Z")


class FieldPath(str):
    """Path of a value, as a text; ``/`` appends a key or a position.

    A path in a document begins with ``$``, and quotes keys like JSONPath (RFC 9535):

    >>> FieldPath("$.stdout") / "@result", FieldPath("$.results") / 0
    ("$.stdout['@result']", '$.results[0]')

    A path in a user's file begins with the name of the file; ``:$`` is the whole file. A path in a
    specification begins with a key:

    >>> FieldPath("Pipfile:$") / "packages" / "zope.interface", FieldPath() / "run" / "a b"
    ('Pipfile:packages.zope.interface', "run['a b']")
    """

    __slots__ = ()

    def __truediv__(self, key: str | int) -> FieldPath:
        if isinstance(key, int):
            return FieldPath(f"{self}[{key}]")
        if self.startswith("$"):
            if _IDENTIFIER.match(key):
                return FieldPath(f"{self}.{key}")
            escaped = key[:80].replace("\\", "\\\\").replace("'", "\\'")
            return FieldPath(f"{self}['{escaped}']")
        outer = self[:-1] if self.endswith(":$") else self
        if _PLAIN.match(key):
            return FieldPath(f"{outer}{'.' if outer and outer[-1] != ':' else ''}{key}")
        return FieldPath(f"{outer}[{key[:80]!r}]")


#: Path of a whole document.
ROOT = FieldPath("$")


def relocated(error: InvalidDocument, outer: str) -> InvalidDocument:
    """The error, whose field is a path from the root of the document that has ``outer``."""
    if error.field.startswith("$"):
        error.field = f"{outer}{error.field[1:]}"
    return error


@contextmanager
def inside(outer: str) -> Iterator[None]:
    """Relocate errors within the block, whose fields are relative to ``outer``.

    >>> with inside("results/3/result:$.stdout"):
    ...     raise InvalidDocument(Reason.RATE_ZERO, "a rate of zero", field="$.rate")
    Traceback (most recent call last):
    model.errors.InvalidDocument: results/3/result:$.stdout.rate: a rate of zero [rate_zero]
    """
    try:
        yield
    except InvalidDocument as error:
        relocated(error, outer)
        raise


def kind(value: Any) -> str:
    """JSON's name of the type of ``value``."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def too_long(field: str, most: int = MAX_NAME_LENGTH) -> InvalidDocument:
    """The error for a text of more than ``most`` characters."""
    return InvalidDocument(Reason.OUT_OF_RANGE, f"longer than {most} characters", field=field)


class Fields(Mapping[str, Any]):
    """An object of a document, with its path, which is made when an error needs it."""

    __slots__ = ("_keys", "_outer", "record")
    #: Limit of texts that callers do not limit themselves.
    longest: int | None = MAX_NAME_LENGTH

    def __init__(self, value: Any, outer: FieldPath | Fields = ROOT, *keys: str | int) -> None:
        """Wrap the value of ``keys`` in ``outer``.

        :raises InvalidDocument: if ``value`` is not an object
        """
        self._outer, self._keys = outer, keys
        if not isinstance(value, dict):
            raise self.wrong_type(value, "an object")
        self.record: Record = value

    @property
    def at(self) -> FieldPath:
        """The path of the object."""
        outer = self._outer.at if isinstance(self._outer, Fields) else self._outer
        return reduce(truediv, self._keys, outer)

    def path(self, *keys: str | int) -> FieldPath:
        """The path of a value in the object."""
        return reduce(truediv, keys, self.at)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, of any type."""
        return self.record.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.record

    def __getitem__(self, key: str) -> Any:
        return self.record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.record)

    def __len__(self) -> int:
        return len(self.record)

    def wrong_type(self, value: Any, expected: str, *keys: str | int) -> InvalidDocument:
        """The error for the value of ``keys``, whose type is not ``expected``."""
        message = f"{expected} was expected, {kind(value)} found"
        return self.invalid(Reason.WRONG_TYPE, message, *keys)

    def invalid(self, reason: Reason, message: str, *keys: str | int) -> InvalidDocument:
        """The error for the value of ``keys``."""
        return InvalidDocument(reason, message, field=self.path(*keys))

    def nested(self, key: str) -> Self:
        """An object; empty if it is missing."""
        value = self.record.get(key)
        return type(self)({} if value is None else value, self, key)

    def sequence(self, key: str, expected: str = "a list") -> list[Any]:
        """A list; empty if it is missing."""
        value = self.record.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong_type(value, expected, key)
        return value

    def each(self, key: str) -> Iterator[Self]:
        """The objects of a list; none if it is missing."""
        for position, value in enumerate(self.sequence(key)):
            yield type(self)(value, self, key, position)

    def texts(self, key: str, most: int | None = None) -> list[str]:
        """A list of texts of at most ``most`` characters each; empty if it is missing."""
        values = self.sequence(key, "a list of texts")
        for position, value in enumerate(values):
            if not isinstance(value, str):
                raise self.wrong_type(value, "text", key, position)
            if most is not None and len(value) > most:
                raise too_long(self.path(key, position), most)
        return values

    def text(self, key: str, most: int | None = None) -> str | None:
        """Text of at most ``most`` characters; ``None`` if missing or empty."""
        value = self.record.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.wrong_type(value, "text", key)
        most = self.longest if most is None else most
        if most is not None and len(value) > most:
            raise too_long(self.path(key), most)
        return value or None

    def required_text(self, key: str, message: str = "is missing", most: int | None = None) -> str:
        """Text of at most ``most`` characters that must not be missing or empty."""
        value = self.text(key, most)
        if value is None:
            raise self.invalid(Reason.MISSING_FIELD, message, key)
        return value

    def choice(self, key: str, kind: type[Choice], what: str) -> Choice:
        """A value of ``kind`` that must not be missing."""
        value = self.required_text(key)
        try:
            return kind(value)
        except ValueError:
            message = f"{value!r} is not a known {what}"
            raise self.invalid(Reason.OUT_OF_RANGE, message, key) from None

    def number(self, key: str, low: float = 0.0, high: float = 1e15) -> float | None:
        """A number within ``[low, high]``; texts and booleans are refused."""
        value = self.record.get(key)
        return None if value is None else self.checked_number(value, low, high, key)

    def checked_number(self, value: Any, low: float, high: float, *keys: str | int) -> float:
        """``value``, which has the path ``keys``, if it is a number within ``[low, high]``."""
        if type(value) is not float and type(value) is not int:
            raise self.wrong_type(value, "a number", *keys)
        if not low <= value <= high:
            message = f"{value!r} is not within {low:g} … {high:g}"
            raise self.invalid(Reason.OUT_OF_RANGE, message, *keys)
        return float(value)

    def integer(self, key: str, low: int = 0, high: int = 2**31 - 1) -> int | None:
        """An integer within ``[low, high]``."""
        value = self.record.get(key)
        if value is None:
            return None
        if type(value) is not int:
            raise self.wrong_type(value, "a whole number", key)
        if not low <= value <= high:
            message = f"{value} is not within {low} … {high}"
            raise self.invalid(Reason.OUT_OF_RANGE, message, key)
        return value

    def required_integer(self, key: str, low: int, high: int) -> int:
        """An integer within ``[low, high]`` that must not be missing."""
        value = self.integer(key, low, high)
        if value is None:
            raise self.invalid(Reason.MISSING_FIELD, "is missing", key)
        return value

    def time(self, key: str, now: datetime) -> datetime | None:
        """A time in UTC; an ISO time without a zone is in UTC, as in all known documents.

        A time in the year 1 counts as missing: it is the zero time of Go, which some writers use.
        """
        value = self.text(key)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
            if moment.year == 1:
                return None
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            message = f"{value[:40]!r} is not an ISO time"
            raise self.invalid(Reason.WRONG_TYPE, message, key) from None
        if moment > now + FUTURE_TOLERANCE:
            message = f"{value} lies in the future"
            raise self.invalid(Reason.FUTURE_TIMESTAMP, message, key)
        return moment

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean; ``default`` if it is missing."""
        value = self.optional_flag(key)
        return default if value is None else value

    def optional_flag(self, key: str) -> bool | None:
        """A boolean; ``None`` if it is missing."""
        value = self.record.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.wrong_type(value, "a boolean", key)
