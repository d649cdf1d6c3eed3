"""Nodes whose rows change: brought to what the record says, whatever the graph had.

New nodes are created whole. Of those that are there only what differs is written: reading is
many times as fast as writing, and most entries of an evening change little or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import neo4j
from sqlalchemy import Connection

from graph.projection.model import EdgeKind, NodeKind, Row, plain, row_of, rows_of
from graph.projection.write import missing, write

#: Keys that are read at once, and edges in one transaction of the graph unless one node
#: has more.
_KEYS = 500
_EDGES = 10_000

#: Writes new nodes with their edges; rows of edges come in the order of the subject's edges.
Creator = Callable[[neo4j.ManagedTransaction, list[Row], list[list[Row]]], None]
#: Hears of rows that are written otherwise than they were, in the transaction that does it.
Listener = Callable[[neo4j.ManagedTransaction, list[Row]], None]


@dataclass(frozen=True)
class Mutable:
    """What is written together, in one transaction of the graph, as often as it changes.

    :param shared: kinds that several rows may name; they are merged
    :param edges: those that the node owns, and that follow its row
    :param needs: what is at the other ends; projected before, where it is missing
    :param create: writes new nodes faster than one statement a kind does
    :param named: the node as it is written when only another one needs it
    :param written: hears of rows that differ, with or without their edges; of those that are
        deleted before they are
    """

    node: NodeKind
    shared: tuple[NodeKind, ...] = ()
    edges: tuple[EdgeKind, ...] = ()
    needs: tuple[Mutable, ...] = ()
    create: Creator | None = None
    named: NodeKind | None = None
    written: Listener | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """What the record says of some keys: rows of nodes, and of edges by kind and owner."""

    subject: Mutable
    keys: list[str]
    nodes: dict[str, Row]
    edges: tuple[dict[str, list[Row]], ...]
    shared: tuple[list[Row], ...]

    @classmethod
    def read(cls, connection: Connection, subject: Mutable, keys: list[str]) -> _Work:
        """Ask the record, once a kind."""
        nodes = {row[0]: row for row in _rows(connection, subject.node, keys)}
        edges = tuple(_by_owner(kind, _rows(connection, kind, keys)) for kind in subject.edges)
        shared = tuple(_rows(connection, kind, keys) for kind in subject.shared)
        return cls(subject, keys, nodes, edges, shared)

    def far_keys(self, node: NodeKind) -> dict[str, None]:
        """Keys of ``node`` at the other ends, each once."""
        return {
            kind.far_key_of(row): None
            for kind, by_owner in zip(self.subject.edges, self.edges, strict=True)
            if kind.far is node
            for rows in by_owner.values()
            for row in rows
        }

    def write(self, session: neo4j.Session) -> None:
        """Bring the graph to it, in transactions of a bounded size."""
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


def project_mutable(
    connection: Connection, session: neo4j.Session, subject: Mutable, keys: Iterable[str]
) -> None:
    """Bring the nodes of ``keys`` and their edges to what the record says.

    A key that the record does not have is deleted from the graph.
    """
    unique = list(dict.fromkeys(keys))
    with ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for first in range(0, len(unique), _KEYS):
            # The graph writes some keys while the next ones are read from the record.
            work = _Work.read(connection, subject, unique[first : first + _KEYS])
            if writing is not None:
                writing.result()
            for needed in subject.needs:
                _ensure(connection, session, needed, work)
            writing = writer.submit(work.write, session)
        if writing is not None:
            writing.result()


def _rows(connection: Connection, kind: NodeKind | EdgeKind, keys: Sequence[str]) -> list[Row]:
    return [row_of(kind, row) for row in connection.execute(rows_of(kind, keys)).all()]


def _by_owner(kind: EdgeKind, rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(kind.key_of(row), []).append(row)
    return found


def _ensure(connection: Connection, session: neo4j.Session, needed: Mutable, work: _Work) -> None:
    """Project other ends that are missing: their own entries may come later, or be lost."""
    if absent := missing(session, needed.node, work.far_keys(needed.node)):
        subject = needed if needed.named is None else Mutable(node=needed.named)
        project_mutable(connection, session, subject, absent)


def _apply(tx: neo4j.ManagedTransaction, work: _Work, keys: list[str]) -> None:
    """Read, compare and write in one transaction, so that it can be done again as a whole."""
    for kind, rows in zip(work.subject.shared, work.shared, strict=True):
        write(tx, kind.merge, rows)
    node = work.subject.node
    found = {row[0]: row for row in _found(tx, node, keys)}
    wanted = {key: work.nodes[key] for key in keys if key in work.nodes}
    if gone := [key for key in found if key not in wanted]:
        _tell(tx, work.subject, [found[key] for key in gone])
        tx.run(node.delete_some, keys=gone).consume()
    changed = {key for key, row in wanted.items() if key in found and found[key] != row}
    write(tx, node.update, [wanted[key] for key in changed])
    new = [key for key in wanted if key not in found]
    _create(tx, work, new)
    there = [key for key in wanted if key in found]
    for edge, by_owner in zip(work.subject.edges, work.edges, strict=True):
        if there:
            changed |= _replace(tx, edge, by_owner, there)
    _tell(tx, work.subject, [wanted[key] for key in (*changed, *new)])


def _tell(tx: neo4j.ManagedTransaction, subject: Mutable, rows: list[Row]) -> None:
    if rows and subject.written is not None:
        subject.written(tx, rows)


def _found(tx: neo4j.ManagedTransaction, kind: NodeKind | EdgeKind, keys: list[str]) -> list[Row]:
    result = tx.run(kind.read_some, keys=keys)
    return [[plain(value) for value in record] for record in result]


def _create(tx: neo4j.ManagedTransaction, work: _Work, keys: list[str]) -> None:
    if not keys:
        return
    nodes = [work.nodes[key] for key in keys]
    edges = [[row for key in keys for row in rows.get(key, ())] for rows in work.edges]
    if work.subject.create is not None:
        work.subject.create(tx, nodes, edges)
        return
    write(tx, work.subject.node.create, nodes)
    for kind, rows in zip(work.subject.edges, edges, strict=True):
        write(tx, kind.create, rows)


def _replace(
    tx: neo4j.ManagedTransaction,
    kind: EdgeKind,
    by_owner: dict[str, list[Row]],
    keys: list[str],
) -> set[str]:
    """Write the pairs of nodes whose edges differ: there may be several between two.

    :returns: keys of the owners of those that did
    """
    found = _by_pair(_found(tx, kind, keys))
    wanted = _by_pair(row for key in keys for row in by_owner.get(key, ()))
    differing = [pair for pair in found.keys() | wanted if found.get(pair) != wanted.get(pair)]
    write(tx, kind.delete_pairs, [list(pair) for pair in differing if pair in found])
    write(tx, kind.create, [row for pair in differing for row in wanted.get(pair, ())])
    return {kind.key_of([*pair]) for pair in differing}


def _by_pair(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault((row[0], row[1]), []).append(row)
    return {pair: sorted(some, key=repr) for pair, some in pairs.items()}
