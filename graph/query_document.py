"""Query results as JSON values, for ``thoth cypher --format json`` and the API."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any

from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from graph.reader import QueryResult


def as_document(result: QueryResult) -> dict[str, Any]:
    """``result`` as the command and the service give it in JSON."""
    return {
        "columns": list(result.columns),
        "rows": [dict(zip(result.columns, map(plain, row), strict=True)) for row in result.rows],
        "truncated": result.truncated,
    }


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """``value`` as JSON can hold it: nodes as labels and properties, times in ISO 8601.

    Numbers that JSON does not know (``NaN``, ``Infinity``) become text.
    """
    match value:
        case Node():
            return {"labels": sorted(value.labels), "properties": properties_of(value)}
        case Relationship():
            return {"type": value.type, "properties": properties_of(value)}
        case Path():
            return {"nodes": plain(list(value.nodes)), "relationships": plain(list(value))}
        case Date() | DateTime() | Time() | Duration():
            return value.iso_format()
        case Point():
            return {"srid": value.srid, "coordinates": [plain(number) for number in value]}
        case bytes() | bytearray():
            return b64encode(value).decode("ascii")
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def properties_of(entity: Node | Relationship) -> dict[str, Any]:
    """By name: products give properties in different orders."""
    return {key: plain(entity[key]) for key in sorted(entity.keys())}
