"""Submission of requests that a worker answers, and their states and results, for all versions."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from flask import current_app, request
from sqlalchemy import Connection

from api.access import token, wrote_nothing
from api.http.errors import COMPATIBLE, ApiError, ProblemType, not_found
from api.http.request_context import client_address, from_earlier_data
from api.jobs.queue import REQUEST_WORK, QueueClient
from api.store_access import service
from graph.record import analyses
from graph.record.access import Scope, Token
from graph.record.analyses import Analysis, AnalysisKind, NewAnalysis
from model.errors import StoreUnavailable
from model.json_documents import digest

#: How long a submission waits for a quick result, s; then the client has to poll.
SUBMIT_WAIT_S = 0.3
#: Longest time that a request for a result may wait for it, s.
LONGEST_WAIT_S = 10.0
#: First pause between two polls, s; each is longer than the one before by this factor, up to the
#: longest.
_PAUSE_S, _LONGER, _LONGEST_PAUSE_S = 0.008, 1.25, 0.05
#: After a long wait, the longest pause is this fraction of the wait, up to a limit in s. So clients
#: that wait for a busy worker do not take its processor time.
_PAUSE_FRACTION, _PAUSE_LIMIT_S = 0.1, 0.5


def may_fetch() -> bool:
    """Whether the packages that are missing for a request of this client may be fetched."""
    client = token()
    if client is None:
        return current_app.config["FETCH_MISSING"] and service().settings.fetch_missing
    return client.may(Scope.INGEST)


def submit(
    kind: AnalysisKind,
    request: Mapping[str, Any],
    cache_key: str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    force: bool = False,
    analysis_id: str | None = None,
    also: Callable[[Connection, str], object] = lambda _connection, _analysis_id: None,
) -> tuple[Analysis, bool]:
    """Accept a request and enqueue its job in one transaction, then wait briefly for its end.

    :param request: everything that the worker needs, as JSON values
    :param cache_key: equal requests share it; by default the digest of ``request``
    :param parameters: the part of the request that responses repeat; by default all of it
    :param force: do not answer from the cache
    :param analysis_id: by default a new one, in the format that clients of the original service
        parse
    :param also: further writes for a new analysis, in the same transaction
    :returns: the analysis, and whether it is from the cache
    :raises Overloaded: if too many jobs wait; then nothing is stored
    """
    client, stores = token(), service()
    new = NewAnalysis(
        analysis_id or f"{kind}-{datetime.now(UTC):%y%m%d%H%M%S}-{token_hex(8)}",
        kind,
        request,
        request if parameters is None else parameters,
        cache_key or digest(request),
        client.token_id if client else None,
    )
    if not force:
        # Before taking the lock, so that equal requests do not queue for it.
        with stores.glancing() as connection:
            earlier = analyses.earlier_than(connection, new)
        if earlier is not None:
            wrote_nothing()
            return _poll(earlier, SUBMIT_WAIT_S), True
    with stores.writing() as connection:
        accepted, cached = analyses.accept(connection, stores.settings, new, force=force)
        before = 0
        if not cached:
            work, who = REQUEST_WORK[kind], sender(client)
            before = stores.queue.admit(connection, work.queue, who)
            also(connection, new.analysis_id)
            stores.queue.enqueue_request(connection, work, new.analysis_id, who)
    if cached:
        wrote_nothing()
    return _poll(accepted, SUBMIT_WAIT_S, before), cached


def sender(client: Token | None) -> QueueClient:
    """Who sent this request: the token, or without one the address."""
    if client is None:
        return QueueClient(client_address(), anonymous=True)
    return QueueClient(client.token_id, anonymous=False)


def analysis_of_kind(analysis_id: str, kind: AnalysisKind) -> Analysis:
    """An analysis of a kind by its identifier.

    :raises ApiError: 404 if there is none, 400 if the identifier is of another kind
    """
    if not analysis_id.startswith(f"{kind}-"):
        detail = f"{analysis_id!r} is of another kind: these identifiers begin with '{kind}-'"
        raise ApiError(400, ProblemType.INVALID_REQUEST, detail)
    stores = service()
    with stores.glancing() as connection:
        analysis = analyses.analysis_of(connection, analysis_id)
    if analysis is None or analysis.kind is not kind:
        raise not_found("analysis", analysis_id)
    return analysis


def result_body(analysis: Analysis, wait_s: float = 0.0) -> bytes:
    """The stored result of an analysis.

    :param wait_s: how long to wait until it ends; 0 if the permitted number of clients waits
    :raises ApiError: 202 while it is not finished, 400 if it ended without a result
    """
    # Clients of the original service expect the state in `status`; in RFC 9457 that is a number.
    name = "status" if request.path.startswith(COMPATIBLE) else "analysis"
    analysis = wait_for(analysis, wait_s)
    status = {name: status_document(analysis)}
    if not analysis.state.is_terminal:
        message = "the analysis is not finished: try again"
        raise ApiError(202, ProblemType.NOT_READY, message, headers={"Retry-After": "1"}, **status)
    stores = service()
    with stores.glancing() as connection:
        body = analyses.result_of(connection, stores.settings, analysis)
    if body is None:
        message = f"the analysis ended without a result: {analysis.reason}"
        raise ApiError(400, ProblemType.ANALYSIS_FAILED, message, **status)
    if analysis.graph_revision is not None:
        from_earlier_data(analysis.as_of, analysis.graph_revision)
    return body


def status_document(analysis: Analysis) -> dict[str, Any]:
    """The state of an analysis, as clients read it."""
    times = {"started_at": analysis.started_at, "finished_at": analysis.finished_at}
    return {
        "state": analysis.state.value,
        "reason": analysis.reason,
        **{name: at and at.isoformat(timespec="milliseconds") for name, at in times.items()},
    }


def wait_for(analysis: Analysis, wait_s: float) -> Analysis:
    """The analysis once it has ended, or after ``wait_s``.

    It does not wait if the largest permitted number of clients already waits.
    """
    waiters = service().waiters
    if wait_s > 0 and not analysis.state.is_terminal and waiters.acquire(blocking=False):
        try:
            return _poll(analysis, wait_s)
        finally:
            waiters.release()
    return analysis


def _poll(analysis: Analysis, wait_s: float, before: int = 0) -> Analysis:
    """Poll an analysis for up to ``wait_s`` until it ends.

    The analysis is already accepted, so an unavailable store ends only the wait, not the analysis.

    :param before: jobs that run before it; the first pause is longer by one pause for each
    """
    began, pause = time.monotonic(), _PAUSE_S * (1 + before)
    while not analysis.state.is_terminal and (now := time.monotonic()) + pause < began + wait_s:
        time.sleep(pause)
        longest = max(_LONGEST_PAUSE_S, min((now - began) * _PAUSE_FRACTION, _PAUSE_LIMIT_S))
        pause = min(pause * _LONGER, longest)
        try:
            with service().glancing() as connection:
                analysis = analyses.analysis_of(connection, analysis.analysis_id) or analysis
        except StoreUnavailable:
            break
    return analysis
