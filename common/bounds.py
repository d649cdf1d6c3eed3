"""Values of JSON and TOML that everything after can take: digests, stores, and the stack."""

from __future__ import annotations

from typing import Any

#: Tables and lists within each other; no real file and no request comes near.
MAX_DEPTH = 100
#: Numbers of 64 bits, which is what stores keep.
_LIMIT = 2**63
_SHOWN = 80


def out_of_bounds(value: Any) -> tuple[str, str] | None:
    """The first place where a value is none that can be stored, and what is wrong there.

    >>> out_of_bounds({"a": [1, 2**63]})
    ('a[1]', 'is no number of 64 bits')
    >>> out_of_bounds({"a": [1, "b"]})
    """
    found = _wrong_in(value, 0)
    if found is None:
        return None
    keys, message = found
    place = "".join(f"[{it}]" if isinstance(it, int) else f".{it[:_SHOWN]}" for it in keys[::-1])
    place = place.removeprefix(".")
    return (place if len(place) <= _SHOWN else f"{place[:_SHOWN]}…"), message


def _wrong_in(value: Any, depth: int) -> tuple[list[str | int], str] | None:
    """With the keys that lead there, innermost first."""
    message = _wrong(value, depth)
    if message is not None:
        return [], message
    if isinstance(value, (dict, list)):
        for key, it in value.items() if isinstance(value, dict) else enumerate(value):
            if (found := _wrong_in(it, depth + 1)) is not None:
                found[0].append(key)
                return found
    return None


def _wrong(value: Any, depth: int) -> str | None:
    """What is wrong with a value apart from what is in it."""
    if isinstance(value, str):
        return "has a NUL character in it" if "\0" in value else None
    if isinstance(value, (int, float)):
        # Also what is not a number at all, which compares with none.
        return None if -_LIMIT <= value < _LIMIT else "is no number of 64 bits"
    if isinstance(value, (dict, list)) and depth == MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict) and any("\0" in key for key in value):
        return "has a key with a NUL character in it"
    return None
