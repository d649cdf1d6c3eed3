"""Stores as an earlier release left them: ``tests/data/upgrades`` holds its rows and its graph."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import neo4j
import sqlalchemy
from alembic import command
from sqlalchemy import text

from graph.engine import Stores
from graph.migrate import alembic_config
from tests.services.unmigrated import replace_steps

_FOLDER = Path(__file__).parent.parent / "data" / "upgrades"
_STEPS = "SchemaMigration"

_ADD_NODES = "UNWIND $rows AS row CREATE (n:%s) SET n = row.properties, n.upgrade_id = row.id"
_ADD_EDGES = """
UNWIND $rows AS row
MATCH (a:%s {upgrade_id: row.start}), (b:%s {upgrade_id: row.end})
CREATE (a)-[e:%s]->(b) SET e = row.properties
"""
_END = "MATCH (n:%s) REMOVE n.upgrade_id"


def fill_as(stores: Stores, version: str) -> str:
    """Bring stores without a schema to the state that a release left them in.

    :returns: the revision of PostgreSQL in that release
    """
    data = json.loads(gzip.decompress((_FOLDER / f"{version}.json.gz").read_bytes()))
    with stores.engine.begin() as connection:
        command.upgrade(alembic_config(connection), data["revision"])
        _fill_tables(connection, data["tables"])
    _fill_graph(stores, data["nodes"], data["edges"])
    return str(data["revision"])


def reads_of(version: str) -> list[str]:
    """The statements, with their values, that the routes of a release sent for these rows."""
    statements: list[str] = json.loads((_FOLDER / f"{version}-reads.json").read_text("utf-8"))
    return statements


def _fill_tables(connection: sqlalchemy.Connection, rows: dict[str, list[dict[str, Any]]]) -> None:
    tables = sqlalchemy.MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        if table.name not in rows:
            continue
        connection.execute(table.delete())
        values = [
            {name: _python_value(value) for name, value in row.items()} for row in rows[table.name]
        ]
        connection.execute(table.insert(), values)
        for column in table.columns:
            if column.identity is not None:
                last = max(row[column.name] for row in rows[table.name])
                query = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
                names = {"table": table.name, "column": column.name}
                connection.execute(query, {**names, "last": last})


def _fill_graph(
    stores: Stores,
    nodes: list[tuple[list[str], dict[str, Any]]],
    edges: list[tuple[int, str, int, dict[str, Any]]],
) -> None:
    by_label: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, ((label,), properties) in enumerate(nodes):
        row = {name: _python_value(value) for name, value in properties.items()}
        by_label[label].append({"id": number, "properties": row})
    by_type: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for start, kind, end, properties in edges:
        row = {name: _python_value(value) for name, value in properties.items()}
        ends = nodes[start][0][0], nodes[end][0][0]
        by_type[*ends, kind].append({"start": start, "end": end, "properties": row})
    replace_steps(stores.driver, stores.database, [it["properties"] for it in by_label.pop(_STEPS)])
    with stores.driver.session(database=stores.database) as session:
        for label, rows in by_label.items():
            session.run(_ADD_NODES % label, rows=rows).consume()
        for names, rows in by_type.items():
            session.run(_ADD_EDGES % names, rows=rows).consume()
        for label in by_label:
            session.run(_END % label).consume()


def _python_value(value: Any) -> Any:
    """Bytes and times of the graph, which are objects in the file."""
    if not isinstance(value, dict):
        return value
    if value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    if value.keys() == {"time"}:
        return neo4j.time.DateTime.from_native(datetime.fromisoformat(value["time"]))
    return value
