"""A worker's state between jobs, and how it runs an analysis: to a final state, with its log."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from sqlalchemy import Connection

from adviser.answering.index_memory import IndexMemory
from adviser.answering.knowledge import GraphSource
from adviser.resolver.worker import ResolverWorker
from api.http.errors import public_message
from api.jobs.queue import PROJECT
from api.store_access import ServiceStores
from common.settings import Settings
from graph.checkpoints import stores_agree
from graph.embedded.home import disk_errors
from graph.engine import GRAPH, Stores
from graph.hung_stores import watchdog
from graph.record.analyses import (
    Analysis,
    AnalysisState,
    add_log,
    finish,
    postpone,
    request_of,
    start,
)
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.postgresql_helpers import commit_unflushed
from model.errors import (
    AlreadyRunning,
    DamagedDocument,
    GraphMismatch,
    IndexProblem,
    InvalidSettings,
    ProjectError,
    ProjectionFailed,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from model.json_documents import canonical_json, digest_bytes

#: Pause between two checks for overdue jobs, s.
CHECK_INTERVAL_S = 5.0


class JobTimeouts:
    """Running jobs with their deadlines."""

    def __init__(self) -> None:
        self._until: dict[object, tuple[str, float]] = {}

    @contextmanager
    def over(self, name: str, limit_s: float) -> Iterator[None]:
        """Limit the time of a block, which may run in any thread."""
        key = object()
        self._until[key] = name, time.monotonic() + limit_s
        try:
            yield
        finally:
            del self._until[key]

    def overdue(self) -> str | None:
        """Return the name of a job that has exceeded its time limit, if any."""
        now = time.monotonic()
        return next((name for name, until in list(self._until.values()) if now > until), None)


def leave(status: int = 1) -> None:
    """End this process at once, even if one of its threads never returns."""
    sys.stderr.flush()
    os._exit(status)


async def guard(
    watch: JobTimeouts, end: Callable[[], None] = leave, look_s: float = CHECK_INTERVAL_S
) -> None:
    """Call ``end`` once a job is overdue."""
    while (name := watch.overdue()) is None:
        await asyncio.sleep(look_s)
    _LOG.error("job_stalled", extra={"task": name})
    end()


#: Maximum number of kept items, such as versions and readings: at most 80 MB, unless the last
#: request alone needs more.
KEPT_ITEMS = 50_000


class WorkerContext:
    """Context of one worker, whose jobs run one at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service = ServiceStores(settings)
        self.resolver = ResolverWorker()
        self.watch = JobTimeouts()
        self.index_memory = IndexMemory(settings.index_page_age_s)
        self.graph = GraphSource(KEPT_ITEMS)

    def require_own_graph(self, stores: Stores) -> None:
        """Refuse a graph that was not projected from this record, and have it projected again.

        :raises GraphMismatch: if there is such a graph; a rebuild is enqueued if the settings allow
        """
        with watchdog(GRAPH, self.settings.hung_store_s):
            if stores_agree(stores):
                return
        if self.settings.graph_rebuild:
            with stores.engine.begin() as connection:
                self.service.queue.enqueue(connection, PROJECT)
        raise GraphMismatch

    def close(self) -> None:
        """End the solver process and close all connections."""
        self.resolver.close()
        self.service.close()


#: Number of attempts before a job is given up; waiting for a store does not count as one.
MAX_ATTEMPTS = 3
#: Errors that another attempt may not meet.
PASSING = (StoreUnavailable, IndexProblem, AlreadyRunning)
#: Bounds of the pause before a job that waits for a store is tried again, s.
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 2, 30
#: Longer than any wait for an answer of a store, s.
_LONG_S = 1800.0
#: Errors of the service, not of the request: later the same request may succeed.
OURS = (SchemaMismatch, InvalidSettings, ServiceFailed, ProjectionFailed, DamagedDocument)

#: Answers a stored request; returns the identifier of the result's document.
Work = Callable[[WorkerContext, Analysis, dict[str, Any]], str]

_LOG = logging.getLogger(__name__)


class Postponed(Exception):
    """A store is unavailable: the job is tried again later, and this attempt does not count.

    :param delay_s: time until the next attempt
    """

    def __init__(self, delay_s: int) -> None:
        super().__init__(f"again in {delay_s} s")
        self.delay_s = delay_s


def pause_s(waited_s: float) -> int:
    """Seconds to pause before the next attempt if a store has been unavailable for ``waited_s``.

    >>> [pause_s(it) for it in (0, 5, 20, 600)]
    [2, 2, 10, 30]
    """
    return int(min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, waited_s / 2)))


