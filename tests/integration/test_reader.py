"""What analysts may not do, refused by both products, and what they may."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import neo4j
import pytest
from neo4j.exceptions import Neo4jError

from common.settings import Settings
from graph import analyst_queries
from graph.analyst_queries import Cut, QueryResult, open_reader, run_query
from graph.engine import graph_database, graph_url
from model.errors import InvalidSettings, QueryRefused
from tests.services.waiting import DEADLINE_S, wait_until
from tests.services.web import site

#: Far above the size of any answer but those that test the limit.
BYTES = 10_000_000

SAMPLE = """
CREATE (package:Package {name: 'numpy'})
  -[:HAS_VERSION]->(:PackageVersion {purl: 'pkg:pypi/numpy@2.0', name: 'numpy', version: '2.0'})
"""

WRITES = (
    "CREATE (n:Package {name: 'x'}) RETURN n",
    "CREATE (n:NeverSeen) RETURN n",
    "MERGE (n:Package {name: 'x'}) RETURN n",
    "MERGE (n:Package {name: 'numpy'}) RETURN n",
    "MATCH (n:Package) SET n.seen = true",
    "MATCH (n:Package) SET n:Other RETURN n",
    "MATCH (n:Package) REMOVE n.name",
    "MATCH (n:PackageVersion) DELETE n",
    "MATCH ()-[edge]->() DELETE edge",
    "MATCH (n) DETACH DELETE n",
    "MATCH (n) FOREACH (i IN [1] | SET n.seen = i)",
    "MATCH (n:Package) CALL (n) { SET n.seen = true } IN TRANSACTIONS",
    "UNWIND [1] AS i CALL (i) { CREATE (:Package) } IN TRANSACTIONS",
    "MATCH (n) CALL (n) { CREATE (m:Package) RETURN m } RETURN m",
)

SCHEMA = (
    "CREATE INDEX seen FOR (n:Package) ON (n.seen)",
    "CREATE INDEX seen IF NOT EXISTS FOR (n:Package) ON (n.seen)",
    "CREATE CONSTRAINT seen FOR (n:Package) REQUIRE n.seen IS UNIQUE",
    "DROP INDEX seen",
    "DROP INDEX seen IF EXISTS",
    "DROP CONSTRAINT schema_migration_version",
)

LOADS = (
    "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
    "LOAD CSV FROM $address AS line RETURN line",
    "MATCH (n:Nothing) LOAD CSV FROM $address AS line RETURN line",
    "CALL () { LOAD CSV FROM $address AS line RETURN line } RETURN line",
    "RETURN COLLECT { LOAD CSV FROM $address AS line RETURN line } AS lines",
)

PROCEDURES = (
    "CALL dbms.components()",
    "CALL dbms.listConfig()",
    "CALL dbms.showCurrentUser()",
    "CALL dbms.queryJmx('*:*')",
    "CALL db.clearQueryCaches()",
    "CALL db.schema.visualization()",
    "CALL db.createLabel('x')",
    "CALL tx.setMetaData({a: 1})",
    "CALL apoc.load.json($address)",
    "CALL apoc.meta.stats()",
    "CALL algo.pagerank()",
    "CALL `algo`.pagerank()",
    "CALL () { CALL dbms.components() YIELD name RETURN name } RETURN name",
    "CALL () { CALL algo.pagerank() YIELD score RETURN score } RETURN score",
    "MATCH (n) RETURN n.name AS name UNION CALL dbms.components() YIELD name RETURN name",
    "RETURN COUNT { CALL dbms.components() YIELD name RETURN name } AS number",
)

COMMANDS = (
    "SHOW USERS",
    "SHOW SETTINGS",
    "SHOW TRANSACTIONS",
    "SHOW DATABASES",
    "TERMINATE TRANSACTION 'neo4j-transaction-1'",
    "CREATE USER bob SET PASSWORD 'bobbobbob'",
    "ALTER USER analyst SET PASSWORD 'bobbobbob'",
    "ALTER CURRENT USER SET PASSWORD FROM 'a' TO 'bobbobbob'",
    "DROP USER analyst",
    "CREATE DATABASE other",
    "DROP DATABASE neo4j",
    "USE system SHOW USERS",
    "USE system MATCH (n) RETURN n",
    "EXPLAIN CREATE (n)",
    "PROFILE MATCH (n) RETURN n",
    "RETURN 1 AS one; MATCH (n) DETACH DELETE n",
)

RUNAWAYS = (
    "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*) AS number",
    "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b WITH a, b WHERE a < 0 RETURN a",
    "UNWIND range(1, 100000) AS a WITH collect(a) AS s UNWIND s AS x UNWIND s AS y RETURN sum(x)",
)

ENDLESS = "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN a, b"


@pytest.fixture
def address() -> Iterator[str]:
    """Of a web server that fails the test when it is asked for anything."""
    with site() as server:
        yield f"{server.url}/numbers.csv"
    assert not server.seen


class Analyst:
    """Asks the graph under test, as an analyst and behind the analyst's back."""

    def __init__(self, settings: Settings, reader: neo4j.Driver, writer: neo4j.Driver) -> None:
        self.database = graph_database(settings)
        self.reader = reader
        self.writer = writer

    def ask(
        self,
        query: str,
        *,
        timeout_s: float = 20.0,
        row_limit: int = 100,
        byte_limit: int = BYTES,
        **parameters: object,
    ) -> QueryResult:
        return run_query(
            self.reader,
            query,
            parameters,
            timeout_s=timeout_s,
            row_limit=row_limit,
            byte_limit=byte_limit,
            database=self.database,
        )

    def runs(self, query: str) -> bool:
        """Whether the store works on a query."""
        with self.writer.session(database=self.database) as session:
            running = session.run("SHOW TRANSACTIONS").data()
        return any(query in row["currentQuery"] for row in running)

    def everything(self) -> list[object]:
        """All that there is, schema included."""
        questions = (
            "MATCH (n) WHERE NOT n:SchemaMigration"
            " OPTIONAL MATCH (n)-[e]->() RETURN labels(n), properties(n), type(e)",
            "SHOW INDEXES YIELD name",
            "SHOW CONSTRAINTS YIELD name",
        )
        with self.writer.session(database=self.database) as session:
            return [sorted(map(repr, session.run(question).values())) for question in questions]


