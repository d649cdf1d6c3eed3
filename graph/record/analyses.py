"""Requests that are answered later: accepted, taken by a worker, ended, found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    func,
    insert,
    literal,
    select,
    text,
    update,
)

from common.formats.json_documents import canonical_json, digest_bytes
from common.settings import Settings
from graph.record.documents import (
    DeliveredDocument,
    add_documents,
    body_of,
)
from graph.record.freshness import progress
from graph.record.postgresql import lock_name
from graph.tables import (
    AnalysisRow,
)

#: Of the canonical JSON form of requests.
SCHEMA_VERSION = "analysis-request-1"
#: How long an accepted request answers others that are the same.
CACHED_FOR = timedelta(hours=3)


class AnalysisKind(StrEnum):
    """What identifiers begin with; the value is stored and never renamed."""

    ADVICE = "adviser"
    PROVENANCE = "provenance-checker"
    INSPECTION = "inspection"
    REPLAY = "replay"
    WHY_NOT = "why-not"
    UPLOAD = "upload"
    FETCH = "package-fetch"


class AnalysisState(StrEnum):
    """How far a request is; the value is stored and never renamed."""

    PENDING = "pending"
    RUNNING = "running"
    #: There is a result; it may say that there is no stack.
    SUCCEEDED = "succeeded"
    #: It cannot be answered, and asking again would not help.
    FAILED = "failed"
    #: We broke down.
    ERROR = "error"

    @property
    def is_terminal(self) -> bool:
        """Whether it stays as it is."""
        return self not in (AnalysisState.PENDING, AnalysisState.RUNNING)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A request and its state.

    :param parameters: what of the request is given back to whoever asks
    :param attempts: how often a worker took it
    :param as_of: of the newest knowledge that the result may rest on
    :param graph_revision: how far the graph was by then
    """

    analysis_id: str
    kind: AnalysisKind
    state: AnalysisState
    parameters: Mapping[str, Any]
    request_document_id: str
    accepted_at: datetime
    result_document_id: str | None = None
    reason: str | None = None
    token_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: int = 0
    as_of: datetime | None = None
    graph_revision: int | None = None


@dataclass(frozen=True, slots=True)
class NewAnalysis:
    """A request that is to be accepted.

    :param request: everything that a worker needs, as JSON values
    :param cache_key: of what makes two requests the same
    """

    analysis_id: str
    kind: AnalysisKind
    request: Mapping[str, Any]
    parameters: Mapping[str, Any]
    cache_key: str
    token_id: str | None = None


def accept(
    connection: Connection, settings: Settings, new: NewAnalysis, *, force: bool = False
) -> tuple[Analysis, bool]:
    """Store a request, or give an equal one that was accepted not long ago.

    Of equal requests at a time one is accepted and the others wait for it; the caller owns the
    transaction, and enqueues the job in it if the request is new.

    :param force: accept it in any case; from then on it is the one that others are given
    :returns: the analysis, and whether it is an earlier one
    """
    lock_name(connection, f"{new.kind}:{new.cache_key}")
    earlier = None if force else earlier_than(connection, new)
    if earlier is not None:
        return earlier, True
    body = canonical_json(new.request)
    document = DeliveredDocument(
        digest_bytes(body), f"{new.kind}-request", SCHEMA_VERSION, new.analysis_id, body
    )
    add_documents(connection, settings, [document])
    row = connection.execute(
        insert(AnalysisRow)
        .values(
            analysis_id=new.analysis_id,
            kind=new.kind.value,
            parameters=dict(new.parameters),
            request_document_id=document.document_id,
            cache_key=new.cache_key,
            token_id=new.token_id,
            accepted_at=func.clock_timestamp(),
        )
        .returning(*_COLUMNS)
    ).one()
    return _analysis(row), False


def analysis_of(connection: Connection, analysis_id: str) -> Analysis | None:
    """A request by its identifier, or ``None``."""
    row = connection.execute(_BY_ID, {"wanted": analysis_id}).one_or_none()
    return None if row is None else _analysis(row)


def analyses_of(
    connection: Connection, kind: AnalysisKind, limit: int, offset: int = 0
) -> list[Analysis]:
    """Requests of a kind in the order in which they were accepted."""
    query = (
        select(*_COLUMNS)
        .where(AnalysisRow.kind == kind.value)
        .order_by(AnalysisRow.accepted_at, AnalysisRow.analysis_id)
        .limit(limit)
        .offset(offset)
    )
    return [_analysis(row) for row in connection.execute(query)]


def request_of(connection: Connection, settings: Settings, analysis: Analysis) -> bytes:
    """The request as canonical JSON.

    :raises StoreUnavailable: if it is in a document store that cannot be read
    """
    return body_of(connection, settings, analysis.request_document_id) or b"{}"


