"""Laws of the projection: how and how often it is done leaves no trace in the graph."""

import random

import neo4j
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, text

from graph.engine import Stores
from graph.projection import KindReport, rebuild, sync, verify
from graph.projection.outbox import NODES
from graph.tables import Base, GraphCheckpointRow, OutboxEntry, table_of
from tests.effort import examples
from tests.factories.rows import Rows, entries_of, inspection_rows, store

records = st.builds(
    inspection_rows,
    st.integers(0, 25),
    seed=st.integers(0, 10**6),
    stacks=st.integers(0, 4),
    packages=st.integers(0, 8),
    machines=st.integers(1, 3),
)
FEW = settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class World:
    """Both stores, emptied for each example."""

    def __init__(self, stores: Stores) -> None:
        self.engine: sqlalchemy.Engine = stores.engine
        self.driver: neo4j.Driver = stores.driver
        self.database = stores.database

    def begin(self, rows: Rows, order: random.Random | None = None) -> None:
        # Only the nodes of the model are deleted, so the stores still agree.
        tables = ", ".join(Base.metadata.tables.keys() - {table_of(GraphCheckpointRow).name})
        with self.engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {tables} CASCADE"))
        self.clear()
        entries = entries_of(rows)
        if order is not None:
            order.shuffle(entries)
        store(self.engine, rows, entries)

    def clear(self) -> None:
        with self.driver.session(database=self.database) as session:
            for node in NODES:
                session.run(f"MATCH (n:{node.label}) DETACH DELETE n").consume()

    def sync(self, batch: int) -> None:
        sync(self.engine, self.driver, batch=batch, database=self.database)

    def enqueue(self, rows: Rows) -> None:
        entries = entries_of(rows)
        if entries:
            with self.engine.begin() as connection:
                connection.execute(insert(OutboxEntry), entries)

    def kinds(self) -> tuple[KindReport, ...]:
        report = verify(self.engine, self.driver, database=self.database)
        assert report.equal, [kind for kind in report.kinds if not kind.equal]
        return report.kinds


@pytest.fixture
def world(stores: Stores) -> World:
    return World(stores)


@FEW
@given(records, st.integers(1, 50), st.integers(1, 50))
def test_repeated_projection_in_any_batches_does_not_change_the_graph(
    world: World, rows: Rows, first: int, second: int
) -> None:
    world.begin(rows)
    world.sync(first)
    once = world.kinds()
    world.enqueue(rows)
    world.sync(second)
    assert world.kinds() == once


@FEW
@given(records, st.randoms(use_true_random=False))
def test_graph_does_not_depend_on_the_order_of_rows(
    world: World, rows: Rows, order: random.Random
) -> None:
    world.begin(rows)
    world.sync(1_000)
    once = world.kinds()
    world.begin(rows, order)
    world.sync(4)
    assert world.kinds() == once


@FEW
@given(records)
def test_graph_rebuilt_from_nothing_equals_the_projected_graph(world: World, rows: Rows) -> None:
    world.begin(rows)
    world.sync(1_000)
    once = world.kinds()
    rebuild(world.engine, world.driver, batch=3, database=world.database)
    assert world.kinds() == once


CHANGES = (
    "UPDATE package_versions SET yanked = NOT yanked, yanked_reason = {reason}, wheels = '{{}}'"
    " WHERE hashtext(purl || '{salt}') % 3 = 0",
    "UPDATE packages SET revision = 'sha256:{salt}' WHERE hashtext(name || '{salt}') % 2 = 0",
    "UPDATE requirements SET specifier = '>=7', marker = NULL"
    " WHERE hashtext(purl || position || '{salt}') % 2 = 0",
    "DELETE FROM requirements WHERE hashtext(purl || position || '{salt}') % 3 = 1",
    "DELETE FROM affected_versions WHERE hashtext(purl || '{salt}') % 2 = 0",
    "UPDATE vulnerabilities SET score = 9.5, severity = NULL, modified_at = now()",
    "DELETE FROM vulnerabilities WHERE NOT EXISTS"
    " (SELECT FROM affected_versions WHERE vulnerability_id = vulnerabilities.vulnerability_id)",
    "DELETE FROM artifact_interfaces WHERE hashtext(interface || '{salt}') % 2 = 0",
    "UPDATE native_environments SET name = 'other'",
)


@FEW
@given(records, st.sets(st.sampled_from(CHANGES), min_size=1), st.integers(0, 99), st.booleans())
def test_graph_follows_every_change_of_the_record(
    world: World, rows: Rows, changes: set[str], salt: int, reason: bool
) -> None:
    world.begin(rows)
    world.sync(1_000)
    with world.engine.begin() as connection:
        for change in sorted(changes):
            said = change.format(salt=salt, reason="'broken'" if reason else "NULL")
            connection.execute(text(said))
    world.enqueue(rows)
    world.sync(7)
    followed = world.kinds()
    rebuild(world.engine, world.driver, database=world.database)
    assert world.kinds() == followed
