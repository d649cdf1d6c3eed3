"""Limits on rows bind what a query returns, never what it counts: 12,000 nodes of each label.

PostgreSQL holds the record and answers the same questions; both graph products must agree with it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import neo4j
import pytest
import sqlalchemy
from sqlalchemy import Double, Integer, func, select, update

from common.settings import Settings
from graph.analyst_queries import QueryResult, open_reader, run_query
from graph.checkpoints import named_batch
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import graph_database, graph_driver, relational_engine
from graph.migrate import migrate_graph, migrate_relational
from graph.projection.inspections import IN, OBSERVED
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.outbox import NODES
from graph.record.modules import providers_of
from graph.tables import ArtifactRow
from model.errors import QueryRefused
from tests.factories.large_record import fill
from tests.services.neo4j.server import Neo4jServer

pytestmark = pytest.mark.slow

#: Well above the limit of 10,000 rows.
COUNT = 12_000
EDGES: tuple[EdgeKind, ...] = (IN, OBSERVED)
BYTES = 100_000_000
LISTING = "MATCH (p:Package) RETURN p.name AS name"

_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class LargeGraph:
    """A graph and the record that it shows.

    :param reader: as analysts have it
    """

    settings: Settings
    record: sqlalchemy.Engine
    reader: neo4j.Driver

    def ask(
        self,
        query: str,
        *,
        row_limit: int = 10_000,
        timeout_s: float = 300.0,
        byte_limit: int = BYTES,
        **parameters: Any,
    ) -> QueryResult:
        return run_query(
            self.reader,
            query,
            parameters,
            timeout_s=timeout_s,
            row_limit=row_limit,
            byte_limit=byte_limit,
            database=graph_database(self.settings),
        )


@pytest.fixture(scope="module")
def home() -> Iterator[Settings]:
    """Settings of stores of this module's own, with a record of many rows in PostgreSQL."""
    folder = Path(tempfile.mkdtemp(prefix="thoth-large-"))
    # However slow the machine is, only the tests of the time limit reach one.
    settings = Settings.from_env({"THOTH_HOME": str(folder), "QUERY_TIMEOUT_S": "300"})
    stores = EmbeddedStores(settings)
    try:
        stores.start(graph=False)
        engine = relational_engine(settings)
        migrate_relational(engine)
        with engine.begin() as connection:
            fill(connection, COUNT)
        engine.dispose()
        yield settings
    finally:
        stores.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module", params=["arcadedb", "neo4j"])
def large(request: pytest.FixtureRequest, home: Settings) -> Iterator[LargeGraph]:
    """Each product in turn, with the nodes of the record."""
    settings = replace(home, rate_limit=None)
    is_shared = request.param == "neo4j"
    if not is_shared:
        EmbeddedStores(settings).start()
    else:
        server: Neo4jServer = request.getfixturevalue("neo4j_for_tests")
        settings = replace(
            settings, graph_url=server.url, graph_user=server.user, graph_password=server.password
        )
    record = relational_engine(settings)
    with (
        graph_driver(settings) as writer,
        writer.session(database=graph_database(settings)) as session,
    ):
        if is_shared:
            empty(session)
        migrate_graph(writer, graph_database(settings))
        with named_batch(record, session, rebuild=True):
            project(record, session)
        with open_reader(settings) as reader:
            yield LargeGraph(settings, record, reader)
        if is_shared:
            empty(session)
    record.dispose()


def project(record: sqlalchemy.Engine, session: neo4j.Session) -> None:
    """Write nodes and edges as the projection does, but without its checks of what is there."""
    with record.connect() as connection:
        for kind in (*NODES, *EDGES):
            rows = [list(row) for row in connection.execute(kind.rows)]
            assert len(rows) == COUNT, kind.label
            for first in range(0, COUNT, _BATCH):
                session.run(kind.create, rows=rows[first : first + _BATCH]).consume()


