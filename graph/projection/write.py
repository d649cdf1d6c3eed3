"""Rows to nodes and edges: what is there already is left alone, the rest is created whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import neo4j
from sqlalchemy import Connection

from graph.projection.model import EdgeKind, NodeKind, Row, Subject, row_of, rows_of

#: Keys in one transaction of the graph; a stack brings some forty edges.
_KEYS = 500


def missing(session: neo4j.Session, kind: NodeKind, keys: Iterable[str]) -> list[str]:
    """Those of ``keys`` that the graph does not have, each once, in their order."""
    wanted = dict.fromkeys(keys)
    if not wanted:
        return []
    present = session.execute_read(_existing, kind, list(wanted))
    return [key for key in wanted if key not in present]


def project_subject(
    connection: Connection, session: neo4j.Session, subject: Subject, keys: Iterable[str]
) -> None:
    """Create the nodes of ``keys`` that are missing, each with all that belongs to it."""
    for some in chunks(missing(session, subject.node, keys)):
        nodes = _rows(connection, subject.node, some)
        shared = [(kind, _rows(connection, kind, some)) for kind in subject.shared]
        edges = [(kind, _rows(connection, kind, some)) for kind in subject.edges]
        session.execute_write(_create, (subject.node, nodes), shared, edges)


def _existing(tx: neo4j.ManagedTransaction, kind: NodeKind, keys: list[str]) -> set[str]:
    return {key for (key,) in tx.run(kind.existing, keys=keys)}


def _rows(connection: Connection, kind: NodeKind | EdgeKind, keys: Sequence[str]) -> list[Row]:
    return [row_of(kind, row) for row in connection.execute(rows_of(kind, keys))]


def _create(
    tx: neo4j.ManagedTransaction,
    nodes: tuple[NodeKind, list[Row]],
    shared: list[tuple[NodeKind, list[Row]]],
    edges: list[tuple[EdgeKind, list[Row]]],
) -> None:
    write(tx, nodes[0].create, nodes[1])
    for node, rows in shared:
        write(tx, node.merge, rows)
    for edge, rows in edges:
        write(tx, edge.create, rows)


def write(tx: neo4j.ManagedTransaction, query: Any, rows: list[Row]) -> None:
    """Run one statement over ``rows``, if there are any."""
    if rows:
        tx.run(query, rows=rows).consume()


def chunks(keys: list[str]) -> Iterator[list[str]]:
    """Keys of one transaction of the graph after the other."""
    for first in range(0, len(keys), _KEYS):
        yield keys[first : first + _KEYS]
