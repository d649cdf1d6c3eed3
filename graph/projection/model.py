"""What a kind of node or edge is: the rows it comes from and the Cypher that writes it.

One definition serves the projection, which asks it for the rows of a batch, and
``thoth graph verify``, which asks for all of them; so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, LiteralString

from sqlalchemy import ARRAY, ColumnElement, Select, Text, any_, func, literal
from sqlalchemy.orm import InstrumentedAttribute

#: Values in the order of a kind's properties, as the driver takes them.
Row = list[Any]


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one label.

    :param rows: a column a property, the key first; at most one row a node
    :param owner: the column that a batch's keys are compared with
    :param times: properties that :func:`utc_text` made, and that are times in the graph
    :param shared: whether several rows may name the node; its ``document_id`` is then the
        smallest of theirs, so that the order of arrival leaves no trace
    """

    label: str
    rows: Select[*tuple[Any, ...]]
    owner: ColumnElement[str] | InstrumentedAttribute[str]
    times: frozenset[str] = frozenset()
    shared: bool = False

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """Names of the properties, the key first."""
        return tuple(self.rows.selected_columns.keys())

    @property
    def key(self) -> str:
        """The property that is unique."""
        return self.properties[0]

    def values(self, row: str, first: int = 0) -> str:
        """The map ``{name: row[0], …}`` of a pattern; ``first`` is the place of the key.

        Written out, one name at a time, and with rows as lists: on ArcadeDB this is
        several times as fast as ``SET node = row`` with rows as maps.
        """
        places = (
            f"{name}: datetime({row}[{place}])" if name in self.times else f"{name}: {row}[{place}]"
            for place, name in enumerate(self.properties, first)
        )
        return "{" + ", ".join(places) + "}"

    @cached_property
    def existing(self) -> LiteralString:
        """Which of ``$keys`` are in the graph, as ``key``."""
        return _own(
            f"UNWIND $keys AS key MATCH (node:{self.label} {{{self.key}: key}})"
            f" RETURN node.{self.key} AS key"
        )

    @cached_property
    def create(self) -> LiteralString:
        """Write ``$rows``, none of which may be there."""
        return _own(f"UNWIND $rows AS row CREATE (:{self.label} {self.values('row')})")

    @cached_property
    def merge(self) -> LiteralString:
        """Write ``$rows`` of a shared kind, whose document is the smallest that names it."""
        return _own(
            f"UNWIND $rows AS row MERGE (node:{self.label} {{{self.key}: row[0]}})"
            " SET node.document_id = CASE WHEN node.document_id IS NULL"
            " OR row[1] < node.document_id THEN row[1] ELSE node.document_id END"
        )

    @cached_property
    def read(self) -> LiteralString:
        """Every node's properties, in their order."""
        names = ", ".join(f"node.{name} AS {name}" for name in self.properties)
        return _own(f"MATCH (node:{self.label}) RETURN {names}")

    @cached_property
    def delete(self) -> LiteralString:
        """Delete at most ``$limit`` nodes and their edges; answers how many."""
        return _own(
            f"MATCH (node:{self.label}) WITH node LIMIT $limit DETACH DELETE node"
            " RETURN count(*) AS deleted"
        )


@dataclass(frozen=True)
class EdgeKind:
    """Edges of one type, without properties.

    :param rows: two columns: the start's key, the end's key; no pair twice
    :param owner: the column that a batch's keys are compared with
    """

    type: str
    start: NodeKind
    end: NodeKind
    rows: Select[*tuple[Any, ...]]
    owner: ColumnElement[str] | InstrumentedAttribute[str]

    properties = ("start", "end")

    @property
    def label(self) -> str:
        """The pattern that a report names the edge by."""
        return f"(:{self.start.label})-[:{self.type}]->(:{self.end.label})"

    @cached_property
    def create(self) -> LiteralString:
        """Write ``$rows``; both ends must be there, the edge must not.

        Never ``MERGE``: that reads the edges of one end, and a stack or a hardware
        class may have a hundred thousand.
        """
        return _own(
            f"UNWIND $rows AS row MATCH (start:{self.start.label} {{{self.start.key}: row[0]}})"
            f" MATCH (end:{self.end.label} {{{self.end.key}: row[1]}})"
            f" CREATE (start)-[:{self.type}]->(end)"
        )

    @cached_property
    def read(self) -> LiteralString:
        """Every edge as the keys of its ends."""
        return _own(
            f"MATCH (start:{self.start.label})-[:{self.type}]->(end:{self.end.label})"
            f" RETURN start.{self.start.key} AS start, end.{self.end.key} AS end"
        )


@dataclass(frozen=True)
class Subject:
    """What is written together, in one transaction of the graph.

    The node's existence says that all of this is there: a node is created once, with its
    edges, and its row never changes.
    """

    node: NodeKind
    shared: tuple[NodeKind, ...] = ()
    edges: tuple[EdgeKind, ...] = ()


def rows_of(kind: NodeKind | EdgeKind, keys: Sequence[str]) -> Select[*tuple[Any, ...]]:
    """The rows of a batch; one array parameter, however many keys."""
    return kind.rows.where(kind.owner == any_(literal(list(keys), ARRAY(Text))))


def utc_text(moment: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[str]:
    """A time as text in UTC with microseconds.

    Sent as text because ArcadeDB drops the zone of a time that comes as a parameter;
    ``datetime()`` of a text gives the same on both products.
    """
    return func.to_char(func.timezone("UTC", moment), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')


def _own(query: str) -> LiteralString:
    """A query made of this project's own names; values always travel as parameters."""
    return query
