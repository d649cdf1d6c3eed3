"""The outbox: what the graph does not show yet, taken in order and deleted once it does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import neo4j
from neo4j.exceptions import ClientError, ConstraintError, DatabaseError, Neo4jError
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import DBAPIError

from common.errors import ProjectionFailed, SchemaMismatch, StoreUnavailable
from graph.projection.kinds import NodeKind
from graph.projection.packages import invalidate_all_revisions
from graph.projection.registry import NODES, PROJECTED
from graph.record.postgresql import AdvisoryLock, session_lock
from graph.tables import OutboxEntry

#: An entry of this kind stands for everything: the projection is emptied when its turn comes.
REBUILD = "rebuild"

_POLL_S = 0.1
_ATTEMPTS = 5
_DELETE = text("DELETE FROM outbox WHERE entry_id = ANY(:ids)")
_SERIALIZATION_FAILURE = "40001"
#: Packages that got a revision of their own while something of them was written.
_SETTLE = text(
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
#: Packages of which no version and nothing that affects one waits.
_SETTLED = text(
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
_ONE_STATE = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
_PACKAGE = "package"
#: Nodes deleted in one transaction.
_DELETED = 2_000


@dataclass(frozen=True, slots=True)
class _Entry:
    entry_id: int
    kind: str
    key: str


@contextmanager
def only_projector(engine: Engine, wait_s: float) -> Iterator[Connection]:
    """A connection that holds the lock of the one projector.

    The lock is the session's: PostgreSQL frees it when the connection ends, however the
    process ended. Nothing relies on it for correctness, as keys are unique in the graph.

    :raises StoreUnavailable: if another projector is still at work after ``wait_s``
    """
    with session_lock(engine, AdvisoryLock.PROJECTION, wait_s) as connection:
        if connection is None:
            cause = f"another process has been projecting for {wait_s:.0f} s"
            raise StoreUnavailable("the graph", cause, "wait for it to end, then try again")
        yield connection


def drain(
    connection: Connection,
    session: neo4j.Session,
    batch: int,
    done: Callable[[Counter[str]], None],
) -> None:
    """Project until nothing is pending; ``done`` hears of each batch after its commit.

    Killed at any point, it leaves whole transactions in the graph and their entries in the
    outbox: the next run finds the nodes there and only deletes the entries.
    """
    work = _Pass(connection, session, batch, done, {})
    while work.run():
        pass
    _complain(work)


def project_once(
    connection: Connection,
    session: neo4j.Session,
    batch: int,
    done: Callable[[Counter[str]], None],
) -> None:
    """Project what is pending by now; :func:`drain` ends only when writers rest."""
    work = _Pass(connection, session, batch, done, {})
    work.run()
    _complain(work)


def _complain(work: _Pass) -> None:
    if work.refused:
        first = next(iter(work.refused.values()))
        raise ProjectionFailed(
            [f"{entry.kind} {entry.key}" for entry in work.refused],
            (first.message or str(first)).splitlines()[0],
        )


@dataclass(frozen=True, slots=True)
class _Pass:
    """One time through what waits, which is done again as long as it finds something.

    Entries of transactions that committed late have lower numbers than others that are done.

    :param refused: entries that the graph cannot hold, and why; they stay
    """

    connection: Connection
    session: neo4j.Session
    batch: int
    done: Callable[[Counter[str]], None]
    refused: dict[_Entry, Neo4jError]

    def run(self) -> bool:
        """Project what waits by now, then packages; tells whether there was anything.

        What is written meanwhile has to wait: packages would never come where writers never
        rest. Within a pass the start is skipped, for it is full of dead rows.
        """
        last, end = 0, self._newest()
        found = False
        while entries := self._next(last, end):
            self._project(entries)
            last, found = entries[-1].entry_id, True
        try:
            while entries := self._settled_packages():
                self._project(entries)
                found = True
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) != _SERIALIZATION_FAILURE:
                raise
            # Somebody deleted entries: a rebuild, which waits now.
            found = True
        self.connection.rollback()
        return found

    def _newest(self) -> int:
        return self.connection.scalar(select(func.max(OutboxEntry.entry_id))) or 0

    def _next(self, last: int, end: int) -> list[_Entry]:
        """The next entries in order, but for packages; a rebuild comes alone."""
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

    def _settled_packages(self) -> list[_Entry]:
        """Packages whose versions are all in the graph: a revision must not say more than it.

        A snapshot that was read between the revision and the versions would count as current
        for ever. The transaction sees one state of the record: either a version still waits,
        or the revision in it is that of the versions that were projected. A version that the
        graph refuses keeps waiting, and its package with it.
        """
        self.connection.rollback()
        self.connection.execute(_ONE_STATE)
        parameters = {"refused": self._refused_ids(), "batch": self.batch}
        return [_Entry(*row) for row in self.connection.execute(_SETTLED, parameters)]

    def _refused_ids(self) -> list[int]:
        return [entry.entry_id for entry in self.refused]

    def _project(self, entries: list[_Entry]) -> None:
        self.refused.update(_project_what_can_be(self.connection, self.session, entries))
        finished = [entry for entry in entries if entry not in self.refused]
        keys = _keys_of(finished)
        purls, vulnerabilities = keys.get("package_version", []), keys.get("vulnerability", [])
        if purls or vulnerabilities:
            unsettled = {"purls": purls, "vulnerabilities": vulnerabilities}
            self.connection.execute(_SETTLE, unsettled)
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
    """Project ``entries``, one by one if not together; returns those that the graph refuses.

    One row that the graph cannot hold must not keep all others out of it for ever.
    """
    try:
        _project_again(connection, session, entries)
    except (ClientError, DatabaseError) as error:
        # A rebuild is no row, and wrong credentials are not about any.
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


def _project_again(connection: Connection, session: neo4j.Session, entries: list[_Entry]) -> None:
    """Project, once more if somebody else created the same nodes in the meantime.

    That is a transaction of a killed projector, which the graph may commit after
    PostgreSQL has freed the lock.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _project(connection, session, entries)
        except ConstraintError:
            time.sleep(_POLL_S)
    return _project(connection, session, entries)


def _project(connection: Connection, session: neo4j.Session, entries: list[_Entry]) -> None:
    if entries[0].kind == REBUILD:
        # Whoever asks meanwhile is told that what he has is not current.
        invalidate_all_revisions(session)
        for node in reversed(NODES):
            _empty(session, node)
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


def _empty(session: neo4j.Session, node: NodeKind) -> None:
    while session.execute_write(_delete_some, node):
        pass


def _delete_some(tx: neo4j.ManagedTransaction, node: NodeKind) -> int:
    record = tx.run(node.delete, limit=_DELETED).single(strict=True)
    return int(record["deleted"])
