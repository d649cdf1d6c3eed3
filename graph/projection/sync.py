"""Operations on the projection: :func:`sync`, :func:`lag`, :func:`rebuild` and :func:`verify`.

The latter compares a count and a digest for every kind of node and edge. Both stores are streamed,
and each element is hashed into one of a fixed number of buckets. Memory does not grow with the
graph, and neither store has to sort. If buckets differ, both stores are read again to find the
differing keys in these buckets.
"""

import hashlib
import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import neo4j
import orjson
from sqlalchemy import Connection, Engine, delete, insert, literal, select, text

from graph.checkpoints import graph_checkpoint, rebuild_is_needed, record_checkpoint
from graph.engine import graph_errors, relational_errors
from graph.projection.kinds import EdgeKind, NodeKind, Row, plain, row_of
from graph.projection.outbox import (
    EDGES,
    NODES,
    PROJECTED,
    REBUILD,
    drain,
    only_projector,
    project_once,
)
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


ProjectedElement = NodeKind | EdgeKind

_BUCKETS = 4_096
_MODULUS = 1 << 128
#: Limit for reported differences of a kind, and for the buckets that are read again for them.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """A node or edge that differs.

    :param how: ``missing`` from the graph, ``extra`` in the graph, or ``different``
    :param properties: names of the differing properties
    """

    key: str
    how: str
    properties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindReport:
    """Result of comparing one kind of node or edge.

    :param differences: the first ten
    :param truncated: whether there are more
    """

    kind: str
    record_count: int
    graph_count: int
    record_digest: str
    graph_digest: str
    differences: tuple[ElementDifference, ...]
    truncated: bool

    @property
    def equal(self) -> bool:
        """Whether the graph agrees with the record."""
        return (self.record_count, self.record_digest) == (self.graph_count, self.graph_digest)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of comparing all kinds; ``pending`` entries of the outbox may cause differences.

    :param own_graph: whether the graph was projected from this record
    """

    kinds: tuple[KindReport, ...]
    pending: Lag
    own_graph: bool

    @property
    def equal(self) -> bool:
        """Whether the graph agrees with the record on every kind."""
        return self.own_graph and all(kind.equal for kind in self.kinds)


@dataclass(slots=True)
class _Fingerprint:
    """Count and digest of a multiset; the digest sums hashes, so the order does not matter."""

    count: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def add(self, kind: ProjectedElement, row: Row) -> None:
        element = hashlib.blake2b(orjson.dumps(row), digest_size=16).digest()
        bucket = _bucket(kind, row)
        self.buckets[bucket] = (self.buckets[bucket] + int.from_bytes(element)) % _MODULUS
        self.count += 1

    @property
    def digest(self) -> str:
        """128 bits, in hexadecimal digits."""
        return f"{sum(self.buckets) % _MODULUS:032x}"


def verify(
    engine: Engine,
    driver: neo4j.Driver,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    database: str = "neo4j",
    wait_s: float = WAIT_S,
) -> VerifyReport:
    """Compare the graph with the record, kind by kind, while no projector runs.

    :param progress: called with the current kind, the number of finished kinds and their total
    """
    kinds: tuple[ProjectedElement, ...] = (*NODES, *EDGES)
    reports = []
    with (
        relational_errors(),
        graph_errors(),
        only_projector(engine, wait_s),
        engine.connect().execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ) as record,
        driver.session(database=database, default_access_mode=neo4j.READ_ACCESS) as session,
    ):
        pending = lag_of(record)
        own_graph = record_checkpoint(record).agrees(graph_checkpoint(session))
        for number, kind in enumerate(kinds):
            if progress is not None:
                progress(kind.label, number, len(kinds))
            reports.append(_compare(kind, record, session))
    return VerifyReport(tuple(reports), pending, own_graph)


def _compare(kind: ProjectedElement, record: Connection, session: neo4j.Session) -> KindReport:
    expected = _fingerprint(kind, _record_rows(kind, record))
    actual = _fingerprint(kind, _graph_rows(kind, session))
    differing = [i for i in range(_BUCKETS) if expected.buckets[i] != actual.buckets[i]]
    suspects = set(differing[:_NAMED])
    differences = _differences(kind, record, session, suspects) if suspects else []
    return KindReport(
        kind=kind.label,
        record_count=expected.count,
        graph_count=actual.count,
        record_digest=expected.digest,
        graph_digest=actual.digest,
        differences=tuple(differences[:_NAMED]),
        truncated=len(differences) > _NAMED or len(differing) > _NAMED,
    )


def _fingerprint(kind: ProjectedElement, rows: Iterable[Row]) -> _Fingerprint:
    fingerprint = _Fingerprint()
    for row in rows:
        fingerprint.add(kind, row)
    return fingerprint


def _record_rows(kind: ProjectedElement, record: Connection) -> Iterator[Row]:
    with record.execute(kind.rows, execution_options={"yield_per": 2_000}) as rows:
        for values in rows:
            yield row_of(kind, values)


def _graph_rows(kind: ProjectedElement, session: neo4j.Session) -> Iterator[Row]:
    for record in session.run(kind.read):
        yield [plain(value) for value in record]


def _key(kind: ProjectedElement, row: Row) -> str:
    return f"{row[0]} -> {row[1]}" if isinstance(kind, EdgeKind) else str(row[0])


def _bucket(kind: ProjectedElement, row: Row) -> int:
    return zlib.crc32(_key(kind, row).encode()) % _BUCKETS


def _differences(
    kind: ProjectedElement, record: Connection, session: neo4j.Session, suspects: set[int]
) -> list[ElementDifference]:
    expected = _suspected(kind, _record_rows(kind, record), suspects)
    actual = _suspected(kind, _graph_rows(kind, session), suspects)
    keys = sorted(key for key in expected.keys() | actual if expected.get(key) != actual.get(key))
    return [_difference(kind, key, expected.get(key), actual.get(key)) for key in keys]


def _suspected(
    kind: ProjectedElement, rows: Iterable[Row], suspects: set[int]
) -> dict[str, list[Row]]:
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        if _bucket(kind, row) in suspects:
            by_key.setdefault(_key(kind, row), []).append(row)
    return {key: sorted(rows, key=repr) for key, rows in by_key.items()}


def _difference(
    kind: ProjectedElement, key: str, expected: list[Row] | None, actual: list[Row] | None
) -> ElementDifference:
    if expected is None or actual is None:
        return ElementDifference(key, "extra" if expected is None else "missing")
    if len(expected) != len(actual):
        return ElementDifference(key, "extra" if len(expected) < len(actual) else "missing")
    # Several edges may connect two nodes; only those that differ are compared.
    ours_alone = _without(expected, actual)
    theirs_alone = _without(actual, expected)
    names = {
        name
        for ours, theirs in zip(ours_alone, theirs_alone, strict=True)
        for name, a, b in zip(kind.properties, ours, theirs, strict=True)
        if a != b
    }
    return ElementDifference(key, "different", tuple(sorted(names)))


def _without(rows: list[Row], others: list[Row]) -> list[Row]:
    """Multiset difference of rows."""
    counts = Counter(map(repr, others))
    difference = []
    for row in rows:
        if counts[repr(row)]:
            counts[repr(row)] -= 1
        else:
            difference.append(row)
    return difference