@pytest.fixture
def analyst(graph_settings: Settings, graph_driver: neo4j.Driver) -> Iterator[Analyst]:
    with graph_driver.session(database=graph_database(graph_settings)) as session:
        session.run(SAMPLE).consume()
    with open_reader(graph_settings) as reader:
        yield Analyst(graph_settings, reader, graph_driver)


@pytest.mark.parametrize(
    "queries", [WRITES, SCHEMA, LOADS, PROCEDURES, COMMANDS], ids=lambda queries: queries[0][:12]
)
def test_cypher_query_that_writes_is_refused_and_changes_nothing(
    analyst: Analyst, address: str, queries: tuple[str, ...]
) -> None:
    before = analyst.everything()
    passed = []
    for query in queries:
        try:
            analyst.ask(query, address=address)
        except QueryRefused:
            continue
        passed.append(query)
    assert not passed
    assert analyst.everything() == before


def test_graph_refuses_writes_of_the_read_only_user(analyst: Analyst) -> None:
    before = analyst.everything()
    for query in WRITES:
        with analyst.reader.session(
            database=analyst.database, default_access_mode=neo4j.READ_ACCESS
        ) as session:
            try:
                session.run(query).consume()
            except Neo4jError:
                pass
            else:
                # On ArcadeDB a MERGE that finds its node writes nothing and is let through.
                assert "numpy" in query
        assert analyst.everything() == before, query


@pytest.mark.parametrize("query", RUNAWAYS)
def test_endless_query_is_ended_at_the_time_limit(analyst: Analyst, query: str) -> None:
    with pytest.raises(QueryRefused, match=r"limit of (1 s|memory)"):
        analyst.ask(query, timeout_s=1.0)


