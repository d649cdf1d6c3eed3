"""Typed access to the fields of a JSON document. Errors name the field by its JSON path.

Every function takes the record, the key and the path of the record. ``null`` and a missing key
are equal, because the programs that wrote the documents used both.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from model.errors import InvalidDocument
from model.reasons import Reason

Record = dict[str, Any]

#: Clocks of machines differ, and times without a zone may not be UTC.
FUTURE_TOLERANCE = timedelta(hours=24)
#: Longer names do not fit an index: keys have at most 2.7 kB in PostgreSQL and 8 kB in Neo4j.
MAX_NAME_LENGTH = 500

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def path(at: str, key: str | int) -> str:
    """JSON path of ``key`` in the record at ``at``.

    >>> path("$.stdout", "@result"), path("$.results", 0)
    ("$.stdout['@result']", '$.results[0]')
    """
    if isinstance(key, int):
        return f"{at}[{key}]"
    if _IDENTIFIER.match(key):
        return f"{at}.{key}"
    escaped = key[:80].replace("\\", "\\\\").replace("'", "\\'")
    return f"{at}['{escaped}']"


def kind(value: Any) -> str:
    """JSON's name of the type of ``value``."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def wrong_type(value: Any, expected: str, field: str) -> InvalidDocument:
    """The error for a field whose type is not ``expected``."""
    return InvalidDocument(
        Reason.WRONG_TYPE, f"{expected} was expected, {kind(value)} found", field=field
    )


def as_record(value: Any, field: str) -> Record:
    """``value`` if it is an object."""
    if not isinstance(value, dict):
        raise wrong_type(value, "an object", field)
    return value


def record_of(record: Record, key: str, at: str) -> Record:
    """An object; empty if it is missing."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(value, "an object", path(at, key))
    return value


def list_of(record: Record, key: str, at: str) -> list[Any]:
    """A list; empty if it is missing."""
    value = record.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(value, "a list", path(at, key))
    return value


def text_of(record: Record, key: str, at: str, most: int = MAX_NAME_LENGTH) -> str | None:
    """Text of at most ``most`` characters; ``None`` if missing or empty."""
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_type(value, "text", path(at, key))
    if len(value) > most:
        raise too_long(path(at, key), most)
    return value or None


def too_long(field: str, most: int = MAX_NAME_LENGTH) -> InvalidDocument:
    """The error for a text of more than ``most`` characters."""
    return InvalidDocument(Reason.OUT_OF_RANGE, f"longer than {most} characters", field=field)


def number_of(
    record: Record, key: str, at: str, low: float = 0.0, high: float = 1e15
) -> float | None:
    """A number within ``[low, high]``; texts and booleans are refused."""
    value = record.get(key)
    return None if value is None else as_number(value, path(at, key), low, high)


def as_number(value: Any, field: str, low: float, high: float) -> float:
    """``value`` if it is a number within ``[low, high]``."""
    if type(value) is not float and type(value) is not int:
        raise wrong_type(value, "a number", field)
    if not low <= value <= high:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, f"{value!r} is not within {low:g} … {high:g}", field=field
        )
    return float(value)


def integer_of(
    record: Record, key: str, at: str, low: int = 0, high: int = 2**31 - 1
) -> int | None:
    """An integer within ``[low, high]``."""
    value = record.get(key)
    if value is None:
        return None
    if type(value) is not int:
        raise wrong_type(value, "a whole number", path(at, key))
    if not low <= value <= high:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, f"{value} is not within {low} … {high}", field=path(at, key)
        )
    return value


def required_integer(record: Record, key: str, at: str, low: int, high: int) -> int:
    """An integer within ``[low, high]`` that must not be missing."""
    value = integer_of(record, key, at, low, high)
    if value is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field=path(at, key))
    return value


def time_of(record: Record, key: str, at: str, now: datetime) -> datetime | None:
    """A time in UTC; an ISO time without a zone is in UTC, as in all known documents.

    A time in the year 1 counts as missing: it is the zero time of Go, which some writers use.
    """
    value = text_of(record, key, at)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.year == 1:
            return None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{value[:40]!r} is not an ISO time", field=path(at, key)
        ) from None
    if moment > now + FUTURE_TOLERANCE:
        raise InvalidDocument(
            Reason.FUTURE_TIMESTAMP, f"{value} lies in the future", field=path(at, key)
        )
    return moment


def flag_of(record: Record, key: str, at: str) -> bool:
    """A boolean; ``False`` if it is missing."""
    return optional_flag_of(record, key, at) or False


def optional_flag_of(record: Record, key: str, at: str) -> bool | None:
    """A boolean; ``None`` if it is missing."""
    value = record.get(key)
    if value is None or isinstance(value, bool):
        return value
    raise wrong_type(value, "a boolean", path(at, key))
