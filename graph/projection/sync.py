"""The four things one does with the projection: bring it up to date, ask how far behind it
is, build it anew, and prove that it equals the record (:mod:`graph.projection.verify`)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import neo4j
from sqlalchemy import Connection, Engine, delete, insert, literal, select, text

from common.errors import ProjectError
from graph.engine import graph_errors, relational_errors
from graph.projection.outbox import REBUILD, drain, only_projector, project_once
from graph.projection.registry import PROJECTED
from graph.record.freshness import Lag, lag_of
from graph.tables import (
    OutboxEntry,
)

logger = logging.getLogger(__name__)

#: Called with the number of entries done and how many there are in all, as known by then.
Progress = Callable[[int, int], None]

#: Entries in a batch, which is what an interruption makes do again.
BATCH = 4_000
#: How long to wait for another projector to end, s.
WAIT_S = 600.0
#: Entries that somebody who waits for an answer may be made to wait for.
FEW = 50


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one run projected: entries of the outbox in all and by kind."""

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
) -> SyncReport:
    """Project what is pending; done at least once, and doing it twice changes nothing.

    :raises StoreUnavailable: if a store does not answer; what was done stays done
    """
    began = time.perf_counter()
    total: Counter[str] = Counter()
    with (
        relational_errors(),
        graph_errors(),
        only_projector(engine, wait_s) as connection,
        driver.session(database=database) as session,
    ):
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
    engine: Engine, driver: neo4j.Driver, *, most: int = FEW, database: str = "neo4j"
) -> bool:
    """Project what is pending if it is little and nobody else is at it, and never wait.

    For whoever has written a few rows and has an answer to give: the rows are safe, and what is
    left to do, the next :func:`sync` does.

    :returns: whether what was pending is projected
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
            project_once(connection, session, BATCH, lambda _kinds: None)
            return True
    except ProjectError as error:
        logger.info("graph_left_behind", extra={"cause": str(error)})
        return False


def lag(engine: Engine) -> Lag:
    """How far the graph is behind the record; the graph itself is not asked."""
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
    """Empty what the projection owns, and project the whole record again.

    Both are entries of the outbox. Interrupted anywhere, the next :func:`sync`, by whomever,
    goes on where this one ended.
    """
    with relational_errors(), engine.begin() as connection:
        _enqueue_everything(connection)
    return sync(engine, driver, batch=batch, progress=progress, database=database, wait_s=wait_s)


def _enqueue_everything(connection: Connection) -> None:
    # Waits for those who have written to the outbox and keeps out those who want to: an
    # entry committed later but numbered before the rebuild's would be emptied away.
    connection.execute(text("LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE"))
    connection.execute(delete(OutboxEntry))
    connection.execute(insert(OutboxEntry).values(kind=REBUILD, key=""))
    for kind, projected in PROJECTED.items():
        if projected.key is None:
            continue
        rows = select(literal(kind), projected.key)
        connection.execute(insert(OutboxEntry).from_select(["kind", "key"], rows))