def result_of(connection: Connection, settings: Settings, analysis: Analysis) -> bytes | None:
    """The result as it was stored, ``None`` while there is none.

    :raises StoreUnavailable: if it is in a document store that cannot be read
    """
    if analysis.result_document_id is None:
        return None
    return body_of(connection, settings, analysis.result_document_id)


def start(connection: Connection, analysis_id: str) -> Analysis | None:
    """Note that a worker took it; ``None`` if it is unknown or has its end already."""
    row = connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id, AnalysisRow.state.in_(_OPEN))
        .values(
            state=AnalysisState.RUNNING.value,
            reason=None,
            started_at=func.coalesce(AnalysisRow.started_at, func.clock_timestamp()),
            attempts=AnalysisRow.attempts + 1,
        )
        .returning(*_COLUMNS)
    ).one_or_none()
    return None if row is None else _analysis(row)


def postpone(
    connection: Connection, analysis_id: str, reason: str, *, anew: bool = False
) -> timedelta:
    """Have it wait again for what is away; the caller owns the transaction.

    :param reason: what it waits for, shown until a worker takes it again
    :param anew: do not count the time that it has waited for something before
    :returns: for how long it has waited, none of it the first time
    """
    now = func.clock_timestamp()
    since = now if anew else func.coalesce(AnalysisRow.postponed_at, now)
    waited = connection.scalar(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id, AnalysisRow.state.in_(_OPEN))
        .values(state=AnalysisState.PENDING.value, reason=reason, postponed_at=since)
        .returning(func.clock_timestamp() - AnalysisRow.postponed_at)
    )
    return waited or timedelta()


def give_back(connection: Connection, analysis_id: str) -> None:
    """Note that the worker that was at it had to stop: that was no attempt."""
    connection.execute(
        update(AnalysisRow)
        .where(
            AnalysisRow.analysis_id == analysis_id, AnalysisRow.state == AnalysisState.RUNNING.value
        )
        .values(state=AnalysisState.PENDING.value, attempts=AnalysisRow.attempts - 1)
    )


def finish(
    connection: Connection,
    analysis_id: str,
    state: AnalysisState,
    *,
    reason: str | None = None,
    result_document_id: str | None = None,
) -> bool:
    """Give it its end, once; the caller owns the transaction.

    :returns: ``False`` if it has one already, or is unknown
    """
    # Of the end, not of the beginning: the work may have read all that was known by then.
    known = None if result_document_id is None else progress(connection)
    ended = connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id, AnalysisRow.state.in_(_OPEN))
        .values(
            state=state.value,
            reason=reason,
            result_document_id=result_document_id,
            finished_at=func.clock_timestamp(),
            as_of=known and known.as_of,
            graph_revision=known and known.revision,
        )
    )
    return ended.rowcount == 1


def supersede(connection: Connection, analysis_id: str) -> None:
    """Answer no later request with it: what it lacked is on its way."""
    connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id)
        .values(cache_key=AnalysisRow.analysis_id)
    )


def add_log(connection: Connection, analysis_id: str, lines: str) -> None:
    """Append lines, each with its end, to what people are shown of the run."""
    connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id)
        .values(log=AnalysisRow.log + lines)
    )


def log_of(connection: Connection, analysis_id: str) -> str:
    """What people are shown of the run, empty if there is nothing."""
    query = select(AnalysisRow.log).where(AnalysisRow.analysis_id == analysis_id)
    return connection.scalar(query) or ""


def earlier_than(connection: Connection, new: NewAnalysis) -> Analysis | None:
    """An equal request that was accepted not long ago, if there is one."""
    wanted = {"kind": new.kind.value, "cache_key": new.cache_key}
    row = connection.execute(_EARLIER, wanted).one_or_none()
    return None if row is None else _analysis(row)


#: States that are left.
_OPEN = (AnalysisState.PENDING.value, AnalysisState.RUNNING.value)
#: All but the log, which may be long.
_COLUMNS = (
    AnalysisRow.analysis_id,
    AnalysisRow.kind,
    AnalysisRow.state,
    AnalysisRow.parameters,
    AnalysisRow.request_document_id,
    AnalysisRow.accepted_at,
    AnalysisRow.result_document_id,
    AnalysisRow.reason,
    AnalysisRow.token_id,
    AnalysisRow.started_at,
    AnalysisRow.finished_at,
    AnalysisRow.attempts,
    AnalysisRow.as_of,
    AnalysisRow.graph_revision,
)
# Made once: they are asked with every request, and making one takes longer than its answer.
_BY_ID = select(*_COLUMNS).where(AnalysisRow.analysis_id == bindparam("wanted"))
_EARLIER = (
    select(*_COLUMNS)
    .where(
        AnalysisRow.kind == bindparam("kind"),
        AnalysisRow.cache_key == bindparam("cache_key"),
        AnalysisRow.accepted_at > func.clock_timestamp() - literal(CACHED_FOR),
        AnalysisRow.state != AnalysisState.ERROR.value,
    )
    .order_by(AnalysisRow.accepted_at.desc())
    .limit(1)
)