@pytest.mark.timeout(DEADLINE_S)  # the store itself ends a query after ten minutes
def test_query_that_starts_after_its_time_limit_is_ended(
    analyst: Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, end = Event(), analyst_queries._end_on_arcadedb

    def look(*arguments: Any) -> None:
        end(*arguments)
        looked.set()

    monkeypatch.setattr(analyst_queries, "_end_on_arcadedb", look)
    monkeypatch.setattr(
        analyst_queries, "_refuse_unwanted_steps", lambda *_plan: looked.wait(DEADLINE_S)
    )
    with pytest.raises(QueryRefused, match="limit of 1 s"):
        analyst.ask(RUNAWAYS[0], timeout_s=1.0)


def test_endless_query_result_is_cut_and_the_query_stopped(analyst: Analyst) -> None:
    result = analyst.ask(ENDLESS, row_limit=50)
    assert len(result.rows) == 50
    assert result.truncated
    wait_until(lambda: not analyst.runs(ENDLESS), "the store has stopped")


#: Rows of 10 KB each, more than 90 MB in all.
WIDE = """
UNWIND range(1, 9000) AS x
RETURN x, reduce(s = 'aaaaaaaaaa', y IN range(1, 10) | s + s) AS big
"""


def test_result_of_few_large_rows_is_cut_at_the_byte_limit(analyst: Analyst) -> None:
    result = analyst.ask(WIDE, row_limit=9000, byte_limit=1_000_000)
    assert result.cut is Cut.BYTES
    assert [row[0] for row in result.rows] == list(range(1, len(result.rows) + 1))
    assert 0.9e6 < sum(len(row[1]) for row in result.rows) <= 1e6
    wait_until(lambda: not analyst.runs(WIDE), "the store has stopped")
    assert analyst.ask(WIDE, row_limit=9000, byte_limit=1000).rows == ()
    assert analyst.ask(WIDE, row_limit=3, byte_limit=1_000_000).cut is Cut.ROWS


def test_result_of_exactly_the_row_limit_is_not_truncated(analyst: Analyst) -> None:
    result = analyst.ask("UNWIND range(1, 50) AS a RETURN a", row_limit=50)
    assert (len(result.rows), result.truncated) == (50, False)


QUESTIONS = (
    ("MATCH (p:Package) RETURN p.name AS name", (("numpy",),)),
    ("CALL db.labels() YIELD label WHERE label = 'Package' RETURN label", (("Package",),)),
    ("CALL (*) { MATCH (p:Package) RETURN count(p) AS n } RETURN n", ((1,),)),
    ("RETURN 'CALL dbms.info() // CREATE' AS text", (("CALL dbms.info() // CREATE",),)),
    ("MATCH (p:Package {name: $name}) RETURN p.name AS name // comment", (("numpy",),)),
    ("RETURN COUNT { MATCH (:Package)-[:HAS_VERSION]->() } AS n", ((1,),)),
)


def test_cypher_read_queries_are_answered(analyst: Analyst) -> None:
    for query, rows in QUESTIONS:
        assert analyst.ask(query, name="numpy").rows == rows, query


def test_invalid_cypher_query_is_refused_with_a_message(analyst: Analyst) -> None:
    for query in ("MATCH (n", "RETURN nothing", "RETURN $missing AS value"):
        with pytest.raises(QueryRefused) as refusal:
            analyst.ask(query)
        assert str(refusal.value)


def test_query_parameter_too_large_for_the_protocol_is_refused(analyst: Analyst) -> None:
    with pytest.raises(QueryRefused, match="cannot be sent"):
        analyst.ask("RETURN $big AS big", big=2**70)


def test_arcadedb_without_a_read_only_user_is_refused(embedded_settings: Settings) -> None:
    from graph.embedded.start_stop import EmbeddedStores

    passwords = EmbeddedStores(embedded_settings).passwords()
    assert passwords is not None
    external = replace(
        embedded_settings,
        graph_url=graph_url(embedded_settings),
        graph_user="root",
        graph_password=passwords.graph,
    )
    with pytest.raises(InvalidSettings, match="GRAPH_READER_USER"), open_reader(external):
        pass
