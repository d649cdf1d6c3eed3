"""Checkpoints, which show whether the graph was projected from this record.

Both stores hold the random name of the last batch that was projected. If PostgreSQL was restored
from a backup, or if the graph was emptied, restored or replaced, the names differ. The graph then
lacks nodes, or has nodes that the record does not have, although nothing is pending in the outbox.

Both stores are written before a batch and after it. Therefore the names agree after a crash at any
point, and a graph that lost its last transactions is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed

from graph.engine import driver_connection, graph_database
from model.errors import SchemaMismatch, StoreUnavailable

if TYPE_CHECKING:
    import neo4j
    import sqlalchemy

    from common.settings import Settings
    from graph.engine import Stores

#: The columns of :class:`RecordCheckpoint`.
RECORD_CHECKPOINT = "SELECT previous, batch FROM graph_checkpoints"

_BEGIN = "UPDATE graph_checkpoints SET previous = %(previous)s, batch = %(batch)s"
_FINISH = "UPDATE graph_checkpoints SET previous = batch"
_REBUILD_IS_PENDING = "SELECT EXISTS (SELECT FROM outbox WHERE kind = 'rebuild')"
#: Label of the node that holds the graph's checkpoint, and its properties.
CHECKPOINT_LABEL, CHECKPOINT_PROPERTIES = "ProjectionCheckpoint", ("name", "batch", "finished")
_GRAPH_CHECKPOINT = """
MATCH (node:ProjectionCheckpoint {name: 'last'})
RETURN node.batch AS batch, node.finished AS finished
"""
_SET_GRAPH_CHECKPOINT = """
MERGE (node:ProjectionCheckpoint {name: 'last'})
SET node.batch = $batch, node.finished = $finished
"""
#: Readings of both stores, if a projector works at the same time.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class GraphCheckpoint:
    """The last batch in the graph.

    :param batch: name of the batch; ``None`` if nothing was projected yet
    :param finished: whether the graph has the whole batch
    """

    batch: str | None = None
    finished: bool = True


@dataclass(frozen=True, slots=True)
class RecordCheckpoint:
    """The last batch in PostgreSQL.

    :param previous: the batch that the graph had before; equal to ``batch`` if ``batch`` is
        finished
    :param batch: the last batch that began; ``None`` if nothing was projected yet
    """

    previous: str | None
    batch: str | None

    @property
    def finished(self) -> bool:
        """Whether the graph has the whole batch."""
        return self.previous == self.batch

    def agrees(self, graph: GraphCheckpoint) -> bool:
        """Whether the graph has exactly the batches that this record has projected.

        >>> record = RecordCheckpoint(previous="a", batch="b")
        >>> record.agrees(GraphCheckpoint("a")), record.agrees(GraphCheckpoint("b", finished=False))
        (True, True)
        >>> record.agrees(GraphCheckpoint("c")), record.agrees(GraphCheckpoint())
        (False, False)
        """
        known = graph.batch in (self.previous, self.batch)
        return known and (graph.finished or not self.finished)


def record_checkpoint(connection: sqlalchemy.Connection) -> RecordCheckpoint:
    """The checkpoint of PostgreSQL."""
    return RecordCheckpoint(*connection.exec_driver_sql(RECORD_CHECKPOINT).one())


def graph_checkpoint(session: neo4j.Session) -> GraphCheckpoint:
    """The checkpoint of the graph."""
    row = session.run(_GRAPH_CHECKPOINT).single()
    return GraphCheckpoint() if row is None else GraphCheckpoint(row["batch"], row["finished"])


def _is_conflict(error: BaseException) -> bool:
    from neo4j.exceptions import ConstraintError  # loading the driver takes 0.1 s

    return isinstance(error, ConstraintError)


#: Decorator that runs a transaction again if another one created the same nodes meanwhile.
#: After PostgreSQL has released the lock of a killed projector, the graph may still commit the
#: projector's transaction.
retry_conflict = retry(
    retry=retry_if_exception(_is_conflict),
    stop=stop_after_attempt(5),
    wait=wait_fixed(0.1),
    reraise=True,
)


@contextmanager
def named_batch(
    engine: sqlalchemy.Engine, session: neo4j.Session, *, rebuild: bool
) -> Iterator[None]:
    """Give the batch that is projected in this block a name in both stores.

    Each batch gets a new name, also after an interrupted one. Otherwise, a backup that was made
    during the interruption would agree with everything that was projected after it.

    PostgreSQL is written in transactions of their own, because the batch may read the record in a
    transaction that must see one state.

    :param rebuild: the batch empties the graph, which may belong to another record until then
    """
    batch = uuid4().hex
    with engine.begin() as connection:
        last = record_checkpoint(connection)
        previous = last.previous
        if not last.finished:
            graph = graph_checkpoint(session)
            previous = graph.batch if last.agrees(graph) else previous
        connection.exec_driver_sql(_BEGIN, {"previous": previous, "batch": batch})
    if not rebuild:
        _set_graph_checkpoint(session, batch, finished=False)
    yield
    _set_graph_checkpoint(session, batch, finished=True)
    with engine.begin() as connection:
        connection.exec_driver_sql(_FINISH)


@retry_conflict
def _set_graph_checkpoint(session: neo4j.Session, batch: str, *, finished: bool) -> None:
    session.execute_write(
        lambda tx: tx.run(_SET_GRAPH_CHECKPOINT, batch=batch, finished=finished).consume()
    )


def rebuild_is_needed(connection: sqlalchemy.Connection, session: neo4j.Session) -> bool:
    """Whether the graph belongs to another state of the record, and no rebuild is pending.

    The caller is the only projector.
    """
    agrees = record_checkpoint(connection).agrees(graph_checkpoint(session))
    needed = not agrees and not connection.exec_driver_sql(_REBUILD_IS_PENDING).scalar()
    connection.rollback()
    return needed


def stores_agree(stores: Stores) -> bool:
    """Whether the graph was projected from the record; a projector may run at the same time."""
    with (
        stores.engine.connect() as connection,
        stores.driver.session(database=stores.database) as session,
    ):
        return _agree(lambda: record_checkpoint(connection), session)


def is_own_graph(settings: Settings, driver: neo4j.Driver) -> bool | None:
    """As :func:`stores_agree`, without SQLAlchemy; ``None`` if PostgreSQL does not know."""
    try:
        with (
            suppress(SchemaMismatch),  # nothing was recorded yet
            driver_connection(settings) as record,
            driver.session(database=graph_database(settings)) as session,
        ):
            return _agree(lambda: RecordCheckpoint(*record.row(RECORD_CHECKPOINT)), session)
    except StoreUnavailable:
        return None
    return True


def _agree(read_record: Callable[[], RecordCheckpoint], session: neo4j.Session) -> bool:
    for _ in range(_ATTEMPTS):
        before = read_record()
        if before.agrees(graph_checkpoint(session)):
            return True
        if read_record() == before:
            return False
    # A projector finished a batch during each attempt, after it had compared the checkpoints.
    return True
