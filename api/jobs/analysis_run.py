"""One analysis, run by a worker: from its request to a terminal state, whatever happens."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from sqlalchemy import Connection

from api.errors import public_words
from api.jobs.worker_context import WorkerContext
from common.errors import (
    AlreadyRunning,
    DamagedDocument,
    IndexProblem,
    InvalidSettings,
    ProjectError,
    ProjectionFailed,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from common.formats.json_documents import canonical_json, digest_bytes
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

#: How often a job is taken before it is given up; waiting for a store is no attempt.
MAX_ATTEMPTS = 3
#: What another attempt may mend.
PASSING = (StoreUnavailable, IndexProblem, AlreadyRunning)
#: Between two looks whether a store is back, at least and at most.
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 2, 30
#: No answer of a store is waited for so long.
_LONG_S = 1800.0
#: What is wrong with the service and not with a request: the same may be answered tomorrow.
OURS = (SchemaMismatch, InvalidSettings, ServiceFailed, ProjectionFailed, DamagedDocument)

#: Answers a request: gives the identifier of the document that is its result.
Work = Callable[[WorkerContext, Analysis, dict[str, Any]], str]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A job as it was taken by a worker.

    :param number: from 1; those that a store or the worker's own end broke off do not count
    """

    job_id: int
    number: int


class Postponed(Exception):
    """A store is away: the job waits for it, and this was no attempt.

    :param delay_s: until it is to be tried again
    """

    def __init__(self, delay_s: int) -> None:
        super().__init__(f"again in {delay_s} s")
        self.delay_s = delay_s


def pause_s(waited_s: float) -> int:
    """Until the next look, if a store has been away for so long.

    >>> [pause_s(it) for it in (0, 5, 20, 600)]
    [2, 2, 10, 30]
    """
    return int(min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, waited_s / 2)))


def run(shop: WorkerContext, analysis_id: str, work: Work, attempt: Attempt) -> None:
    """Do the work of an analysis and give it its end.

    One that has its end already is left alone: jobs may be delivered twice.

    :raises Postponed: if a store is away, and has not been for too long
    :raises ProjectError: one of :data:`PASSING`, if it is to be tried again
    """
    with shop.service.writing() as connection:
        analysis = start(connection, analysis_id)
        if analysis is None:
            return
        request = orjson.loads(request_of(connection, shop.settings, analysis))
    began = time.perf_counter()
    with _logged(shop, analysis) as end:
        _LOG.info("%s: attempt %d", analysis.kind, attempt.number)
        try:
            result = work(shop, analysis, request)
        except StoreUnavailable as error:
            _private("store_away", analysis, error)
            words = public_words(error)
            waited_s = _postpone(shop, analysis, attempt, words, time.perf_counter() - began)
            if waited_s < shop.settings.outage_patience_s:
                _LOG.warning("%s; it is tried again", words)
                raise Postponed(pause_s(waited_s)) from error
            end(AnalysisState.ERROR, f"given up after {waited_s:.0f} s: {words}")
        except PASSING as error:
            _private("attempt_failed", analysis, error)
            if attempt.number < MAX_ATTEMPTS:
                _LOG.warning("%s; it is tried again", public_words(error))
                raise
            words = f"given up after {attempt.number} attempts: {public_words(error)}"
            end(AnalysisState.ERROR, words)
        except OURS as error:
            _private("analysis_failed", analysis, error)
            end(AnalysisState.ERROR, f"the service cannot answer now: {_words_of_ours(error)}")
        except ProjectError as error:
            end(AnalysisState.FAILED, str(error))
        except Exception:
            # The cause is in the service's log: it may quote what is nobody else's to know.
            _LOG.exception("analysis_broke", extra={"analysis_id": analysis_id})
            end(AnalysisState.ERROR, "the service made a mistake; its log says which")
        else:
            _LOG.info("done within %.3f s", time.perf_counter() - began)
            end(AnalysisState.SUCCEEDED, result=result)


def tell(words: str) -> None:
    """Tell people something of the analysis that is under way, in its log."""
    _LOG.info(words)


def _postpone(
    shop: WorkerContext, analysis: Analysis, attempt: Attempt, words: str, ran_s: float
) -> float:
    """Have it wait for a store; says since when it does, in seconds.

    Something that ran for long has met another outage than the one that it waited for before.
    """
    reason = f"{words}; it is tried again"
    with shop.service.writing() as connection:
        shop.service.queue.uncount(connection, attempt.job_id)
        waited = postpone(connection, analysis.analysis_id, reason, anew=ran_s > _LONG_S)
    return waited.total_seconds()


def _private(event: str, analysis: Analysis, error: ProjectError) -> None:
    """Tell whoever runs the service, and nobody else."""
    _LOG.warning(event, extra={"analysis_id": analysis.analysis_id, "error": str(error)})


def _words_of_ours(error: ProjectError) -> str:
    """Settings and paths are nobody else's to know."""
    return public_words(error) if isinstance(error, SchemaMismatch) else "its log says why"


class _End(Protocol):
    """Gives an analysis its end, with what its log was told until then."""

    def __call__(
        self, state: AnalysisState, reason: str | None = None, *, result: str | None = None
    ) -> None: ...


class _LogLines(logging.Handler):
    """Keeps what is told in the words that clients colour."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or hasattr(record, "error"):
            return  # tracebacks and where stores are is for whoever runs the service
        line = {
            "asctime": datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S,%f")[:-3],
            "name": record.name,
            "levelname": record.levelname,
            "message": record.getMessage(),
        }
        self.lines.append(json.dumps(line))

    def store(self, connection: Connection, analysis_id: str) -> None:
        """Hand the lines over to the record."""
        add_log(connection, analysis_id, "".join(f"{it}\n" for it in self.lines))


@contextmanager
def _logged(shop: WorkerContext, analysis: Analysis) -> Iterator[_End]:
    """Store what this module's log is told within the block with the analysis."""
    kept = _LogLines()

    def end(state: AnalysisState, reason: str | None = None, *, result: str | None = None) -> None:
        if reason is not None:
            _LOG.error(reason)
        with shop.service.writing() as connection:
            kept.store(connection, analysis.analysis_id)
            finish(
                connection, analysis.analysis_id, state, reason=reason, result_document_id=result
            )
        kept.lines.clear()

    _LOG.addHandler(kept)
    level, _LOG.level = _LOG.level, logging.INFO
    try:
        yield end
    finally:
        _LOG.level = level
        _LOG.removeHandler(kept)
        if kept.lines:
            with shop.service.writing() as connection:
                kept.store(connection, analysis.analysis_id)


#: Of all of them; what is in one depends on the kind of its analysis.
SCHEMA_VERSION = "analysis-result-1"


def store_result(shop: WorkerContext, analysis: Analysis, result: Mapping[str, Any]) -> str:
    """Store what an analysis found.

    :returns: the identifier of the document
    """
    body = canonical_json(result)
    document = DeliveredDocument(
        digest_bytes(body), f"{analysis.kind}-result", SCHEMA_VERSION, analysis.analysis_id, body
    )
    with shop.service.writing() as connection:
        add_documents(connection, shop.settings, [document])
    return document.document_id