def _analysis(row: Row[Any]) -> Analysis:
    values = dict(row._mapping)
    return Analysis(
        **{**values, "kind": AnalysisKind(values["kind"]), "state": AnalysisState(values["state"])}
    )


#: Ended requests are counted for so long; what waits or runs always is.
COUNTED_FOR = timedelta(days=1)
#: All, which is said because the index begins with them.
_ASKED = {"period": COUNTED_FOR, "kinds": [it.value for it in AnalysisKind]}

_STATES = text(
    """
    SELECT kind, state, count(*) FROM analyses
    WHERE kind = ANY(:kinds)
        AND (accepted_at > now() - :period OR state IN ('pending', 'running'))
    GROUP BY kind, state ORDER BY kind, state
    """
)
_TIMES = text(
    """
    SELECT
        kind,
        percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
            ORDER BY extract(epoch FROM started_at - accepted_at)
        ) AS waited_s,
        percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
            ORDER BY extract(epoch FROM finished_at - started_at)
        ) AS ran_s
    FROM analyses
    WHERE kind = ANY(:kinds)
        AND accepted_at > now() - :period
        AND started_at IS NOT NULL AND finished_at IS NOT NULL
    GROUP BY kind ORDER BY kind
    """
)
_WORKERS = text("SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - :alive")


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Of the ended requests of one kind: median and 99th percentile, in seconds."""

    kind: str
    waited_s: tuple[float, float]
    ran_s: tuple[float, float]


def states(connection: Connection) -> list[tuple[str, str, int]]:
    """AnalysisKind, state and number of requests."""
    rows = connection.execute(_STATES, _ASKED)
    return [(str(kind), str(state), int(number)) for kind, state, number in rows]


def times(connection: Connection) -> list[RequestTimes]:
    """How long requests waited for a worker, and how long it took."""
    rows = connection.execute(_TIMES, _ASKED)
    return [RequestTimes(str(kind), _pair(waited), _pair(ran)) for kind, waited, ran in rows]


def workers(connection: Connection, alive: timedelta) -> int:
    """How many workers gave a sign of life lately."""
    return int(connection.scalar(_WORKERS, {"alive": alive}) or 0)


_WAITING_REQUESTS = text(
    """
    SELECT
        count(*) AS requests,
        coalesce(
            extract(epoch FROM now() - min(coalesce(postponed_at, accepted_at))), 0
        ) AS longest_s,
        (SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - :alive)
            AS workers
    FROM analyses WHERE state = 'pending'
    """
)
#: A request that has waited longer than this while no worker gave a sign of life is unattended.
UNATTENDED_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class WaitingRequests:
    """Requests that no worker has started yet.

    :param longest_s: how long the oldest of them has waited, in seconds; 0 if none waits
    :param workers: those with a sign of life within :data:`UNATTENDED_AFTER`
    """

    requests: int
    longest_s: float
    workers: int

    @property
    def problem(self) -> str | None:
        """What is wrong, with the remedy; ``None`` unless requests wait and no worker runs.

        >>> WaitingRequests(requests=3, longest_s=75.2, workers=0).problem
        '3 requests have waited for up to 75 s and no worker is running: start `thoth worker`'
        >>> WaitingRequests(requests=3, longest_s=75.2, workers=1).problem
        """
        if self.workers or self.longest_s <= UNATTENDED_AFTER.total_seconds():
            return None
        waiting = "1 request has" if self.requests == 1 else f"{self.requests} requests have"
        return (
            f"{waiting} waited for up to {self.longest_s:.0f} s and no worker is running:"
            " start `thoth worker`"
        )


def waiting_requests(connection: Connection) -> WaitingRequests:
    """How many requests wait for a worker, and whether there is one; one query."""
    requests, longest_s, alive = connection.execute(
        _WAITING_REQUESTS, {"alive": UNATTENDED_AFTER}
    ).one()
    return WaitingRequests(int(requests), float(longest_s), int(alive))


def _pair(values: list[float]) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def requested_by(token_id: str) -> Select[str]:
    """Identifiers of what a token asked for."""
    return select(AnalysisRow.analysis_id).where(AnalysisRow.token_id == token_id)
