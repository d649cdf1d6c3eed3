"""Defines kinds of nodes and edges, with the SQL that reads them and the Cypher that writes them.

The projection and ``thoth graph verify`` use the same definitions, so they cannot disagree.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from typing import Any, LiteralString

from neo4j.time import DateTime
from sqlalchemy import ARRAY, ColumnElement, Select, Text, any_, func, literal, select
from sqlalchemy import DateTime as Moment
from sqlalchemy.dialects.postgresql import JSONB

from graph.tables import Base, Document, table_of

#: Values in the order of the properties of a kind.
Row = list[Any]


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one label.

    :param rows: query with a column for each property, the key first; at most one row for each node
    :param owner: column that is compared with the keys of a batch
    :param shared: whether several rows may name the node; its ``document_id`` is then the smallest
        one in these rows, which does not depend on their order of arrival
    :param complete: adds values to a row that SQL cannot compute
    """

    label: str
    rows: Select[*tuple[Any, ...]]
    owner: ColumnElement[str]
    shared: bool = False
    complete: Callable[[Row], None] | None = None

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """Names of the properties, the key first."""
        return tuple(self.rows.selected_columns.keys())

    @property
    def key(self) -> str:
        """Name of the property that identifies a node."""
        return self.properties[0]

    def values(self, row: str, first: int = 0, filled: Sequence[int] | None = None) -> str:
        """The map ``{name: row[0], …}`` in a pattern.

        On ArcadeDB this map is several times as fast as ``SET node = row`` with rows as maps.

        :param first: index of the first of these properties in the row
        :param filled: indexes of the properties in the row; by default, the row has all
        """
        names = self.properties if filled is None else [self.properties[it] for it in filled]
        values = (
            f"{name}: {self._value(name, row, number)}" for number, name in enumerate(names, first)
        )
        return "{" + ", ".join(values) + "}"

    def _value(self, name: str, row: str, number: int) -> str:
        value = f"{row}[{number}]"
        return f"datetime({value})" if name in self._times else value

    @cached_property
    def _times(self) -> frozenset[str]:
        """Properties that :func:`utc_text` selects; the graph has them as temporal values."""
        columns = self.rows.selected_columns
        return frozenset(str(it.key) for it in columns if isinstance(it.type, _UtcText))

    @cached_property
    def existing(self) -> LiteralString:
        """Cypher: return the keys among ``$keys`` that exist in the graph."""
        return fixed_query(
            f"UNWIND $keys AS key MATCH (node:{self.label} {{{self.key}: key}})"
            f" RETURN node.{self.key} AS key"
        )

    @cached_property
    def create(self) -> LiteralString:
        """Cypher: create the nodes of ``$rows``; the nodes must not exist yet."""
        return fixed_query(f"UNWIND $rows AS row CREATE (:{self.label} {self.values('row')})")

    @cached_property
    def update(self) -> LiteralString:
        """Cypher: overwrite all properties of existing nodes; a null removes a property."""
        values = (
            f"node.{name} = {self._value(name, 'row', number)}"
            for number, name in enumerate(self.properties[1:], 1)
        )
        return fixed_query(
            f"UNWIND $rows AS row MATCH (node:{self.label} {{{self.key}: row[0]}})"
            f" SET {', '.join(values)}"
        )

    @cached_property
    def merge(self) -> LiteralString:
        """Cypher: merge ``$rows`` of a shared kind; the smallest document identifier wins."""
        return fixed_query(
            f"UNWIND $rows AS row MERGE (node:{self.label} {{{self.key}: row[0]}})"
            " SET node.document_id = CASE WHEN node.document_id IS NULL"
            " OR row[1] < node.document_id THEN row[1] ELSE node.document_id END"
        )

    @cached_property
    def read(self) -> LiteralString:
        """Cypher: return the properties of every node, in the order of the properties."""
        return fixed_query(f"MATCH (node:{self.label}) RETURN {self._named}")

    @cached_property
    def read_some(self) -> LiteralString:
        """Cypher: return the properties of the nodes with ``$keys``."""
        return fixed_query(
            f"UNWIND $keys AS key MATCH (node:{self.label} {{{self.key}: key}})"
            f" RETURN {self._named}"
        )

    @property
    def _named(self) -> str:
        return ", ".join(f"node.{name} AS {name}" for name in self.properties)

    @cached_property
    def delete(self) -> LiteralString:
        """Cypher: delete at most ``$limit`` nodes with their edges; return the number of nodes."""
        return fixed_query(
            f"MATCH (node:{self.label}) WITH node LIMIT $limit DETACH DELETE node"
            " RETURN count(*) AS deleted"
        )

    @cached_property
    def delete_some(self) -> LiteralString:
        """Cypher: delete the nodes with ``$keys`` and their edges."""
        return fixed_query(
            f"UNWIND $keys AS key MATCH (node:{self.label} {{{self.key}: key}}) DETACH DELETE node"
        )


