"""Projects the outbox, whose entries are changes of the record that the graph lacks.

:data:`PROJECTED` lists the kinds of entries, :data:`NODES` and :data:`EDGES` what is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import neo4j
from neo4j.exceptions import ClientError, DatabaseError, Neo4jError
from sqlalchemy import ColumnElement, Connection, Engine, func, select, text
from sqlalchemy.exc import DBAPIError

from graph.checkpoints import named_batch, retry_conflict
from graph.projection import advice, benchmarks, inspections, packages
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.packages import invalidate_all_revisions
from graph.projection.upsert import ImmutableNode, MutableNode, create_missing, upsert
from graph.record.postgresql_helpers import AdvisoryLock, session_lock
from graph.tables import OutboxEntry
from model.errors import ProjectionFailed, SchemaMismatch, StoreUnavailable

#: Kind of the entry that empties the projection.
REBUILD = "rebuild"

_DELETE = text("DELETE FROM outbox WHERE entry_id = ANY(:ids)")
_SERIALIZATION_FAILURE = "40001"
#: Enqueue the packages whose revision was invalidated while their versions were written.
_ENQUEUE_INVALIDATED_PACKAGES = text(
    """
    INSERT INTO outbox (kind, key)
    SELECT 'package', name FROM (
        SELECT name FROM package_versions WHERE purl = ANY(:purls)
        UNION
        SELECT name FROM affected_versions JOIN package_versions USING (purl)
        WHERE vulnerability_id = ANY(:vulnerabilities)
    ) AS written
    WHERE NOT EXISTS (SELECT FROM outbox WHERE kind = 'package' AND key = name)
    ORDER BY name
    """
)
#: Pending packages without pending versions or vulnerabilities.
_COMPLETE_PACKAGES = text(
    """
    SELECT entry_id, kind, key FROM outbox
    WHERE kind = 'package' AND entry_id <> ALL(:refused)
      AND key NOT IN (
        SELECT name FROM outbox JOIN package_versions ON purl = key
        WHERE kind = 'package_version'
        UNION ALL
        SELECT name FROM outbox JOIN affected_versions ON vulnerability_id = key
        JOIN package_versions USING (purl)
        WHERE kind = 'vulnerability'
      )
      AND NOT EXISTS (SELECT FROM outbox WHERE kind = 'rebuild')
    ORDER BY entry_id LIMIT :batch
    """
)
_REPEATABLE_READ = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
_PACKAGE = "package"
#: Nodes deleted in one transaction. On ArcadeDB deleting takes as long as creating, about 60 µs of
#: CPU time for each edge. Batches of 200 or 10,000 nodes, deleting edges first, newest nodes first,
#: or the nodes with the most edges first were all slower or equal.
_DELETED = 2_000


@dataclass(frozen=True, slots=True)
class _Entry:
    entry_id: int
    kind: str
    key: str


@contextmanager
def only_projector(engine: Engine, wait_s: float) -> Iterator[Connection]:
    """A connection that holds the projection lock, so that only one projector runs at a time.

    PostgreSQL releases the lock with the connection, even if the process is killed. Correctness
    does not depend on the lock, because keys are unique in the graph.

    :raises StoreUnavailable: if another projector still runs after ``wait_s``
    """
    with session_lock(engine, AdvisoryLock.PROJECTION, wait_s) as connection:
        if connection is None:
            cause = f"another process projects into it, after a wait of {wait_s:.0f} s"
            hint = "wait for it to end, then try again"
            raise StoreUnavailable("the graph", cause, hint, transient=True)
        yield connection


def drain(
    connection: Connection, session: neo4j.Session, batch: int, done: Callable[[Counter[str]], None]
) -> None:
    """Project until nothing is pending.

    If the process is killed, the graph contains only whole transactions, but their entries may
    still be in the outbox. The next run finds the nodes and deletes the entries.

    :param done: called with the number of entries by kind after each committed batch
    """
    work = _Pass(connection, session, batch, done, {})
    while work.run():
        pass
    _raise_refusals(work)


def project_once(
    connection: Connection, session: neo4j.Session, batch: int, done: Callable[[Counter[str]], None]
) -> None:
    """Project the entries that are pending now; unlike :func:`drain`, ignore later entries."""
    work = _Pass(connection, session, batch, done, {})
    work.run()
    _raise_refusals(work)


def _raise_refusals(work: _Pass) -> None:
    if work.refused:
        first = next(iter(work.refused.values()))
        raise ProjectionFailed(
            [f"{entry.kind} {entry.key}" for entry in work.refused],
            (first.message or str(first)).splitlines()[0],
        )


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the outbox; repeated as long as it finds entries.

    A pass may miss entries of transactions that commit late, because such entries have lower
    numbers than entries that were already read.

    Each batch reads one state of the record. Otherwise, an update between two queries could give a
    version new requirements beside old properties, and readers would see both until the next batch.

    :param refused: entries that the graph refuses, with the error; they stay in the outbox
    """

    connection: Connection
    session: neo4j.Session
    batch: int
    done: Callable[[Counter[str]], None]
    refused: dict[_Entry, Neo4jError]

    def run(self) -> bool:
        """Project the entries pending now, then packages; return whether anything was pending.

        Entries that are written meanwhile wait for the next pass; otherwise steady writers would
        keep packages waiting for ever. Each query starts after the last entry read, because
        the beginning of the outbox is full of dead rows.
        """
        last, end = 0, self.connection.scalar(select(func.max(OutboxEntry.entry_id))) or 0
        worked = False
        try:
            while entries := self._next(last, end):
                self._project(entries)
                last, worked = entries[-1].entry_id, True
            while entries := self._complete_packages():
                self._project(entries)
                worked = True
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) != _SERIALIZATION_FAILURE:
                raise
            # Another transaction deleted entries: a rebuild, which is pending now.
            worked = True
        self.connection.rollback()
        return worked

    def _next(self, last: int, end: int) -> list[_Entry]:
        """The next batch of entries in order, without packages; a rebuild is a separate batch."""
        self._begin()
        query = (
            select(OutboxEntry.entry_id, OutboxEntry.kind, OutboxEntry.key)
            .where(
                OutboxEntry.entry_id.between(last + 1, end),
                OutboxEntry.kind != _PACKAGE,
                OutboxEntry.entry_id.not_in(self._refused_ids()),
            )
            .order_by(OutboxEntry.entry_id)
            .limit(self.batch)
        )
        entries = [_Entry(*row) for row in self.connection.execute(query)]
        places = [place for place, entry in enumerate(entries) if entry.kind == REBUILD]
        return entries[: max(1, places[0])] if places else entries

    def _complete_packages(self) -> list[_Entry]:
        """Pending packages whose versions are all in the graph.

        A revision must be written after the versions that it covers. Otherwise, a snapshot that was
        read between the two writes would count as current for ever. The transaction sees one state
        of the record. So either a version is still pending, or the revision covers exactly the
        projected versions. If the graph refuses a version, its package stays pending too.
        """
        self._begin()
        parameters = {"refused": self._refused_ids(), "batch": self.batch}
        return [_Entry(*row) for row in self.connection.execute(_COMPLETE_PACKAGES, parameters)]

    def _begin(self) -> None:
        """Begin a transaction that sees one state of the record."""
        self.connection.rollback()
        self.connection.execute(_REPEATABLE_READ)

    def _refused_ids(self) -> list[int]:
        return [entry.entry_id for entry in self.refused]

    def _project(self, entries: list[_Entry]) -> None:
        rebuild = entries[0].kind == REBUILD
        with named_batch(self.connection.engine, self.session, rebuild=rebuild):
            self.refused.update(_project_what_can_be(self.connection, self.session, entries))
        finished = [entry for entry in entries if entry not in self.refused]
        keys = _keys_of(finished)
        purls, vulnerabilities = keys.get("package_version", []), keys.get("vulnerability", [])
        if purls or vulnerabilities:
            written = {"purls": purls, "vulnerabilities": vulnerabilities}
            self.connection.execute(_ENQUEUE_INVALIDATED_PACKAGES, written)
        self.connection.execute(_DELETE, {"ids": [entry.entry_id for entry in finished]})
        self.connection.commit()
        self.done(Counter(entry.kind for entry in finished))


