"""Whether the service lives and can be asked: for load balancers, and for people.

PostgreSQL is needed for everything. Without the graph what is recorded can still be read and
requests are accepted, so that is degraded, not dead.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from threading import Lock
from typing import Any

from flask import Flask, Response, jsonify

from api.service import ServiceStores, service
from common import __version__
from common.errors import ProjectError, SchemaMismatch
from graph.engine import server_agent
from graph.migrate import graph_state, relational_state
from graph.record.analyses import waiting_requests
from graph.record.freshness import COUNTED, lag_of, progress

#: A graph that does not answer within it counts as down.
GRAPH_PATIENCE_S = 2.0
#: An answer of the graph is good for so long: probes come often, and of many.
_KEPT_S = 2.0

_LOG = logging.getLogger(__name__)


class GraphProbe:
    """Asks the graph in a thread of its own: no driver bounds the wait for an answer.

    There is one question at a time; while it is not answered the graph counts as down.
    """

    def __init__(self, asked: ServiceStores) -> None:
        self._service = asked
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._answer: Future[str | None] | None = None
        self._until = 0.0

    def problem(self) -> str | None:
        """What is wrong with the graph, in a few words without addresses."""
        with self._lock:
            ended = self._answer is None or self._answer.done()
            if self._answer is None or (ended and time.monotonic() > self._until):
                self._pool = self._pool or ThreadPoolExecutor(1, "graph-probe")
                self._answer = self._pool.submit(self._ask)
                self._until = time.monotonic() + _KEPT_S
            answer = self._answer
        try:
            return answer.result(GRAPH_PATIENCE_S)
        except StillWaiting:
            return "does not answer in time"

    def _ask(self) -> str | None:
        try:
            with self._service.stores() as stores:
                server_agent(stores.driver, stores.database)
                pending = graph_state(stores.driver, stores.database).pending
        except SchemaMismatch as error:
            _LOG.warning("graph_schema", extra={"error": str(error)})
            return "its schema is not this release's"
        except ProjectError as error:
            _LOG.warning("graph_down", extra={"error": str(error)})
            return "does not answer"
        except Exception:
            _LOG.exception("graph_probe_broke")
            return "gives answers that are not understood"
        return "its schema is older than this release's" if pending else None


def register(app: Flask) -> None:
    """Serve the questions for health, outside the described API."""
    probe = GraphProbe(app.extensions["thoth"])

    def readyz() -> Response:
        """Say whether requests can be answered, and what of that is missing."""
        status, document = _readiness(probe)
        response = jsonify(document)
        response.status_code = status
        return response

    def readiness() -> Response:
        """The same in the words of the original service."""
        status, _ = _readiness(probe)
        response = jsonify(status="ready" if status == 200 else "unavailable", version=__version__)
        response.status_code = status
        return response

    app.add_url_rule("/livez", "livez", _livez)
    app.add_url_rule("/liveness", "liveness", _livez)
    app.add_url_rule("/readyz", "readyz", readyz)
    app.add_url_rule("/readiness", "readiness", readiness)


def _livez() -> Response:
    """Say that this process answers; asks no store."""
    return jsonify(status="alive", version=__version__)


def _readiness(probe: GraphProbe) -> tuple[int, dict[str, Any]]:
    record, ready = _record()
    graph: dict[str, Any] = {"status": "unknown"}
    if ready:
        problem = probe.problem()
        graph = {"status": "up" if problem is None else "down", **record.pop("graph")}
        if problem is not None:
            graph["problem"] = problem
    workers = record.pop("workers", {"status": "unknown"})
    degraded = graph["status"] == "down" or "problem" in workers
    word = "unavailable" if not ready else "degraded" if degraded else "ready"
    checks = {"postgresql": record, "graph": graph, "workers": workers}
    return 200 if ready else 503, {"status": word, "version": __version__, "checks": checks}


def _record() -> tuple[dict[str, Any], bool]:
    """PostgreSQL and what it knows of the graph, and whether both is as it must be."""
    try:
        with service().reading() as connection:
            state = relational_state(connection)
            if state.pending:
                return {"status": "up", "schema": state.current, "expected": state.expected}, False
            now, behind = progress(connection), lag_of(connection, COUNTED)
            waiting = waiting_requests(connection)
    except SchemaMismatch as error:
        _LOG.warning("record_schema", extra={"error": str(error)})
        return {"status": "up", "problem": "its schema is not this release's"}, False
    except ProjectError as error:
        _LOG.warning("record_down", extra={"error": str(error)})
        return {"status": "down", "problem": "does not answer"}, False
    lag_s = round(behind.oldest_s, 3)
    graph = {"revision": now.revision, "waiting": behind.count, "lag_s": lag_s}
    workers = {
        "status": "up" if waiting.workers else "none",
        "count": waiting.workers,
        "requests_waiting": waiting.requests,
        "longest_wait_s": round(waiting.longest_s, 3),
    }
    if waiting.problem is not None:
        workers["problem"] = waiting.problem
    document = {"status": "up", "schema": state.current, "graph": graph, "workers": workers}
    return document, True