def run(worker: WorkerContext, analysis_id: str, work: Work, job_id: int, attempt: int) -> None:
    """Run an analysis and store its final state.

    If the analysis already has a final state, nothing happens: a job may be delivered twice.

    :param attempt: from 1; attempts that an outage or the worker's end interrupted do not count
    :raises Postponed: if a store is unavailable, for less than the configured patience
    :raises ProjectError: one of :data:`PASSING`, if the job should be tried again
    """
    with worker.service.writing() as connection:
        commit_unflushed(connection)  # `end` follows
        analysis = start(connection, analysis_id)
    if analysis is None:
        return
    began = time.perf_counter()
    with _logged(worker, analysis) as end:
        _LOG.info("%s: attempt %d", analysis.kind, attempt)
        try:
            with worker.service.reading() as connection:
                request = orjson.loads(request_of(connection, worker.settings, analysis))
            with disk_errors():
                result = work(worker, analysis, request)
        except StoreUnavailable as error:
            _private("store_away", analysis, error)
            message = public_message(error)
            # After a long run before the outage, the waiting time starts again from zero.
            anew = time.perf_counter() - began > _LONG_S
            with worker.service.writing() as connection:
                worker.service.queue.uncount(connection, job_id)
                reason = f"{message}; trying again"
                waited_s = postpone(connection, analysis_id, reason, anew=anew).total_seconds()
            if waited_s < worker.settings.outage_patience_s:
                _LOG.warning(reason)
                raise Postponed(pause_s(waited_s)) from error
            end(AnalysisState.ERROR, f"given up after {waited_s:.0f} s: {message}")
        except PASSING as error:
            _private("attempt_failed", analysis, error)
            if attempt < MAX_ATTEMPTS:
                _LOG.warning("%s; trying again", public_message(error))
                raise
            message = f"given up after {attempt} attempts: {public_message(error)}"
            end(AnalysisState.ERROR, message)
        except OURS as error:
            _private("analysis_failed", analysis, error)
            # Settings and paths are private.
            is_public = isinstance(error, SchemaMismatch)
            cause = public_message(error) if is_public else "its log says why"
            end(AnalysisState.ERROR, f"the service cannot answer now: {cause}")
        except ProjectError as error:
            end(AnalysisState.FAILED, str(error))
        except Exception:
            # Only the service's log gets the cause, which may quote private data.
            _LOG.exception("analysis_broke", extra={"analysis_id": analysis_id})
            end(AnalysisState.ERROR, "the service has a bug; its log says which")
        else:
            _LOG.info("done in %.3f s", time.perf_counter() - began)
            end(AnalysisState.SUCCEEDED, result=result)


def log_for_client(message: str) -> None:
    """Add a line to the log of the running analysis, which its client can read."""
    _LOG.info(message)


def _private(event: str, analysis: Analysis, error: ProjectError) -> None:
    """Log an error with its details for the operator only."""
    _LOG.warning(event, extra={"analysis_id": analysis.analysis_id, "error": str(error)})


class _End(Protocol):
    """Stores the final state of an analysis and its log so far."""

    def __call__(
        self, state: AnalysisState, reason: str | None = None, *, result: str | None = None
    ) -> None: ...


class _LogLines(logging.Handler):
    """Collects log lines as JSON with the members that ``thamos`` formats."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or hasattr(record, "error"):
            return  # tracebacks and addresses of stores are for the operator
        line = {
            "asctime": datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S,%f")[:-3],
            "name": record.name,
            "levelname": record.levelname,
            "message": record.getMessage(),
        }
        self.lines.append(json.dumps(line))

    def store(self, connection: Connection, analysis_id: str) -> None:
        """Append the lines to the stored log."""
        add_log(connection, analysis_id, "".join(f"{it}\n" for it in self.lines))
        self.lines.clear()


@contextmanager
def _logged(worker: WorkerContext, analysis: Analysis) -> Iterator[_End]:
    """Store the lines that this module logs within the block as the log of the analysis."""
    lines = _LogLines()

    def end(state: AnalysisState, reason: str | None = None, *, result: str | None = None) -> None:
        if reason is not None:
            _LOG.error(reason)
        with worker.service.writing() as connection:
            lines.store(connection, analysis.analysis_id)
            finish(
                connection, analysis.analysis_id, state, reason=reason, result_document_id=result
            )

    _LOG.addHandler(lines)
    level, _LOG.level = _LOG.level, logging.INFO
    try:
        yield end
    finally:
        _LOG.level = level
        _LOG.removeHandler(lines)
        if lines.lines:
            with worker.service.writing() as connection:
                lines.store(connection, analysis.analysis_id)


#: Of most results; what is in one depends on the kind of its analysis.
SCHEMA_VERSION = "analysis-result-1"


def store_result(
    worker: WorkerContext,
    analysis: Analysis,
    result: Mapping[str, Any],
    kind: str | None = None,
    schema_version: str = SCHEMA_VERSION,
) -> str:
    """Store the result of an analysis.

    :param kind: of the document; by default that of the analysis with ``-result``
    :returns: the identifier of the document
    """
    body, kind = canonical_json(result), kind or f"{analysis.kind}-result"
    document_id = digest_bytes(body)
    document = DeliveredDocument(document_id, kind, schema_version, analysis.analysis_id, body)
    with worker.service.writing() as connection:
        add_documents(connection, worker.settings, [document])
    return document_id
