"""Stores and finds the API's asynchronous requests, and counts them for monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

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
from sqlalchemy.dialects.postgresql import JSONB

from common.settings import Settings
from graph.record.documents import DeliveredDocument, add_documents, body_of
from graph.record.freshness import progress
from graph.record.postgresql_helpers import columns_for, lock_name
from graph.tables import AnalysisRow
from model.declared_fields import Field
from model.json_documents import canonical_json, digest_bytes

#: Schema of stored requests.
SCHEMA_VERSION = "analysis-request-1"
#: How long equal requests get the result of an earlier request.
CACHED_FOR = timedelta(hours=3)


class AnalysisKind(StrEnum):
    """Kind of a request and prefix of its identifier; stored values are never renamed."""

    ADVICE = "adviser"
    PROVENANCE = "provenance-checker"
    INSPECTION = "inspection"
    REPLAY = "replay"
    WHY_NOT = "why-not"
    UPLOAD = "upload"
    FETCH = "package-fetch"


class AnalysisState(StrEnum):
    """State of a request; stored values are never renamed."""

    PENDING = "pending"
    RUNNING = "running"
    #: There is a result; it may be that no suitable stack exists.
    SUCCEEDED = "succeeded"
    #: The request cannot be answered; repeating it would not help.
    FAILED = "failed"
    #: An internal error; the request may be repeated.
    ERROR = "error"

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
        return self not in (AnalysisState.PENDING, AnalysisState.RUNNING)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A request and its state."""

    analysis_id: Annotated[
        str, Field("Identifier of the request.", "adviser-240611083015-5f0c9d2be417a863")
    ]
    kind: Annotated[AnalysisKind, Field("What is requested.", "adviser")]
    state: Annotated[AnalysisState, Field("State of the request; the last three are final.")]
    parameters: Annotated[Mapping[str, Any], Field("Parameters of the request.")]
    request_document_id: str
    accepted_at: Annotated[datetime, Field("When it was accepted.")]
    result_document_id: str | None = None
    reason: Annotated[str | None, Field("Why it did not succeed, or why it waits.")] = None
    token_id: str | None = None
    started_at: Annotated[datetime | None, Field("When a worker first started it.")] = None
    finished_at: Annotated[datetime | None, Field("When it ended.")] = None
    attempts: Annotated[int, Field("How often a worker started it.", 1)] = 0
    as_of: Annotated[datetime | None, Field("Time of the newest data that the result may use.")] = (
        None
    )
    graph_revision: Annotated[int | None, Field("Revision of the graph when it ended.", 1804)] = (
        None
    )
    progress: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class NewAnalysis:
    """A new request.

    :param request: everything that a worker needs, as JSON values
    :param cache_key: equal for equal requests
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
    """Store a request, or return an equal request that was accepted within :data:`CACHED_FOR`.

    If equal requests arrive at the same time, the first is stored and the others wait for it. The
    caller owns the transaction. If the request is new, the caller enqueues the job in the same
    transaction.

    :param force: always store the request; it then answers later equal requests
    :returns: the stored request, and whether it was stored before this call
    """
    if not force:
        lock_name(connection, f"{new.kind}:{new.cache_key}")
        earlier = earlier_than(connection, new)
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
    """Requests of one kind, in the order in which they were accepted."""
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

    :raises StoreUnavailable: if the document store cannot be read
    """
    return body_of(connection, settings, analysis.request_document_id) or b"{}"


def result_of(connection: Connection, settings: Settings, analysis: Analysis) -> bytes | None:
    """The result as it was stored; ``None`` if there is none yet.

    :raises StoreUnavailable: if the document store cannot be read
    """
    if analysis.result_document_id is None:
        return None
    return body_of(connection, settings, analysis.result_document_id)


