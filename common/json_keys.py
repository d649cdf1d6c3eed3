"""JSON in which a key occurs twice: two parsers could read it differently, so it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from common.errors import InvalidDocument
from common.fields import path
from common.reasons import Reason


def refuse_repeated_keys(data: bytes, canonical: bytes) -> None:
    """Refuse a document with an object that has a key twice.

    :param data: a JSON document that was parsed without an error
    :param canonical: what was parsed, in canonical form
    :raises InvalidDocument: ``duplicate_key``, naming the first such key
    """
    if not _may_repeat_keys(data, canonical):
        return
    for at, value in walk(json.loads(data, object_pairs_hook=_object)):
        if isinstance(value, _Object) and value.duplicate is not None:
            raise InvalidDocument(
                Reason.DUPLICATE_KEY,
                f"the key {value.duplicate[:80]!r} occurs twice",
                field=path(at, value.duplicate),
            )


def walk(value: Any, at: str = "$") -> Iterator[tuple[str, Any]]:
    """Every value with its path, outer ones first; keys come as text at their own path."""
    pending = [(at, value)]
    while pending:
        at, value = pending.pop()
        yield at, value
        if isinstance(value, dict):
            pending.extend((path(at, key), inner) for key, inner in reversed(value.items()))
            yield from ((path(at, key), key) for key in value)
        elif isinstance(value, list):
            pending.extend((path(at, i), value[i]) for i in reversed(range(len(value))))


def _may_repeat_keys(data: bytes, canonical: bytes) -> bool:
    """Whether ``data`` has other colons than its canonical form.

    Of two equal keys the parser keeps one, so the canonical bytes lack a colon, and
    those within text are in both. An escaped colon is written plainly there, which
    could hide a missing one, so escapes that may be one are looked at more closely.
    """
    return data.count(b":") != canonical.count(b":") or b"\\u003" in data


class _Object(dict[str, Any]):
    """An object that remembers a key it was given twice."""

    duplicate: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                made.duplicate = key
                break
            seen.add(key)
    return made
