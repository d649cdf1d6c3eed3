"""Writes nodes and edges: :func:`create_missing` writes once, :func:`upsert` also updates.

A new node is created with all its edges. An existing mutable node is read first, and only
differences are written, because reading is many times faster and most outbox entries change little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import neo4j
from sqlalchemy import Connection

from graph.projection.kinds import EdgeKind, NodeKind, Row, plain, row_of, rows_of

#: Keys that are read at once, and written in one transaction of the graph.
_KEYS = 500
#: Edges in one transaction of the graph, unless one node has more.
_EDGES = 10_000

#: Writes new nodes with their edges; rows of edges come in the order of the node's edge kinds.
Creator = Callable[[neo4j.ManagedTransaction, list[Row], list[list[Row]]], None]
#: Called with the rows that changed, in the transaction that writes them.
Listener = Callable[[neo4j.ManagedTransaction, list[Row]], None]


@dataclass(frozen=True)
class ImmutableNode:
    """A kind of node that is created once, with its edges, and never changes.

    One transaction writes the node and its edges, so an existing node proves that its edges exist.

    :param shared: kinds that several rows may name; they are merged
    """

    node: NodeKind
    shared: tuple[NodeKind, ...] = ()
    edges: tuple[EdgeKind, ...] = ()


@dataclass(frozen=True)
class MutableNode:
    """A kind of node that is kept equal to its row, with the edges that it owns.

    :param shared: kinds that several rows may name; they are merged
    :param needs: kinds at the other ends of the edges; missing nodes are written first
    :param create: writes new nodes faster than one statement for each kind does
    :param named: the node as it is written when only another node needs it
    :param written: called with rows that differ in the node or its edges; called with rows of
        deleted nodes before they are deleted
    """

    node: NodeKind
    shared: tuple[NodeKind, ...] = ()
    edges: tuple[EdgeKind, ...] = ()
    needs: tuple[MutableNode, ...] = ()
    create: Creator | None = None
    named: NodeKind | None = None
    written: Listener | None = None


def missing(session: neo4j.Session, kind: NodeKind, keys: Iterable[str]) -> list[str]:
    """The keys that the graph lacks, without duplicates, in the given order."""
    unique = list(dict.fromkeys(keys))
    if not unique:
        return []

    def present_keys(tx: neo4j.ManagedTransaction) -> set[str]:
        result = tx.run(kind.existing, keys=unique)
        present = {key for (key,) in result}
        consume(result)
        return present

    present = session.execute_read(present_keys)
    return [key for key in unique if key not in present]


def write(tx: neo4j.ManagedTransaction, query: Any, rows: list[Row]) -> None:
    """Run a statement over ``rows``, if there are any."""
    if rows:
        consume(tx.run(query, rows=rows))


def consume(result: neo4j.Result) -> neo4j.ResultSummary:
    """Discard what is left of ``result``, and release its parameters.

    A result of the driver is part of a reference cycle, so it stays in memory until the garbage
    collector runs, which is rare in commands. Its parameters are the rows of a whole transaction.
    """
    summary = result.consume()
    if summary.parameters is not None:
        summary.parameters.clear()
    return summary


def chunks(keys: list[str]) -> Iterator[list[str]]:
    """Split keys into chunks, each for one transaction of the graph."""
    for first in range(0, len(keys), _KEYS):
        yield keys[first : first + _KEYS]


def create_missing(
    connection: Connection, session: neo4j.Session, immutable: ImmutableNode, keys: Iterable[str]
) -> None:
    """Create the missing nodes among ``keys``, each with its edges."""
    for chunk in chunks(missing(session, immutable.node, keys)):
        statements = [(immutable.node.create, _rows(connection, immutable.node, chunk))]
        statements += [(kind.merge, _rows(connection, kind, chunk)) for kind in immutable.shared]
        statements += [(kind.create, _rows(connection, kind, chunk)) for kind in immutable.edges]
        session.execute_write(_write_all, statements)


def _write_all(tx: neo4j.ManagedTransaction, statements: list[tuple[Any, list[Row]]]) -> None:
    for query, rows in statements:
        write(tx, query, rows)


def upsert(
    connection: Connection, session: neo4j.Session, mutable: MutableNode, keys: Iterable[str]
) -> None:
    """Make the nodes with these ``keys``, and the edges they own, equal to the record.

    A node whose key is not in the record is deleted from the graph.
    """
    unique = list(dict.fromkeys(keys))
    with ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for chunk in chunks(unique):
            # The graph writes one chunk while the next is read from the record.
            batch = _Batch.read(connection, mutable, chunk)
            if writing is not None:
                writing.result()
            for needed in mutable.needs:
                _ensure(connection, session, needed, batch)
            writing = writer.submit(batch.write, session)
        if writing is not None:
            writing.result()


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of the record for some keys: node rows by key, edge rows by owner."""

    mutable: MutableNode
    keys: list[str]
    nodes: dict[str, Row]
    edges: tuple[dict[str, list[Row]], ...]
    shared: tuple[list[Row], ...]

    @classmethod
    def read(cls, connection: Connection, mutable: MutableNode, keys: list[str]) -> _Batch:
        """Query the record, once for each kind."""
        nodes = {row[0]: row for row in _rows(connection, mutable.node, keys)}
        edges = tuple(_by_owner(kind, _rows(connection, kind, keys)) for kind in mutable.edges)
        shared = tuple(_rows(connection, kind, keys) for kind in mutable.shared)
        return cls(mutable, keys, nodes, edges, shared)

    def far_keys(self, node: NodeKind) -> dict[str, None]:
        """Unique keys of the nodes of kind ``node`` at the other ends of the edges."""
        return {
            kind.far_key_of(row): None
            for kind, by_owner in zip(self.mutable.edges, self.edges, strict=True)
            if kind.far is node
            for rows in by_owner.values()
            for row in rows
        }

    def write(self, session: neo4j.Session) -> None:
        """Update the graph, in transactions of bounded size."""
        part: list[str] = []
        weight = 0
        for key in self.keys:
            part.append(key)
            weight += 1 + sum(len(rows.get(key, ())) for rows in self.edges)
            if weight >= _EDGES:
                session.execute_write(_apply, self, part)
                part, weight = [], 0
        if part:
            session.execute_write(_apply, self, part)


