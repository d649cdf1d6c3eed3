"""What a job printed: JSON where every parser reads it alike, text otherwise."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


def parsed_output(data: bytes, *, truncated: bool = False) -> Any:
    """Standard output parsed if it is JSON that every parser reads alike, else as text.

    >>> parsed_output(b'{"a": 1}'), parsed_output(b"NaN"), parsed_output(b"")
    ({'a': 1}, 'NaN', {})
    """
    text = decoded(data)
    if not text.strip():
        return {}
    if truncated or "\\u0000" in text:
        return text
    try:
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_without_repetition,
        )
        # What ingest's parser refuses would take the whole result with it.
        orjson.dumps({"stdout": value})
    except (ValueError, TypeError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def decoded(data: bytes) -> str:
    """As UTF-8; what is none is escaped, and so is NUL, which stores cannot hold."""
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made
