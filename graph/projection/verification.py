"""Compares the graph with the record; entry point :func:`verify`.

For every kind of node and edge, a count and a digest are compared. Both stores are streamed, and
each element is hashed into one of a fixed number of buckets. Memory does not grow with the graph,
and neither store has to sort. If buckets differ, both stores are read again to find the differing
keys in these buckets.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import neo4j
import orjson
from sqlalchemy import Connection, Engine

from graph.checkpoints import graph_checkpoint, record_checkpoint
from graph.engine import graph_errors, relational_errors
from graph.projection.kinds import EdgeKind, NodeKind, Row, plain, row_of
from graph.projection.outbox import EDGES, NODES, only_projector
from graph.projection.sync import WAIT_S
from graph.record.freshness import Lag, lag_of

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