def _rows(connection: Connection, kind: NodeKind | EdgeKind, keys: Sequence[str]) -> list[Row]:
    return [row_of(kind, row) for row in connection.execute(rows_of(kind, keys)).all()]


def _by_owner(kind: EdgeKind, rows: Iterable[Row]) -> dict[str, list[Row]]:
    owned: dict[str, list[Row]] = {}
    for row in rows:
        owned.setdefault(kind.key_of(row), []).append(row)
    return owned


def _ensure(
    connection: Connection, session: neo4j.Session, needed: MutableNode, batch: _Batch
) -> None:
    """Write missing nodes at the other ends; their outbox entries may come later or be missing."""
    if absent := missing(session, needed.node, batch.far_keys(needed.node)):
        mutable = needed if needed.named is None else MutableNode(node=needed.named)
        upsert(connection, session, mutable, absent)


def _apply(tx: neo4j.ManagedTransaction, batch: _Batch, keys: list[str]) -> None:
    """Read, compare and write in one transaction, so that the driver can retry it as a whole."""
    mutable, node = batch.mutable, batch.mutable.node
    for kind, rows in zip(mutable.shared, batch.shared, strict=True):
        write(tx, kind.merge, rows)
    stored = {row[0]: row for row in _stored(tx, node, keys)}
    expected = {key: batch.nodes[key] for key in keys if key in batch.nodes}
    if deleted := [key for key in stored if key not in expected]:
        _notify(tx, mutable, [stored[key] for key in deleted])
        consume(tx.run(node.delete_some, keys=deleted))
    changed = {key for key, row in expected.items() if key in stored and stored[key] != row}
    write(tx, node.update, [expected[key] for key in changed])
    new = [key for key in expected if key not in stored]
    _create(tx, batch, new)
    existing = [key for key in expected if key in stored]
    for edge, by_owner in zip(mutable.edges, batch.edges, strict=True):
        if existing:
            changed |= _replace_edges(tx, edge, by_owner, existing)
    _notify(tx, mutable, [expected[key] for key in (*changed, *new)])


def _notify(tx: neo4j.ManagedTransaction, mutable: MutableNode, rows: list[Row]) -> None:
    if rows and mutable.written is not None:
        mutable.written(tx, rows)


def _stored(tx: neo4j.ManagedTransaction, kind: NodeKind | EdgeKind, keys: list[str]) -> list[Row]:
    result = tx.run(kind.read_some, keys=keys)
    rows = [[plain(value) for value in record] for record in result]
    consume(result)
    return rows


def _create(tx: neo4j.ManagedTransaction, batch: _Batch, keys: list[str]) -> None:
    if not keys:
        return
    nodes = [batch.nodes[key] for key in keys]
    edges = [[row for key in keys for row in rows.get(key, ())] for rows in batch.edges]
    if batch.mutable.create is not None:
        batch.mutable.create(tx, nodes, edges)
        return
    write(tx, batch.mutable.node.create, nodes)
    for kind, rows in zip(batch.mutable.edges, edges, strict=True):
        write(tx, kind.create, rows)


def _replace_edges(
    tx: neo4j.ManagedTransaction, kind: EdgeKind, by_owner: dict[str, list[Row]], keys: list[str]
) -> set[str]:
    """Rewrite all edges between two nodes if any of them differs.

    :returns: keys of the owners of rewritten edges
    """
    stored = _by_pair(_stored(tx, kind, keys))
    expected = _by_pair(row for key in keys for row in by_owner.get(key, ()))
    differing = [
        pair for pair in stored.keys() | expected if stored.get(pair) != expected.get(pair)
    ]
    write(tx, kind.delete_pairs, [list(pair) for pair in differing if pair in stored])
    write(tx, kind.create, [row for pair in differing for row in expected.get(pair, ())])
    return {kind.key_of([*pair]) for pair in differing}


def _by_pair(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault((row[0], row[1]), []).append(row)
    return {pair: sorted(edges, key=repr) for pair, edges in pairs.items()}
