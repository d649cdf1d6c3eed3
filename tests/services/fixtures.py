"""Fixtures that give both graph products, for ``tests/integration/conftest.py`` to import."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import neo4j
import pytest
import sqlalchemy

from common.settings import Settings
from graph.engine import Stores, graph_database, relational_engine
from graph.engine import graph_driver as connect
from graph.migrate import migrate_graph
from tests.services.databases import new_database
from tests.services.neo4j.server import Neo4jMissing, Neo4jServer, neo4j_server

PRODUCTS = ("arcadedb", "neo4j")

#: For what does not depend on the product.
embedded_only = pytest.mark.parametrize("graph_settings", ["arcadedb"], indirect=True)

#: The records of the schema's steps stay, as the constraints themselves do.
EMPTY = "MATCH (node) WHERE NOT node:SchemaMigration DETACH DELETE node"


@pytest.fixture(scope="session")
def neo4j_for_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """The run's one Neo4j; without it a skip, and on CI a failure."""
    folder: Path = tmp_path_factory.mktemp("neo4j")
    try:
        with neo4j_server(folder) as server:
            yield server
    except Neo4jMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session", params=PRODUCTS)
def graph_settings(request: pytest.FixtureRequest) -> Settings:
    """Settings whose graph is each product in turn; PostgreSQL is the embedded one."""
    return settings_of_product(request)


def settings_of_product(request: pytest.FixtureRequest) -> Settings:
    """Settings of the product that is the parameter of a fixture."""
    settings: Settings = request.getfixturevalue("embedded_settings")
    if request.param == "arcadedb":
        return settings
    server: Neo4jServer = request.getfixturevalue("neo4j_for_tests")
    return replace(
        settings,
        graph_url=server.url,
        graph_user=server.user,
        graph_password=server.password,
        graph_database="neo4j",
        graph_reader_user=None,
        graph_reader_password=None,
    )


@pytest.fixture
def graph_driver(graph_settings: Settings) -> Iterator[neo4j.Driver]:
    """A driver that may write, on a graph with the schema and nothing else."""
    with connect(graph_settings) as driver:
        empty(driver, graph_database(graph_settings))
        migrate_graph(driver, graph_database(graph_settings))
        yield driver


@pytest.fixture
def stores_on_each_product(
    settings: Settings,
    relational: sqlalchemy.Engine,
    graph_settings: Settings,
    graph_driver: neo4j.Driver,
) -> Stores:
    """A test's own record, and each graph product in turn."""
    both = replace(graph_settings, database_url=settings.database_url)
    return Stores(both, relational, graph_driver)


@pytest.fixture(scope="module")
def shared_stores(postgresql: sqlalchemy.Engine, embedded_settings: Settings) -> Iterator[Stores]:
    """Both stores, migrated and empty, for all tests of a module; none may ask for ``graph``."""
    with stores_of_module(postgresql, embedded_settings) as stores:
        yield stores


@contextmanager
def stores_of_module(owner: sqlalchemy.Engine, of_graph: Settings) -> Iterator[Stores]:
    """A new database beside the emptied graph of these settings."""
    with new_database(owner, of_graph) as settings, connect(settings) as driver:
        empty(driver, graph_database(settings))
        migrate_graph(driver, graph_database(settings))
        engine = relational_engine(settings)
        yield Stores(settings, engine, driver)
        engine.dispose()


def empty(driver: neo4j.Driver, database: str) -> None:
    """Delete every node but the schema's steps."""
    with driver.session(database=database) as session:
        session.run(EMPTY).consume()
