"""Keyset pagination: a page begins after the last key of the previous page.

A cursor encodes that key, in a form that clients do not interpret. Rows that are added or removed
between two requests do not shift the other rows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import request

from api.http.errors import ApiError, ProblemType
from api.service import service
from graph.record.freshness import KnowledgeState

Key = tuple[Any, ...]

#: Maximum of `bigint` in PostgreSQL.
_MAX_INT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Encodes the keys of one list.

    :param name: name of the list; cursors of other lists are refused
    :param parts: types of a key's parts by the attribute of the item
    """

    name: str
    parts: Mapping[str, type[str] | type[int] | type[datetime]]

    def key_of(self, item: object) -> Key:
        """The key of an item."""
        return tuple(attrgetter(name)(item) for name in self.parts)

    def text_of(self, key: Key) -> str:
        """Encode a key as a cursor.

        >>> Cursor("events", {"event_id": int}).text_of((17,))
        'WyJldmVudHMiLDE3XQ'
        """
        parts = [it.isoformat() if isinstance(it, datetime) else it for it in key]
        return base64.urlsafe_b64encode(orjson.dumps([self.name, *parts])).decode().rstrip("=")

    def key_in(self, text: str) -> Key:
        """Decode a cursor of :meth:`text_of`.

        :raises ApiError: 400 if it is not a cursor of this list

        >>> Cursor("events", {"event_id": int}).key_in("WyJldmVudHMiLDE3XQ")
        (17,)
        """
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            name, *parts = orjson.loads(packed)
            if name != self.name or len(parts) != len(self.parts):
                raise ValueError(name)
            kinds = self.parts.values()
            return tuple(_part(kind, it) for kind, it in zip(kinds, parts, strict=True))
        except (ValueError, TypeError, binascii.Error) as error:
            message = "not a cursor of this list: start at the first page"
            raise ApiError(
                400, ProblemType.INVALID_REQUEST, f"after: {message}",
                errors={"query": {"after": [message]}},
            ) from error  # fmt: skip


def _part(kind: type, value: object) -> str | int | datetime:
    if kind is datetime and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError(value)
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise ValueError(value) from None
    if kind is int and type(value) is int and 0 <= value <= _MAX_INT:
        return value
    if kind is str and isinstance(value, str) and "\0" not in value:
        return value
    raise ValueError(value)


def page(
    query: Mapping[str, Any],
    cursor: Cursor,
    find: Callable[..., Iterable[Any]],
    progress: KnowledgeState,
    key: Callable[[Any], Key] | None = None,
) -> dict[str, Any]:
    """One page of a list, in the format of :class:`api.http.schema_fields.Page`.

    :param query: with ``limit``, and ``after`` unless it is the first page
    A page whose items are larger than ``QUERY_BYTE_LIMIT`` ends early, after one item at least.

    :param find: gives at most ``limit`` items after the key ``after``: its one part, all of
        several, or ``None``
    :param key: of an item, if that is not the cursor's
    :raises ApiError: 400 if ``after`` is no cursor of this list
    """
    limit, after = query["limit"], None
    if "after" in query:
        after = cursor.key_in(query["after"])
        after = after[0] if len(after) == 1 else after
    items, more = _items(find(after=after, limit=limit + 1), limit)
    return {
        "items": items,
        "next": _next(cursor.text_of((key or cursor.key_of)(items[-1]))) if more else None,
        **freshness(progress),
    }


def _items(rows: Iterable[Any], limit: int) -> tuple[list[Any], bool]:
    """The items of a page, and whether there are more."""
    items: list[Any] = []
    left = service().settings.query_byte_limit
    for row in rows:
        left -= len(orjson.dumps(row, default=_text, option=orjson.OPT_NON_STR_KEYS))
        if len(items) == limit or (items and left < 0):
            return items, True
        items.append(row)
    return items, False


def _text(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def freshness(progress: KnowledgeState) -> dict[str, Any]:
    """Return how current the data is, as members of a response."""
    return {"as_of": progress.as_of, "graph_revision": progress.revision}


def _next(after: str) -> str:
    parameters = {**request.args.to_dict(), "after": after}
    return f"{request.path}?{urlencode(sorted(parameters.items()))}"