@dataclass(frozen=True)
class EdgeKind:
    """Edges of one type.

    :param rows: query with the key of the start, the key of the end and one column for each
        property; without properties, each pair of keys occurs once
    :param owner: column that is compared with the keys of a batch
    :param of_end: whether the end owns the edge instead of the start; used to replace edges
    """

    type: str
    start: NodeKind
    end: NodeKind
    rows: Select[*tuple[Any, ...]]
    owner: ColumnElement[str]
    of_end: bool = False

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """``start`` and ``end``, then the names of the edge's own properties."""
        return tuple(self.rows.selected_columns.keys())

    @property
    def label(self) -> str:
        """The pattern that names the edge in reports."""
        return f"(:{self.start.label})-[:{self.type}]->(:{self.end.label})"

    @property
    def far(self) -> NodeKind:
        """The kind of the node that does not own the edge."""
        return self.start if self.of_end else self.end

    def key_of(self, row: Row) -> str:
        """Key of the owner in a row."""
        return str(row[self.of_end])

    def far_key_of(self, row: Row) -> str:
        """Key of the other end in a row."""
        return str(row[not self.of_end])

    def pattern(self, row: str, first: int = 2) -> str:
        """The edge in a ``CREATE`` pattern; its first property is at ``first`` in the row."""
        names = enumerate(self.properties[2:], first)
        values = ", ".join(f"{name}: {row}[{number}]" for number, name in names)
        return f"[:{self.type} {{{values}}}]" if values else f"[:{self.type}]"

    @cached_property
    def create(self) -> LiteralString:
        """Cypher: create the edges of ``$rows``; their ends must exist, the edges must not.

        ``MERGE`` would read all edges of one end; a stack or hardware class may have a hundred
        thousand edges.
        """
        return fixed_query(
            f"UNWIND $rows AS row MATCH (start:{self.start.label} {{{self.start.key}: row[0]}})"
            f" MATCH (end:{self.end.label} {{{self.end.key}: row[1]}})"
            f" CREATE (start)-{self.pattern('row')}->(end)"
        )

    @cached_property
    def read(self) -> LiteralString:
        """Cypher: return the keys of both ends and the properties of every edge."""
        return fixed_query(
            f"MATCH (start:{self.start.label})-[edge:{self.type}]->(end:{self.end.label})"
            f" RETURN {self._named}"
        )

    @cached_property
    def read_some(self) -> LiteralString:
        """Cypher: return the edges that the nodes with ``$keys`` own."""
        owner, other = ("end", "start") if self.of_end else ("start", "end")
        node, far = (self.end, self.start) if self.of_end else (self.start, self.end)
        arrow = f"<-[edge:{self.type}]-" if self.of_end else f"-[edge:{self.type}]->"
        return fixed_query(
            f"UNWIND $keys AS key MATCH ({owner}:{node.label} {{{node.key}: key}})"
            f"{arrow}({other}:{far.label}) RETURN {self._named}"
        )

    @cached_property
    def delete_pairs(self) -> LiteralString:
        """Cypher: delete all edges between the two nodes that each row of ``$rows`` names.

        Edges are collected before they are deleted. Otherwise, ArcadeDB deletes the edges of a node
        while it iterates over them, and sometimes misses one of several edges between two nodes
        (measured: once in some thousand pairs).
        """
        return fixed_query(
            f"UNWIND $rows AS row MATCH (start:{self.start.label} {{{self.start.key}: row[0]}})"
            f"-[edge:{self.type}]->(end:{self.end.label} {{{self.end.key}: row[1]}})"
            " WITH collect(edge) AS edges UNWIND edges AS edge DELETE edge"
        )

    @property
    def _named(self) -> str:
        ends = f"start.{self.start.key} AS start, end.{self.end.key} AS end"
        return "".join((ends, *(f", edge.{name} AS {name}" for name in self.properties[2:])))


