"""Requests that a worker answers: accepted here, and found again by their identifier."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from flask import request
from sqlalchemy import Connection

from api.audit import wrote_nothing
from api.authentication import token
from api.errors import COMPATIBLE, ApiError, ProblemType, not_found
from api.jobs.queue import QueueJob
from api.request_context import from_earlier_data
from api.service import service
from common.errors import StoreUnavailable
from graph.record import analyses
from graph.record.analyses import (
    Analysis,
    AnalysisKind,
    AnalysisState,
    NewAnalysis,
)
from graph.record.tokens import Scope

#: How long a request waits for its answer before it is told to ask again.
PATIENCE_S = 0.3
#: The first pause between two looks; each is longer by half.
_PAUSE_S = 0.008


def new_id(kind: AnalysisKind) -> str:
    """A new identifier, as clients of the original service take it apart."""
    return f"{kind}-{datetime.now(UTC):%y%m%d%H%M%S}-{token_hex(8)}"


def new_analysis(
    kind: AnalysisKind, request: Mapping[str, Any], parameters: Mapping[str, Any], cache_key: str
) -> NewAnalysis:
    """A request of the client that is being served, under a new identifier.

    :param request: everything that the worker needs, as JSON values
    :param parameters: what answers repeat of it
    """
    client = token()
    token_id = client.token_id if client else None
    return NewAnalysis(new_id(kind), kind, request, parameters, cache_key, token_id)


def may_fetch() -> bool:
    """Whether the client's token allows its request to have missing packages fetched."""
    client = token()
    return client is not None and client.may(Scope.INGEST)


def submit(
    new: NewAnalysis,
    job: QueueJob,
    *,
    force: bool = False,
    also: Callable[[Connection], object] = lambda _connection: None,
) -> tuple[Analysis, bool]:
    """Accept a request and enqueue its job in one transaction, then wait a moment for its end.

    :param force: do not answer with an equal request of a while ago
    :param also: writes what belongs to a request that is new, in the same transaction
    :returns: the analysis, and whether it is an earlier one
    :raises ApiError: 429 if too much waits already; nothing is stored then
    """
    it = service()
    if not force:
        # Without the lock, under which equal requests would queue up.
        with it.glancing() as connection:
            earlier = analyses.earlier_than(connection, new)
        if earlier is not None:
            wrote_nothing()
            return _soon_ended(earlier), True
    with it.writing() as connection:
        accepted, cached = analyses.accept(connection, it.settings, new, force=force)
        if not cached:
            it.queue.admit(connection, job.queue)
            also(connection)
            it.queue.enqueue(connection, job)
    if cached:
        wrote_nothing()
    return _soon_ended(accepted), cached


def found(analysis_id: str, kind: AnalysisKind) -> Analysis:
    """An analysis of a kind by its identifier.

    :raises ApiError: 404 if there is none, 400 if it is of another kind
    """
    if not analysis_id.startswith(f"{kind}-"):
        detail = f"{analysis_id!r} is none of these: their identifiers begin with '{kind}-'"
        raise ApiError(400, ProblemType.INVALID_REQUEST, detail)
    it = service()
    with it.glancing() as connection:
        analysis = analyses.analysis_of(connection, analysis_id)
    if analysis is None or analysis.kind is not kind:
        raise not_found("analysis", analysis_id)
    return analysis


def result(analysis: Analysis) -> bytes:
    """The result of an analysis, as it was stored.

    :raises ApiError: 202 while there is none, 400 if there never will be
    """
    # To these clients `status` is the state; to others it is a number (RFC 9457).
    name = "status" if request.path.startswith(COMPATIBLE) else "analysis"
    status = {name: status_document(analysis)}
    if not analysis.state.is_terminal:
        message = "the analysis is not finished: ask again"
        raise ApiError(202, ProblemType.NOT_READY, message, headers={"Retry-After": "1"}, **status)
    it = service()
    with it.glancing() as connection:
        body = analyses.result_of(connection, it.settings, analysis)
    if body is None:
        message = f"the analysis ended without a result: {analysis.reason}"
        raise ApiError(400, ProblemType.ANALYSIS_FAILED, message, **status)
    if analysis.graph_revision is not None:
        from_earlier_data(analysis.as_of, analysis.graph_revision)
    return body


def status_document(analysis: Analysis) -> dict[str, Any]:
    """How far it is, as clients read it."""
    return {
        "state": analysis.state.value,
        "reason": analysis.reason,
        "started_at": _text(analysis.started_at),
        "finished_at": _text(analysis.finished_at),
    }


def status_of(analysis: Analysis) -> dict[str, Any]:
    """What a question for the state is answered with."""
    return {
        "parameters": {"analysis_id": analysis.analysis_id},
        "status": status_document(analysis),
    }


def log_document(analysis: Analysis) -> dict[str, Any]:
    """What people are shown of its run.

    :raises ApiError: 404 while it has not begun
    """
    if analysis.started_at is None:
        raise not_found("log", analysis.analysis_id)
    it = service()
    with it.glancing() as connection:
        log = analyses.log_of(connection, analysis.analysis_id)
    return {"parameters": {"analysis_id": analysis.analysis_id}, "log": log or None}


def submitted_document(new: NewAnalysis, job: QueueJob, *, force: bool) -> dict[str, Any]:
    """Submit a request; the answer for clients of the original service."""
    analysis, cached = submit(new, job, force=force)
    return {
        "analysis_id": analysis.analysis_id,
        "cached": cached,
        "authenticated": token() is not None,
        "parameters": dict(analysis.parameters),
    }


def _soon_ended(analysis: Analysis) -> Analysis:
    """The analysis at its end if that comes soon, or as it is then.

    It is accepted: a store that goes away meanwhile changes nothing of that.
    """
    until, pause = time.monotonic() + PATIENCE_S, _PAUSE_S
    while (
        analysis.state in (AnalysisState.PENDING, AnalysisState.RUNNING)
        and time.monotonic() + pause < until
    ):
        time.sleep(pause)
        pause *= 1.5
        try:
            with service().glancing() as connection:
                analysis = analyses.analysis_of(connection, analysis.analysis_id) or analysis
        except StoreUnavailable:
            break
    return analysis


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")
