"""Common parts of the resources of version 2: blueprint, entity tags, filters and pages.

Pagination is by key: a page begins after the last key of the previous page. A cursor encodes that
key, in a form that clients do not interpret. Rows that are added or removed between two requests do
not shift the other rows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson
from flask import Response, request
from packaging.utils import canonicalize_name

from adviser.stack_comparison import NEWEST_BASELINE
from api.http.errors import ApiError, ProblemType, not_found
from api.http.openapi import Routes
from api.http.request_context import reading
from api.http.schema_fields import NULL_BY_DEFAULT, bounded_text
from api.store_access import service
from graph.record.freshness import KnowledgeState

#: Prefix of every digest, and an example.
_SHA256 = "sha256:"
DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


class Resources(Routes):
    """A blueprint of one subject below ``/api/v2``; its GET responses have entity tags."""

    def __init__(self, name: str, import_name: str, *, description: str) -> None:
        super().__init__(f"v2-{name}", import_name, url_prefix="/api/v2", description=description)
        self.after_request(_tagged)
        self._prepare_doc_cbks.append(_with_tag)


def _with_tag(doc: dict[str, Any], _info: dict[str, Any], **more: Any) -> dict[str, Any]:
    if more["method"] == "get":
        description = "Not modified since the response with the tag of `If-None-Match`."
        doc.setdefault("responses", {})["304"] = {"description": description}
    return doc


def _tagged(response: Response) -> Response:
    """Add an entity tag; an unmodified response is not sent again."""
    if request.method in {"GET", "HEAD"} and response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def or_404(value: T | None, what: str, name: str) -> T:
    """The value.

    :raises ApiError: 404 if it is ``None``: there is no ``what`` of this name
    """
    if value is None:
        raise not_found(what, name)
    return value


def filters(query: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of a query, without parameters that select the page.

    :raises ApiError: 400 for a version without a package
    """
    if "version" in query and "package" not in query:
        message = "needs `package`"
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, f"version: {message}",
            errors={"query": {"version": [message]}},
        )  # fmt: skip
    return {
        name: _NORMALISED[name](value) if name in _NORMALISED else value
        for name, value in query.items()
        if name not in ("limit", "after")
    }


def package_name(text: str) -> str:
    """Normalise the name of a package; an invalid name matches no package."""
    return str(canonicalize_name(text))


def whole_digest(text: str) -> str:
    """Add the algorithm to a digest; clients may omit it."""
    return text if text.startswith(_SHA256) else f"{_SHA256}{text}"


#: Filters whose values are normalised, by name.
_NORMALISED: Mapping[str, Callable[[str], str]] = {
    "package": package_name, "stack": whole_digest, "hardware": whole_digest,
    "inspection": whole_digest, "comparison_key": whole_digest,
    "baseline": lambda text: text if text == NEWEST_BASELINE else whole_digest(text),
}  # fmt: skip


def members(value: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, without copying the values."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


Key = tuple[Any, ...]
T = TypeVar("T")

#: Member of a body that names an index.
INDEX_NAME = bounded_text(
    "Name of a configured index; default: the default index.", "pypi", 200, **NULL_BY_DEFAULT
)
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

    :param find: returns at most ``limit`` items after the key ``after``: a single part, a tuple of
        parts, or ``None``
    :param key: of an item; by default the cursor's key
    :raises ApiError: 400 if ``after`` is no cursor of this list
    """
    limit, after = query["limit"], None
    if "after" in query:
        after = cursor.key_in(query["after"])
        after = after[0] if len(after) == 1 else after
    items: list[Any] = []
    following = None
    left = service().settings.query_byte_limit
    for row in find(after=after, limit=limit + 1):
        left -= len(orjson.dumps(row, default=_text, option=orjson.OPT_NON_STR_KEYS))
        if len(items) == limit or (items and left < 0):
            last = cursor.text_of((key or cursor.key_of)(items[-1]))
            parameters = {**request.args.to_dict(), "after": last}
            following = f"{request.path}?{urlencode(sorted(parameters.items()))}"
            break
        items.append(row)
    return {"items": items, "next": following, **freshness(progress)}


def _text(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def browse_page(
    query: Mapping[str, Any],
    cursor: Cursor,
    browse: Callable[..., Iterable[Any]],
    *arguments: object,
    **selection: Any,
) -> dict[str, Any]:
    """A page of the items that ``browse`` returns for a connection, arguments and a selection."""
    with reading() as (connection, progress):
        return page(query, cursor, partial(browse, connection, *arguments, **selection), progress)


def freshness(progress: KnowledgeState) -> dict[str, Any]:
    """Return how current the data is, as members of a response."""
    return {"as_of": progress.as_of, "graph_revision": progress.revision}
