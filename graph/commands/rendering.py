"""Query results as a table, JSON or CSV: every value that a graph can give has a form in each."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, TextIO

from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Duration

from common.terminal import printable
from graph.query_document import as_document, plain, properties_of
from graph.reader import QueryResult

FORMATS = ("table", "json", "csv")

#: Wide enough that a table in a pipe or a file is never cut.
_UNCUT = 100_000


def render(result: QueryResult, form: str, out: TextIO) -> None:
    """Write ``result`` to ``out`` in one of :data:`FORMATS`."""
    if form == "json":
        json.dump(as_document(result), out, ensure_ascii=False, indent=2, allow_nan=False)
        out.write("\n")
    elif form == "csv":
        out.write(_as_csv(result))
    else:
        _write_table(result, out)


def short(value: Any) -> str:
    """``value`` as a person reads it in a table, in the notation of Cypher.

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


def _as_csv(result: QueryResult) -> str:
    """RFC 4180; lists, maps, nodes and edges are cells of JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row] for row in result.rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else value


def _write_table(result: QueryResult, out: TextIO) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, highlight=False, width=None if out.isatty() else _UNCUT)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(result.columns):
        numbers = [isinstance(row[index], (int, float)) for row in result.rows]
        right = bool(numbers) and all(numbers)
        table.add_column(Text(printable(name)), justify="right" if right else "left")
    for row in result.rows:
        table.add_row(*(Text(short(value)) for value in row))
    console.print(table)