def _keys_of(entries: Iterable[_Entry]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for entry in entries:
        keys.setdefault(entry.kind, []).append(entry.key)
    return keys


def _project_what_can_be(
    connection: Connection, session: neo4j.Session, entries: list[_Entry]
) -> dict[_Entry, Neo4jError]:
    """Project ``entries`` and return the entries that the graph refuses.

    A refused batch is halved until single entries remain, so that one bad row does not block all
    others.
    """
    try:
        _project(connection, session, entries)
    except (ClientError, DatabaseError) as error:
        # A failed rebuild and wrong credentials do not depend on a row.
        if entries[0].kind == REBUILD or ".Security." in (error.code or ""):
            raise
        if len(entries) == 1:
            return {entries[0]: error}
        half = len(entries) // 2
        return {
            **_project_what_can_be(connection, session, entries[:half]),
            **_project_what_can_be(connection, session, entries[half:]),
        }
    return {}


@retry_conflict
def _project(connection: Connection, session: neo4j.Session, entries: list[_Entry]) -> None:
    if entries[0].kind == REBUILD:
        # From now on no snapshot is current.
        invalidate_all_revisions(session)
        for node in reversed(NODES):
            while session.execute_write(_delete_some, node):
                pass
        return
    keys = _keys_of(entries)
    unknown = sorted(keys.keys() - PROJECTED.keys())
    if unknown:
        raise SchemaMismatch(
            f"the outbox holds unknown kinds: {', '.join(unknown)}", "upgrade thoth"
        )
    for kind, projected in PROJECTED.items():
        if kind in keys:
            projected.project(connection, session, keys[kind])


def _delete_some(tx: neo4j.ManagedTransaction, node: NodeKind) -> int:
    record = tx.run(node.delete, limit=_DELETED).single(strict=True)
    return int(record["deleted"])


#: All kinds of nodes; each comes before the kinds that point at it.
NODES: tuple[NodeKind, ...] = (
    *packages.NODES, *inspections.NODES, *advice.NODES, *benchmarks.NODES,
)  # fmt: skip
EDGES: tuple[EdgeKind, ...] = (
    *packages.EDGES, *inspections.EDGES, *advice.EDGES, *benchmarks.EDGES,
)  # fmt: skip


#: Writes the nodes with the given keys, and their edges.
Projector = Callable[[Connection, neo4j.Session, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class ProjectedKind:
    """A kind of outbox entry.

    :param key: the column with all keys of the kind; ``None`` if a rebuild needs no such entries
    :param rows: condition for the rows of that column, if not every row is a key
    """

    key: ColumnElement[str] | None
    project: Projector
    rows: ColumnElement[bool] | None = None


def _immutable_kind(kind: ImmutableNode) -> ProjectedKind:
    return ProjectedKind(
        kind.node.owner,
        lambda connection, session, keys: create_missing(connection, session, kind, keys),
    )


def _mutable_kind(kind: MutableNode) -> ProjectedKind:
    return ProjectedKind(
        kind.node.owner, lambda connection, session, keys: upsert(connection, session, kind, keys)
    )


def _with(node: NodeKind, project: Projector) -> ProjectedKind:
    return ProjectedKind(node.owner, project)


#: What is projected, by kind of outbox entry; nodes come before nodes that point at them. The
#: outbox holds back packages until all versions that their revision covers are projected; versions
#: create missing packages without a revision.
PROJECTED: dict[str, ProjectedKind] = {
    "package": _mutable_kind(packages.PACKAGES),
    "vulnerability": _mutable_kind(packages.VULNERABILITIES),
    "package_version": _mutable_kind(packages.PACKAGE_VERSIONS),
    "native_interface": _mutable_kind(packages.NATIVE_INTERFACES),
    "artifact": _mutable_kind(packages.ARTIFACTS),
    "native_environment": _mutable_kind(packages.NATIVE_ENVIRONMENTS),
    "stack": _with(packages.STACK, packages.project_stacks),
    "hardware": _immutable_kind(inspections.HARDWARE_CLASSES),
    "runtime_environment": _immutable_kind(inspections.RUNTIME_ENVIRONMENTS),
    "indicator": _immutable_kind(inspections.PERFORMANCE_INDICATORS),
    "inspection": _with(inspections.INSPECTION, inspections.project_inspections),
    "corrected_inspection": ProjectedKind(None, inspections.project_corrected_inspections),
    "claim": _with(advice.CLAIM, advice.project_claims),
    "request": _mutable_kind(advice.REQUESTS),
    "advice": _with(advice.ADVICE, advice.project_advice),
    "software": _mutable_kind(benchmarks.SOFTWARE_NODES),
    "hardware_part": _mutable_kind(benchmarks.HARDWARE_PARTS),
    "benchmark": _with(benchmarks.BENCHMARK, benchmarks.project_benchmarks),
    "benchmark_entry": _with(benchmarks.BENCHMARK_ENTRY, benchmarks.project_entries),
    "benchmark_results": ProjectedKind(
        benchmarks.PART_KEY, benchmarks.project_results, benchmarks.FIRST_OF_PART
    ),
}
