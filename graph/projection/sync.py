"""Brings the graph up to date with the record: :func:`sync`, and :func:`rebuild` from nothing."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import neo4j
from sqlalchemy import Connection, Engine, delete, insert, literal, select, text

from graph.checkpoints import rebuild_is_needed
from graph.engine import graph_errors, relational_errors
from graph.projection.outbox import PROJECTED, REBUILD, drain, only_projector, project_once
from graph.record.freshness import FEW_ENTRIES, Lag, lag_of
from graph.tables import OutboxEntry
from model.errors import GraphMismatch, ProjectError

logger = logging.getLogger(__name__)

#: Called with the number of projected entries and the total that is known so far.
Progress = Callable[[int, int], None]

#: Entries in a batch; an interruption repeats at most one batch.
BATCH = 4_000
#: Entries in a batch of :func:`catch_up`, which checks the time after each.
SHORT_BATCH = 1_000
#: Time to wait for another projector, in seconds.
WAIT_S = 600.0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many entries a run projected, in total and by kind."""

    entries: int
    by_kind: dict[str, int]
    elapsed_s: float


def sync(
    engine: Engine,
    driver: neo4j.Driver,
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
    database: str = "neo4j",
    wait_s: float = WAIT_S,
    may_rebuild: bool = False,
) -> SyncReport:
    """Project all pending entries; a second call changes nothing.

    :param wait_s: how long to wait for another projector
    :param may_rebuild: rebuild a graph that was not projected from this record, as
        ``GRAPH_REBUILD`` says
    :raises GraphMismatch: if there is such a graph, and it may not be rebuilt
    :raises StoreUnavailable: if a store does not answer; committed batches are kept
    :raises ProjectionFailed: if the graph refuses entries; all others are projected
    """
    began = time.perf_counter()
    total: Counter[str] = Counter()
    with (
        relational_errors(),
        graph_errors(),
        only_projector(engine, wait_s) as connection,
        driver.session(database=database) as session,
    ):
        _require_own_graph(connection, session, may_rebuild=may_rebuild)
        pending = lag_of(connection).count
        connection.rollback()

        def done(kinds: Counter[str]) -> None:
            total.update(kinds)
            if progress is not None:
                progress(total.total(), max(pending, total.total()))

        drain(connection, session, batch, done)
    elapsed_s = time.perf_counter() - began
    report = SyncReport(total.total(), dict(sorted(total.items())), elapsed_s)
    logger.info("graph_synced", extra={"entries": report.entries, "elapsed_s": round(elapsed_s, 3)})
    return report


def sync_few(
    engine: Engine, driver: neo4j.Driver, *, most: int = FEW_ENTRIES, database: str = "neo4j"
) -> bool:
    """Project pending entries if there are few and no other projector runs; never waits.

    Use this after writing a few rows inside a request. The next :func:`sync` projects the entries
    that are left.

    :param most: limit on pending entries
    :returns: whether the pending entries were projected
    """
    try:
        with (
            relational_errors(),
            graph_errors(),
            only_projector(engine, 0.0) as connection,
            driver.session(database=database) as session,
        ):
            if lag_of(connection).count > most:
                return False
            connection.rollback()
            _require_own_graph(connection, session, may_rebuild=False)
            project_once(connection, session, BATCH, lambda _kinds: None)
            return True
    except ProjectError as error:
        logger.info("graph_left_behind", extra={"cause": str(error)})
        return False


def _require_own_graph(
    connection: Connection, session: neo4j.Session, *, may_rebuild: bool
) -> None:
    """Enqueue a rebuild if the graph was not projected from this record; the caller holds the lock.

    :raises GraphMismatch: if no rebuild is allowed
    """
    if not rebuild_is_needed(connection, session):
        return
    if not may_rebuild:
        raise GraphMismatch
    logger.warning("graph_rebuilt", extra={"cause": str(GraphMismatch())})
    enqueue_everything(connection)
    connection.commit()


class _TimeIsUp(Exception):
    """Ends a projection after a committed batch."""


def catch_up(
    engine: Engine,
    driver: neo4j.Driver,
    *,
    within_s: float,
    progress: Progress,
    batch: int = SHORT_BATCH,
    database: str = "neo4j",
) -> Lag:
    """Project pending entries for a limited time, before a command reads the graph.

    Waits for another projector. A failure of that projector or of the graph is logged; the
    returned lag shows how much is left.

    :param within_s: after this time no further batch begins
    :returns: the lag afterwards
    """
    deadline = time.monotonic() + within_s

    def advance(done: int, total: int) -> None:
        progress(done, total)
        if time.monotonic() > deadline:
            raise _TimeIsUp

    try:
        sync(engine, driver, batch=batch, progress=advance, database=database, wait_s=within_s)
    except _TimeIsUp:
        pass
    except ProjectError as error:
        logger.warning("graph_left_behind", extra={"cause": str(error)})
    return lag(engine)


def lag(engine: Engine) -> Lag:
    """How far the graph is behind the record; queries PostgreSQL only."""
    with relational_errors(), engine.connect() as connection:
        return lag_of(connection)


def rebuild(
    engine: Engine,
    driver: neo4j.Driver,
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
    database: str = "neo4j",
    wait_s: float = WAIT_S,
) -> SyncReport:
    """Delete everything that the projection owns, then project the whole record again.

    Both steps are entries of the outbox, so after an interruption the next :func:`sync` continues.
    """
    with relational_errors(), engine.begin() as connection:
        enqueue_everything(connection)
    return sync(engine, driver, batch=batch, progress=progress, database=database, wait_s=wait_s)


def enqueue_everything(connection: Connection) -> None:
    """Replace the outbox by entries that build the whole graph; the caller owns the transaction."""
    # Waits for writers of the outbox and blocks new ones: an entry that is committed later but
    # has a lower number than the rebuild would be lost.
    connection.execute(text("LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE"))
    connection.execute(delete(OutboxEntry))
    connection.execute(insert(OutboxEntry).values(kind=REBUILD, key=""))
    for kind, projected in PROJECTED.items():
        if projected.key is None:
            continue
        rows = select(literal(kind), projected.key)
        if projected.rows is not None:
            rows = rows.where(projected.rows)
        connection.execute(insert(OutboxEntry).from_select(["kind", "key"], rows))
