"""Real stores for every test that asks for one: embedded, started once a test run.

``relational``, ``graph``, ``settings`` and ``stores`` are new for each test: a database
copied from a migrated template, and a graph emptied of everything but its schema.

With several workers (`-n`), each has stores of its own; only one has a Neo4j.
"""

import gc
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import neo4j
import pytest
import sqlalchemy
from sqlalchemy import text
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import Stores, graph_database, graph_driver, relational_engine
from graph.migrate import migrate_graph, migrate_relational
from tests.effort import examples, set_effort
from tests.requirements import INSTALLED_ON_CI, hide_programs, missing, needs
from tests.services import stacks
from tests.services.databases import TEMPLATE, ReusedDatabases, with_database
from tests.services.stacks import measures

#: Programs for environments of their own, whose libraries are not installed here.
collect_ignore = ["services/loadgen_runner.py", "services/training_scores.py"]
#: What the tests write need not outlive the machine. Measured on a busy disk: making and dropping
#: a database takes 0.1 s instead of 2.2 s.
_CARELESS = ("fsync", "full_page_writes")

# A worker's readline says that its pipe is 80 columns wide, and commands would believe it.
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

# Commands of the tests measure beside each other, and would wait for a quiet machine.
os.environ.setdefault("LOOP_BUSY_SHARE", "1")

# `nohup` and shell scripts start background jobs with these signals ignored, and an ignored signal
# stays ignored in every program that a test starts. A handler, by contrast, is not inherited.
for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, lambda *_: None)

#: Modules that ask one running service.
_SERVICE = "tests/e2e/service/"

# How long an example takes says how busy the machine is, and nothing of the code.
_UNTIMED = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="try a quarter of the examples of a property; install PyTorch and TensorFlow, too",
    )
    parser.addoption("--all-examples", action="store_true", help="try all examples of a property")
    parser.addoption(
        "--without-programs",
        action="store_true",
        help="hide bubblewrap, Java and other optional programs, and run the modules that name one",
    )


def pytest_configure(config: pytest.Config) -> None:
    set_effort(
        thorough=config.getoption("thorough", False),
        all_examples=config.getoption("all_examples", False),
    )
    hypothesis.settings.register_profile(
        "untimed", _UNTIMED, max_examples=examples(_UNTIMED.max_examples)
    )
    hypothesis.settings.load_profile("untimed")
    if config.getoption("without_programs", False):
        folder = tempfile.TemporaryDirectory(prefix="thoth-programs-")
        config.add_cleanup(folder.cleanup)
        hide_programs(Path(folder.name))


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("without_programs", False):
        affected = {item.path for item in items if item.get_closest_marker(needs().name)}
        config.hook.pytest_deselected(items=[it for it in items if it.path not in affected])
        items[:] = [it for it in items if it.path in affected]
    for item in items:
        if _callspec(item).get("graph_settings") == "neo4j":
            item.add_marker(needs("neo4j"))
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers(measures().name):
        for reason in filter(None, map(stacks.missing, mark.args)):
            pytest.skip(reason)
    for program in itertools.chain(*(it.args for it in item.iter_markers(needs().name))):
        if reason := missing(program):
            if os.environ.get("CI") and program in INSTALLED_ON_CI:
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


def _callspec(item: pytest.Item) -> dict[str, Any]:
    """Parameters of a test, by name."""
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


class _SharedStarts(LoadScopeScheduling):
    """A worker gets a module at a time; one gets all that shares something slow to start."""

    def _split_scope(self, nodeid: str) -> str:
        if re.search(r"[\[-]neo4j[]-]", nodeid):
            return "neo4j"
        module = nodeid.partition("::")[0]
        return _SERVICE if module.startswith(_SERVICE) else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # What is slow comes first as the tests are collected: a worker does not end on it alone.
    config.option.loadscopereorder = False
    return _SharedStarts(config, log)


@pytest.fixture(scope="session")
def embedded_settings() -> Iterator[Settings]:
    """Both embedded stores, running in a home of their own; nothing is migrated."""
    home = Path(tempfile.mkdtemp(prefix="thoth-tests-"))
    settings = Settings.from_env({"THOTH_HOME": str(home), "INDEX_CACHE": str(home / "cache")})
    stores = EmbeddedStores(settings)
    try:
        stores.start()
        yield settings
    finally:
        stores.stop()
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def postgresql(embedded_settings: Settings) -> Iterator[sqlalchemy.Engine]:
    """PostgreSQL as its owner, outside transactions, with the migrated template in it."""
    owner = relational_engine(embedded_settings).execution_options(isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        for parameter in _CARELESS:
            connection.execute(text(f"ALTER SYSTEM SET {parameter} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
        connection.execute(text(f"CREATE DATABASE {TEMPLATE}"))
    template = relational_engine(with_database(embedded_settings, TEMPLATE))
    migrate_relational(template)
    template.dispose()  # a template with a connection to it cannot be copied
    yield owner
    owner.dispose()


@pytest.fixture(scope="session")
def reused_databases(postgresql: sqlalchemy.Engine, embedded_settings: Settings) -> ReusedDatabases:
    """Databases that tests use one after the other."""
    return ReusedDatabases(postgresql, embedded_settings)


@pytest.fixture
def database_url(reused_databases: ReusedDatabases) -> Iterator[str]:
    """A migrated database that no other test sees, with its password in the URL."""
    with reused_databases.lend() as settings:
        yield settings.database_url or ""


@pytest.fixture
def settings(
    embedded_settings: Settings, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """Settings for a test's own database, documents and index cache, and the run's graph."""
    own = tmp_path_factory.mktemp("own")
    return replace(
        embedded_settings,
        database_url=database_url,
        document_store_url=(own / "documents").as_uri(),
        index_cache=own / "cache",
    )


@pytest.fixture
def relational(settings: Settings) -> Iterator[sqlalchemy.Engine]:
    """A migrated PostgreSQL without rows."""
    engine = relational_engine(settings)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def embedded_graph(embedded_settings: Settings) -> Iterator[neo4j.Driver]:
    """The embedded graph, migrated; whatever the last test left is still in it."""
    with graph_driver(embedded_settings) as driver:
        migrate_graph(driver, graph_database(embedded_settings))
        yield driver


@pytest.fixture
def graph(embedded_graph: neo4j.Driver, embedded_settings: Settings) -> neo4j.Driver:
    """A migrated graph without other nodes than those of its schema."""
    empty_graph(embedded_graph, graph_database(embedded_settings))
    return embedded_graph


@pytest.fixture
def stores(settings: Settings, relational: sqlalchemy.Engine, graph: neo4j.Driver) -> Stores:
    """Both stores, migrated and empty."""
    return Stores(settings, relational, graph)


def empty_graph(driver: neo4j.Driver, database: str) -> None:
    """Delete all nodes but the records of the schema's steps."""
    with driver.session(database=database) as session:
        session.run("MATCH (n) WHERE NOT n:SchemaMigration DETACH DELETE n").consume()