def edge_kind(
    type: str,
    start: NodeKind,
    end: NodeKind,
    keys: tuple[Any, Any],
    *properties: Any,
    of_end: bool = False,
) -> EdgeKind:
    """A kind of edge with one table row for each edge.

    :param keys: columns of that table with the keys of start and end
    :param properties: further columns, with the names of the properties
    :param of_end: whether the end owns the edge instead of the start
    """
    first, last = keys
    rows = select(first.label("start"), last.label("end"), *properties)
    return EdgeKind(type, start, end, rows, owner=last if of_end else first, of_end=of_end)


def rows_of(kind: NodeKind | EdgeKind, keys: Sequence[str]) -> Select[*tuple[Any, ...]]:
    """The query for the rows of a batch; all keys are one array parameter."""
    return kind.rows.where(kind.owner == any_(literal(list(keys), ARRAY(Text))))


def row_of(kind: NodeKind | EdgeKind, values: Iterable[Any]) -> Row:
    """A row of the record as the graph stores it."""
    row = list(values)
    if isinstance(kind, NodeKind) and kind.complete is not None:
        kind.complete(row)
    return row


def filled_columns(rows: Collection[Row]) -> tuple[int, ...]:
    """Indexes of the columns that have a value in any row.

    >>> filled_columns([["a", None, None], ["b", None, 1]])
    (0, 2)
    """
    columns = enumerate(zip(*rows, strict=True))
    return tuple(number for number, values in columns if values.count(None) < len(rows))


class _UtcText(Text):
    """The type of a time as text."""


def properties_of(
    table: type[Base], without: Collection[str] = (), **renamed: str
) -> Iterator[ColumnElement[Any]]:
    """The columns of a table as properties: times and JSON as text, an empty array as null.

    :param without: columns that are not in the graph
    :param renamed: names of properties by column
    """
    for name, column in table_of(table).columns.items():
        value: ColumnElement[Any] = column
        if isinstance(column.type, Moment):
            value = utc_text(column)
        elif isinstance(column.type, JSONB):
            value = column.cast(Text)
        elif isinstance(column.type, ARRAY):
            value = array_or_null(column)
        if name not in without:
            yield value.label(renamed.get(name, name))


def utc_text(moment: ColumnElement[Any]) -> ColumnElement[str]:
    """A time as text, in UTC with microseconds.

    ArcadeDB drops the time zone of a temporal parameter; ``datetime()`` of a text gives the same
    result on Neo4j and ArcadeDB.
    """
    form = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    return func.to_char(func.timezone("UTC", moment), form, type_=_UtcText())


def plain(value: Any) -> Any:
    """A value of the graph in the form in which queries of the record return it."""
    if not isinstance(value, DateTime):
        return value
    moment = value.to_native()
    zoned = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def array_or_null(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """SQL for an array; an empty array becomes null, so that the graph has no such property."""
    return func.nullif(column, literal([], ARRAY(Text)))


def origin() -> tuple[ColumnElement[Any], ...]:
    """Columns of a joined :class:`Document`: time of storage, collector, and source."""
    return (
        utc_text(Document.ingested_at).label("ingested_at"),
        Document.collector,
        Document.source,
    )


def fixed_query(query: str) -> LiteralString:
    """Mark a query as safe: it consists of names in this code, and values are parameters."""
    return query
