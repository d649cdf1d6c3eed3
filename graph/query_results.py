"""Results of analysts' queries: as JSON values, and as text in the notation of Cypher."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from model.text import printable

#: What each value counts for, besides its text, in the size of a result.
_VALUE_BYTES = 16


class Cut(StrEnum):
    """The limit that ended a result early. The values are part of the API."""

    ROWS = "rows"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query in the store's order; each row has one value for each of ``columns``.

    :param cut: the limit that cut the result; ``None`` if the result is complete
    :param warnings: sentences about names in the query that the graph does not have
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Cut | None = None
    warnings: tuple[str, ...] = ()

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the result."""
        return self.cut is not None


def json_parts(result: QueryResult) -> Iterator[bytes]:
    """``result`` as a JSON object in parts: one for each row, and the rest."""
    yield b'{"columns":' + orjson.dumps(result.columns) + b',"rows":['
    for place, row in enumerate(result.rows):
        yield (b"," if place else b"") + _encoded(_by_column(result.columns, row))
    yield b"],"
    yield _encoded(_ending(result))[1:]


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:  # for a lone surrogate
        return json.dumps(document, allow_nan=False).encode()


def as_document(result: QueryResult) -> dict[str, Any]:
    """``result`` as JSON values, as the command prints it."""
    rows = [_by_column(result.columns, row) for row in result.rows]
    return {"columns": list(result.columns), "rows": rows, **_ending(result)}


def _by_column(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns, map(plain, row), strict=True))


def _ending(result: QueryResult) -> dict[str, Any]:
    return {
        "truncated": result.truncated,
        "truncated_by": result.cut,
        "warnings": result.warnings,
    }


def size_bytes(value: Any) -> int:
    """Size of a value: its text in UTF-8, and 16 bytes for each value that it contains.

    >>> size_bytes("né"), size_bytes([1, {"a": "bc"}])
    (19, 83)
    """
    match value:
        case str():
            return _VALUE_BYTES + len(value.encode("utf-8", "surrogatepass"))
        case bytes() | bytearray():
            return _VALUE_BYTES + len(value)
        case Path():
            inner: Iterable[Any] = (*value.nodes, *value.relationships)
        case Node() | Relationship() | dict():
            inner = (part for pair in value.items() for part in pair)
        case list() | tuple():
            inner = value
        case _:
            inner = ()
    return _VALUE_BYTES + sum(map(size_bytes, inner))


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """``value`` as a JSON value: nodes with labels and properties, times in ISO 8601.

    ``NaN`` and ``Infinity``, which JSON does not have, become text.
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
    """Properties sorted by name, because Neo4j and ArcadeDB order them differently."""
    return {key: plain(entity[key]) for key in sorted(entity.keys())}


def short(value: Any) -> str:
    """``value`` as text for a table, in the notation of Cypher.

    >>> short([1.0, None, "a"]), short({"rate": 1234567890.123})
    ('[1, null, "a"]', '{rate: 1.23457e+09}')
    """
    match value:
        case str():
            return printable(value)
        case None:
            return ""
        case _:
            return _cypher(value)


def _cypher(value: Any) -> str:  # noqa: PLR0911 - one line a type
    match value:
        case Node():
            labels = "".join(f":{label}" for label in sorted(value.labels))
            return f"({_joined(labels, _map(properties_of(value)))})"
        case Relationship():
            return f"[{_joined(f':{value.type}', _map(properties_of(value)))}]"
        case Path():
            return _path(value)
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}"
        case str():
            return json.dumps(printable(value), ensure_ascii=False)
        case dict():
            return _map(value)
        case list() | tuple() if not isinstance(value, (Point, Duration)):
            return f"[{', '.join(map(_cypher, value))}]"
        case Point():
            return f"point({', '.join(map(_cypher, tuple(value)))})"
        case _:
            return str(plain(value))


def _path(path: Path) -> str:
    text = _cypher(path.nodes[0]) if path.nodes else ""
    for node, edge in zip(path.nodes[1:], path.relationships, strict=True):
        left, right = ("-", "->") if edge.end_node == node else ("<-", "-")
        text += f"{left}{_cypher(edge)}{right}{_cypher(node)}"
    return text


def _map(values: dict[str, Any]) -> str:
    if not values:
        return ""
    return "{" + ", ".join(f"{key}: {_cypher(item)}" for key, item in values.items()) + "}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
