"""One analysis, run by a worker: from its request to a terminal state, whatever happens."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from sqlalchemy import Connection

from api.errors import public_words
from api.jobs.workshop import Workshop
from common.errors import (
    AlreadyRunning,
    IndexProblem,
    InvalidSettings,
    ProjectError,
    ProjectionFailed,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from graph.repositories import analyses
from graph.repositories.analyses import Analysis, State

#: How often a job is taken before it is given up.
MAX_ATTEMPTS = 3
#: What another attempt may mend.
PASSING = (StoreUnavailable, IndexProblem, AlreadyRunning)
#: What is wrong with the service and not with a request: the same may be answered tomorrow.
OURS = (SchemaMismatch, InvalidSettings, ServiceFailed, ProjectionFailed)

#: Answers a request: gives the identifier of the document that is its result.
Work = Callable[[Workshop, Analysis, dict[str, Any]], str]

_LOG = logging.getLogger(__name__)


def run(shop: Workshop, analysis_id: str, work: Work) -> None:
    """Do the work of an analysis and give it its end.

    One that has its end already is left alone: jobs may be delivered twice.

    :raises ProjectError: one of :data:`PASSING`, if it is to be tried again
    """
    with shop.service.writing() as connection:
        analysis = analyses.start(connection, analysis_id)
        if analysis is None:
            return
        request = orjson.loads(analyses.request_of(connection, shop.settings, analysis))
    began = time.perf_counter()
    with _logged(shop, analysis) as end:
        _LOG.info("%s: attempt %d", analysis.kind, analysis.attempts)
        try:
            result = work(shop, analysis, request)
        except PASSING as error:
            if analysis.attempts < MAX_ATTEMPTS:
                _private("attempt_failed", analysis, error)
                _LOG.warning("%s; it is tried again", public_words(error))
                raise
            _private("given_up", analysis, error)
            words = f"given up after {analysis.attempts} attempts: {public_words(error)}"
            end(State.ERROR, words)
        except OURS as error:
            _private("analysis_failed", analysis, error)
            end(State.ERROR, f"the service cannot answer now: {_words_of_ours(error)}")
        except ProjectError as error:
            end(State.FAILED, str(error))
        except Exception:
            # The cause is in the service's log: it may quote what is nobody else's to know.
            _LOG.exception("analysis_broke", extra={"analysis_id": analysis_id})
            end(State.ERROR, "the service made a mistake; its log says which")
        else:
            _LOG.info("done within %.3f s", time.perf_counter() - began)
            end(State.SUCCEEDED, result=result)


def tell(words: str) -> None:
    """Tell people something of the analysis that is under way, in its log."""
    _LOG.info(words)


def _private(event: str, analysis: Analysis, error: ProjectError) -> None:
    """Tell whoever runs the service, and nobody else."""
    _LOG.warning(event, extra={"analysis_id": analysis.analysis_id, "error": str(error)})


def _words_of_ours(error: ProjectError) -> str:
    """Settings and paths are nobody else's to know."""
    return public_words(error) if isinstance(error, SchemaMismatch) else "its log says why"


class _End(Protocol):
    """Gives an analysis its end, with what its log was told until then."""

    def __call__(
        self, state: State, reason: str | None = None, *, result: str | None = None
    ) -> None: ...


class _Lines(logging.Handler):
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
        analyses.add_log(connection, analysis_id, "".join(f"{it}\n" for it in self.lines))


@contextmanager
def _logged(shop: Workshop, analysis: Analysis) -> Iterator[_End]:
    """Store what this module's log is told within the block with the analysis."""
    kept = _Lines()

    def end(state: State, reason: str | None = None, *, result: str | None = None) -> None:
        if reason is not None:
            _LOG.error(reason)
        with shop.service.writing() as connection:
            kept.store(connection, analysis.analysis_id)
            analyses.finish(
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