def start(connection: Connection, analysis_id: str) -> Analysis | None:
    """Mark a request as running; return ``None`` if it is unknown or finished."""
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
    """Return a request to the queue until the store that it needs is available again.

    :param reason: what the request waits for; shown until a worker starts it again
    :param anew: measure the waiting time from now on
    :returns: how long the request has been waiting; zero the first time
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
    """Return a request to the queue because its worker stops; this attempt is not counted."""
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
    """Finish a request, once; the caller owns the transaction.

    :returns: ``False`` if the request is unknown or already finished
    """
    # The state of knowledge at the end, because the work may have used all of it.
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
    """Exclude a request from the cache, because asking again may give a better answer."""
    connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id)
        .values(cache_key=AnalysisRow.analysis_id)
    )


def set_progress(connection: Connection, analysis_id: str, progress: Mapping[str, int]) -> None:
    """Store how far a worker has read the indexes for a request."""
    connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id)
        .values(progress=dict(progress))
    )


def add_log(connection: Connection, analysis_id: str, lines: str) -> None:
    """Append lines, each with its line end, to the log of a request."""
    connection.execute(
        update(AnalysisRow)
        .where(AnalysisRow.analysis_id == analysis_id)
        .values(log=AnalysisRow.log + lines)
    )


def log_of(connection: Connection, analysis_id: str) -> str:
    """The log of a request, possibly empty."""
    query = select(AnalysisRow.log).where(AnalysisRow.analysis_id == analysis_id)
    return connection.scalar(query) or ""


def earlier_than(connection: Connection, new: NewAnalysis) -> Analysis | None:
    """The latest equal request accepted within :data:`CACHED_FOR`, or ``None``."""
    wanted = {"kind": new.kind.value, "cache_key": new.cache_key}
    row = connection.execute(_EARLIER, wanted).one_or_none()
    return None if row is None else _analysis(row)


def latest_answer(
    connection: Connection, kind: AnalysisKind, parameters: Mapping[str, Any]
) -> Analysis | None:
    """The last request of a kind with these parameters that succeeded, of any age, or ``None``."""
    query = (
        select(*_COLUMNS)
        .where(
            AnalysisRow.kind == kind.value,
            AnalysisRow.state == AnalysisState.SUCCEEDED.value,
            AnalysisRow.parameters.op("@>")(literal(dict(parameters), JSONB)),
        )
        .order_by(AnalysisRow.accepted_at.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _analysis(row)


#: States that are not final.
_OPEN = (AnalysisState.PENDING.value, AnalysisState.RUNNING.value)
#: All columns of :class:`Analysis`; the log is left out, because it may be long.
_COLUMNS = columns_for(Analysis, AnalysisRow)
# Built once: every request runs them, and building one takes longer than running it.
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


#: Period for which finished requests are counted; open requests are always counted.
COUNTED_FOR = timedelta(days=1)
#: All kinds are listed explicitly, because the index starts with the kind.
_PERIOD = {"period": COUNTED_FOR, "kinds": [it.value for it in AnalysisKind]}

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
    """Median and 99th percentile of the waiting and run times of a kind of request, in seconds."""

    kind: Annotated[str, Field("Kind of request.", "adviser")]
    waited_s: Annotated[tuple[float, float], Field("Time in the queue, s.", [0.1, 2.0])]
    ran_s: Annotated[tuple[float, float], Field("Time of the worker, s.", [1.2, 9.0])]


def states(connection: Connection) -> list[tuple[str, str, int]]:
    """The number of requests by kind and state, as triples."""
    rows = connection.execute(_STATES, _PERIOD)
    return [(str(kind), str(state), int(number)) for kind, state, number in rows]


def times(connection: Connection) -> list[RequestTimes]:
    """Waiting and run times of requests by kind."""
    rows = connection.execute(_TIMES, _PERIOD)
    return [RequestTimes(str(kind), tuple(waited), tuple(ran)) for kind, waited, ran in rows]


def workers(connection: Connection, alive: timedelta) -> int:
    """Number of workers whose last heartbeat is not older than ``alive``."""
    return int(connection.scalar(_WORKERS, {"alive": alive}) or 0)


def requested_by(token_id: str) -> Select[str]:
    """Query for the identifiers of the requests that were made with a token."""
    return select(AnalysisRow.analysis_id).where(AnalysisRow.token_id == token_id)