def empty(session: neo4j.Session) -> None:
    """Delete all nodes in batches; so many at once need more memory than a store has."""
    for kind in NODES:
        deleted = 1
        while deleted:
            deleted = session.run(kind.delete, limit=_BATCH).single(strict=True)["deleted"]


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.label)
def test_cypher_aggregates_over_nodes_equal_the_record(large: LargeGraph, kind: NodeKind) -> None:
    rows = kind.rows.subquery()
    key = rows.c[kind.key]
    expected = select(func.count(), func.count(key.distinct()), func.min(key), func.max(key))
    name = f"n.{kind.key}"
    wanted = ["count(n)", f"count(DISTINCT {name})", f"min({name})", f"max({name})"]
    for column in rows.c:
        expected = expected.add_columns(func.count(column))
        wanted.append(f"count(n.{column.name})")
        if isinstance(column.type, (Integer, Double)):
            # Of no values the sum is 0 in Cypher, and null in SQL.
            total = func.coalesce(func.sum(column), 0)
            expected = expected.add_columns(total, func.min(column), func.max(column))
            wanted += [f"{it}(n.{column.name})" for it in ("sum", "min", "max")]
    with large.record.connect() as connection:
        known = list(connection.execute(expected).one())
    result = large.ask(
        f"MATCH (n:{kind.label}) WHERE n.{kind.key} IS NOT NULL RETURN {', '.join(wanted)}"
    )
    assert known[0] == COUNT
    assert list(result.rows[0]) == pytest.approx(known)


@pytest.mark.parametrize("kind", EDGES, ids=lambda kind: kind.type)
def test_cypher_aggregates_over_edges_equal_the_record(large: LargeGraph, kind: EdgeKind) -> None:
    rows = kind.rows.subquery()
    expected = select(
        func.count(), func.count(rows.c.start.distinct()), func.max(rows.c.end)
    ).where(rows.c.start > "name-000100")
    with large.record.connect() as connection:
        known = tuple(connection.execute(expected).one())
    start, end = f"start.{kind.start.key}", f"end.{kind.end.key}"
    result = large.ask(
        f"MATCH (start:{kind.start.label})-[edge:{kind.type}]->(end:{kind.end.label})"
        f" WHERE {start} > $first RETURN count(edge), count(DISTINCT {start}), max({end})",
        first="name-000100",
    )
    assert known[0] == COUNT - 100
    assert result.rows == (known,)


def test_cypher_groups_are_counted_over_all_nodes(large: LargeGraph) -> None:
    result = large.ask(
        "MATCH (i:Inspection)-[:IN]->(e:RuntimeEnvironment)"
        " OPTIONAL MATCH (e)-[:FROM_IMAGE]->(b:BaseImage)"
        " RETURN e.python_version AS python, count(DISTINCT i) AS inspections ORDER BY python"
    )
    assert [row[0] for row in result.rows] == ["3.10", "3.11", "3.12"]
    assert sum(row[1] for row in result.rows) == COUNT


def test_cypher_filter_sort_and_limit_cover_every_node(large: LargeGraph) -> None:
    last = large.ask(f"{LISTING} ORDER BY name DESC LIMIT 3")
    assert [row[0] for row in last.rows] == [f"name-{COUNT - n:06}" for n in range(3)]
    assert not last.truncated
    measured = large.ask("MATCH (o:Observation) WHERE o.rate IS NOT NULL RETURN count(o)")
    assert measured.rows == ((COUNT * 4 // 5,),)


def test_cypher_answer_cut_at_the_row_limit_says_so(large: LargeGraph) -> None:
    cut = large.ask(LISTING, row_limit=10_000)
    assert (len(cut.rows), cut.truncated) == (10_000, True)
    whole = large.ask(LISTING, row_limit=COUNT)
    assert (len(set(whole.rows)), whole.truncated) == (COUNT, False)


def test_every_release_that_provides_a_module_is_listed(home: Settings) -> None:
    engine = relational_engine(home)
    with engine.connect() as connection:
        connection.execute(update(ArtifactRow).values(imports=["shared"]))
        assert len(providers_of(connection, "shared")) == COUNT
    engine.dispose()


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (a:Package), (b:Stack) WHERE a.name + b.digest = '' RETURN count(*)",
        "MATCH (a:Package) MATCH (b:Stack) MATCH (c:Hardware) WHERE a.name = b.digest + c.digest"
        " RETURN a.name",
    ],
)
def test_endless_query_on_a_large_graph_is_ended(large: LargeGraph, query: str) -> None:
    with pytest.raises(QueryRefused, match=r"limit of (1 s|memory)"):
        large.ask(query, timeout_s=1.0)
