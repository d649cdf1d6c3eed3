"""Stores without a schema."""

from collections.abc import Iterator
from dataclasses import replace

import neo4j
import pytest
import sqlalchemy
from sqlalchemy import text

from common.settings import Settings
from graph.engine import Stores, graph_database, relational_engine


@pytest.fixture
def empty(
    postgresql: sqlalchemy.Engine, settings: Settings, embedded_graph: neo4j.Driver
) -> Iterator[Stores]:
    """Stores without a schema; the graph's steps are put back afterwards."""
    name = "thoth_without_schema"
    with postgresql.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = sqlalchemy.make_url(settings.database_url or "").set(database=name)
    own = replace(settings, database_url=url.render_as_string(hide_password=False))
    engine = relational_engine(own)
    database = graph_database(settings)
    kept = replace_steps(embedded_graph, database, [])
    yield Stores(own, engine, embedded_graph)
    with embedded_graph.session(database=database) as session:
        session.run("DROP CONSTRAINT probe_key IF EXISTS").consume()
        session.run("DROP INDEX probe_name IF EXISTS").consume()
    replace_steps(embedded_graph, database, kept)
    engine.dispose()
    with postgresql.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def replace_steps(
    driver: neo4j.Driver, database: str, steps: list[dict[str, object]]
) -> list[dict[str, object]]:
    with driver.session(database=database) as session:
        found = session.run("MATCH (s:SchemaMigration) RETURN properties(s) AS step")
        before = [record["step"] for record in found]
        session.run("MATCH (s:SchemaMigration) DELETE s").consume()
        for step in steps:
            session.run("CREATE (s:SchemaMigration) SET s = $step", step=step).consume()
    return before
