"""Proof that the graph equals the record: a count and a digest for every kind.

Both sides are streamed and hashed element by element into a fixed number of buckets, so
memory does not grow with the graph, and neither side has to sort. Where a bucket differs,
it alone is read again, and the keys in it that differ are named.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import neo4j
import orjson
from sqlalchemy import Connection, Engine

from graph.engine import graph_errors, relational_errors
from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    Row,
    plain,
    row_of,
)
from graph.projection.outbox import only_projector
from graph.projection.registry import EDGES, NODES
from graph.projection.sync import WAIT_S
from graph.record.freshness import Lag, lag_of

ProjectedElement = NodeKind | EdgeKind

_BUCKETS = 4_096
_MODULUS = 1 << 128
#: Differences named for one kind, and buckets read again for it.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """One element that differs.

    :param how: ``missing`` from the graph, ``extra`` in it, or ``different``
    :param properties: which ones differ
    """

    key: str
    how: str
    properties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindReport:
    """One kind on both sides.

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
        """Whether both sides agree."""
        return (self.record_count, self.record_digest) == (self.graph_count, self.graph_digest)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All kinds; ``pending`` entries of the outbox explain a graph that is behind."""

    kinds: tuple[KindReport, ...]
    pending: Lag

    @property
    def equal(self) -> bool:
        """Whether both sides agree on every kind."""
        return all(kind.equal for kind in self.kinds)


@dataclass(slots=True)
class _Fingerprint:
    """Count and digest of a multiset: sums of hashes, which do not depend on the order."""

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
    """Compare both sides kind by kind, while no projector is at work.

    :param progress: told the kind in hand, how many are done, and how many there are
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
        for number, kind in enumerate(kinds):
            if progress is not None:
                progress(kind.label, number, len(kinds))
            reports.append(_compare(kind, record, session))
    return VerifyReport(tuple(reports), pending)


def _compare(kind: ProjectedElement, record: Connection, session: neo4j.Session) -> KindReport:
    expected = _fingerprint(kind, _record_rows(kind, record))
    found = _fingerprint(kind, _graph_rows(kind, session))
    differing = [i for i in range(_BUCKETS) if expected.buckets[i] != found.buckets[i]]
    suspects = set(differing[:_NAMED])
    differences = _differences(kind, record, session, suspects) if suspects else []
    return KindReport(
        kind=kind.label,
        record_count=expected.count,
        graph_count=found.count,
        record_digest=expected.digest,
        graph_digest=found.digest,
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
    found = _suspected(kind, _graph_rows(kind, session), suspects)
    keys = sorted(key for key in expected.keys() | found if expected.get(key) != found.get(key))
    return [_difference(kind, key, expected.get(key), found.get(key)) for key in keys]


def _suspected(
    kind: ProjectedElement, rows: Iterable[Row], suspects: set[int]
) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if _bucket(kind, row) in suspects:
            found.setdefault(_key(kind, row), []).append(row)
    return {key: sorted(rows, key=repr) for key, rows in found.items()}


def _difference(
    kind: ProjectedElement, key: str, expected: list[Row] | None, found: list[Row] | None
) -> ElementDifference:
    if expected is None or found is None:
        return ElementDifference(key, "extra" if expected is None else "missing")
    if len(expected) != len(found):
        return ElementDifference(key, "extra" if len(expected) < len(found) else "missing")
    # Of several edges between two nodes most may well agree.
    ours_alone = _without(expected, found)
    theirs_alone = _without(found, expected)
    names = {
        name
        for ours, theirs in zip(ours_alone, theirs_alone, strict=True)
        for name, a, b in zip(kind.properties, ours, theirs, strict=True)
        if a != b
    }
    return ElementDifference(key, "different", tuple(sorted(names)))


def _without(some: list[Row], others: list[Row]) -> list[Row]:
    """Rows of ``some`` that ``others`` does not have, as often as it lacks them."""
    left = Counter(map(repr, others))
    alone = []
    for row in some:
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            alone.append(row)
    return alone
