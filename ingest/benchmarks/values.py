"""Numbers, times and texts in result files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

#: Sums of larger numbers overflow; no measurement is larger.
_LARGEST = 1e30
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,3})?")
_LARGEST_COUNT = 2**53
#: Times before 1980 are clocks that were not set; times after 2100 are no seconds.
_EARLIEST_S, _LATEST_S = 315_532_800, 4_102_444_800


def finite_number(value: object) -> float | None:
    """A text or a JSON value as a number; ``None`` if it is no number or too large to store.

    >>> finite_number(" 2.50 "), finite_number("N/A"), finite_number("nan"), finite_number("1e999")
    (2.5, None, None, None)
    >>> finite_number("3\\x1e")
    3.0
    >>> finite_number(7), finite_number(True), finite_number(float("inf")), finite_number(None)
    (7.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        text = value.strip()  # more than float() takes off
        if not _NUMBER.fullmatch(text):
            return None
        value = float(text)
    # An integer may be too large for a float; NaN is not less than anything.
    return float(value) if abs(value) <= _LARGEST else None


def positive_number(value: object) -> float | None:
    """A finite number above zero, or ``None``: no time and no rate is zero.

    >>> positive_number("0.00"), positive_number(-1), positive_number("3")
    (None, None, 3.0)
    """
    number = finite_number(value)
    return number if number is not None and number > 0 else None


def whole_number(value: object) -> int | None:
    """A count from zero on, also if a text or a float states it; ``None`` for other values.

    >>> whole_number("8"), whole_number(8.0), whole_number("8.5"), whole_number("-1")
    (8, 8, None, None)
    """
    number = finite_number(value)
    if number is None or not number.is_integer() or not 0 <= number <= _LARGEST_COUNT:
        return None
    return int(number)


def time_of_epoch(seconds: object) -> datetime | None:
    """The time of ``seconds`` since 1970, or ``None`` if that is no date of a measurement.

    >>> str(time_of_epoch("1700000000")), time_of_epoch("0"), time_of_epoch(1e18)
    ('2023-11-14 22:13:20+00:00', None, None)
    """
    number = finite_number(seconds)
    if number is None or not _EARLIEST_S <= number <= _LATEST_S:
        return None
    return datetime.fromtimestamp(number, UTC)


def time_of_text(text: object, form: str | None = None) -> datetime | None:
    """A time in UTC, or ``None``; a text without a zone is read as UTC.

    :param form: directives of ``strptime`` without a zone; ISO 8601 without ``form``

    >>> str(time_of_text("2020-05-01T10:00:00+02:00")), time_of_text("yesterday")
    ('2020-05-01 08:00:00+00:00', None)
    """
    try:
        if form is not None:
            return datetime.strptime(str(text), form).replace(tzinfo=UTC)
        time = datetime.fromisoformat(str(text))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def product_of(*counts: object) -> int | None:
    """The product of counts, such as nodes and accelerators in each; ``None`` if one is unknown.

    >>> product_of("2", 8), product_of(2, None)
    (16, None)
    """
    numbers = [whole_number(it) for it in counts]
    return None if None in numbers else math.prod(it or 0 for it in numbers)


def stated_texts(most: int | None, **values: object) -> dict[str, str]:
    """The texts among ``values`` that are not empty, cut to ``most`` characters.

    >>> stated_texts(3, cpu="Xeon", accelerator="", description=None)
    {'cpu': 'Xeo'}
    """
    return {name: it[:most] for name, it in values.items() if isinstance(it, str) and it}


def model_name(name: str) -> str:
    """The last part of a path; names such as ``meta-llama/Llama-3`` stay whole.

    >>> model_name("/models/Llama-3/"), model_name("meta-llama/Llama-3")
    ('Llama-3', 'meta-llama/Llama-3')
    """
    if name.startswith(("/", "~", ".")) or "\\" in name:
        return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "unknown"
    return name


def mapping_of(record: object, key: str) -> Mapping[str, Any]:
    """The object at ``key``; empty if there is none."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}
