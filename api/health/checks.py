"""Liveness and readiness, for load balancers and people.

The service needs PostgreSQL. Without the graph or a worker, or if requests or the projection stand
still, the service is degraded: it still returns recorded data and accepts requests.
"""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from functools import partial
from threading import Lock
from typing import Any

from flask import Flask, Response, current_app, jsonify, request
from sqlalchemy import Connection

from api.http.errors import ApiError, ProblemType
from api.http.request_context import READS
from api.store_access import EXTENSION, ServiceStores, service
from common import __version__
from graph.checkpoints import stores_agree
from graph.embedded.home import FREE_SPACE, free_bytes, has_full_disk
from graph.engine import server_agent
from graph.migrate import graph_state, relational_state
from graph.record.document_store import identify_store
from graph.record.freshness import COUNTED, lag_of, progress
from graph.record.waiting_requests import UNATTENDED_AFTER, waiting_requests
from model.errors import (
    DocumentStoreMismatch,
    GraphMismatch,
    ProjectError,
    SchemaMismatch,
    StoreUnavailable,
)

#: A store that does not answer within this time counts as down, s.
PROBE_TIMEOUT_S = 2.0
NO_ANSWER = "does not answer in time"
DISK_FULL = "its disk is full"
OTHER_STORE = "it belongs to another record: see DOCUMENT_STORE_URL"
#: Key of the probes in ``app.extensions``.
_PROBES = "thoth-store-probes"
#: How long answers are reused, s; those of probes that write for longer.
_KEPT_S, _WRITES_KEPT_S = 2.0, 10.0
_WRITES_TEMPORARY_FILES = """
    SELECT count(*)
    FROM (SELECT n FROM generate_series(1, 100000) AS n ORDER BY n DESC OFFSET 0) AS sorted
"""

_LOG = logging.getLogger(__name__)


class StoreProbe:
    """Probes a store in a thread, because drivers do not limit the wait for an answer.

    Only one probe runs at a time; a store that does not answer the probe in time counts as down.

    :param ask: returns the problem of the store, or ``None``
    :param kept_s: how long an answer is reused, since probes are frequent
    """

    def __init__(self, ask: Callable[[], str | None], kept_s: float = _KEPT_S) -> None:
        self._ask, self._kept_s = ask, kept_s
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._answer: Future[str | None] | None = None
        self._until = 0.0

    def start(self) -> Future[str | None]:
        """Start a probe unless one is running or the last answer is still good."""
        with self._lock:
            ended = self._answer is None or self._answer.done()
            if self._answer is None or (ended and time.monotonic() > self._until):
                self._pool = self._pool or ThreadPoolExecutor(1, "store-probe")
                self._answer = self._pool.submit(self._probe_result)
                self._until = time.monotonic() + self._kept_s
            return self._answer

    def problem(self, until: float) -> str | None:
        """Return the problem of the store, without its URL; ``None`` if it works.

        :param until: time of the monotonic clock at which no answer counts as a problem, s
        """
        try:
            return self.start().result(max(0.0, until - time.monotonic()))
        except StillWaiting:
            return NO_ANSWER

    def _probe_result(self) -> str | None:
        try:
            return self._ask()
        except Exception:
            _LOG.exception("store_probe_broke")
            return "answers unexpectedly"


def _graph_problem(service: ServiceStores) -> str | None:
    try:
        with service.stores() as stores:
            server_agent(stores.driver, stores.database)
            pending = graph_state(stores.driver, stores.database).pending
            agrees = bool(pending) or stores_agree(stores)
    except SchemaMismatch as error:
        _LOG.warning("graph_schema", extra={"error": str(error)})
        return "its schema is not this release's"
    except ProjectError as error:
        _LOG.warning("graph_down", extra={"error": str(error)})
        return "does not answer"
    if not agrees:
        _LOG.error("graph_mismatch", extra={"error": str(GraphMismatch())})
        return "it was not projected from this record: run `thoth graph rebuild`"
    return "its schema is older than this release's" if pending else None


def _documents_problem(service: ServiceStores) -> str | None:
    try:
        with service.writing() as connection:
            identify_store(connection, service.settings, now=True)
    except DocumentStoreMismatch as error:
        _LOG.error("document_store_mismatch", extra={"error": str(error)})
        return OTHER_STORE
    except ProjectError as error:
        _LOG.warning("document_store_down", extra={"error": str(error)})
        return "cannot be read or written"
    return None


def _space_problem(service: ServiceStores) -> str | None:
    """Whether PostgreSQL's disk is full, which its other answers do not show.

    Sorts more than fits into memory, so that PostgreSQL writes a temporary file of some megabytes.
    """
    try:
        with service.reading() as connection:
            connection.exec_driver_sql("SET LOCAL work_mem = '64kB'")
            connection.exec_driver_sql(_WRITES_TEMPORARY_FILES)
    except StoreUnavailable as error:
        if error.hint != FREE_SPACE:
            return None  # Told by another check.
        _LOG.error("record_disk_full", extra={"error": str(error)})
        return DISK_FULL
    return None


def register(app: Flask) -> None:
    """Add the health endpoints, which the OpenAPI document does not list, and a check of writes."""
    stores: ServiceStores = app.extensions[EXTENSION]
    app.extensions[_STATE] = SchemaCheck(stores)
    app.extensions[_PROBES] = {
        "graph": StoreProbe(partial(_graph_problem, stores)),
        "documents": StoreProbe(partial(_documents_problem, stores), _WRITES_KEPT_S),
        "space": StoreProbe(partial(_space_problem, stores), _WRITES_KEPT_S),
    }

    def readyz() -> Response:
        """Whether requests can be answered, and the problems.

        With the parameter ``writes``, a server that only reads is unavailable.
        """
        status, document = readiness()
        if (
            "writes" in request.args
            and document["checks"]["postgresql"].get("problem") == READ_ONLY
        ):
            status, document = 503, document | {"status": "unavailable"}
        response = jsonify(document)
        response.status_code = status
        return response

    def original_readiness() -> Response:
        """Whether requests can be answered, in the format of the original service."""
        status, _ = readiness()
        response = jsonify(status="ready" if status == 200 else "unavailable", version=__version__)
        response.status_code = status
        return response

    app.add_url_rule("/livez", "livez", _livez)
    app.add_url_rule("/liveness", "liveness", _livez)
    app.add_url_rule("/readyz", "readyz", readyz)
    app.add_url_rule("/readiness", "readiness", original_readiness)


def _livez() -> Response:
    """Whether this process answers; uses no store."""
    return jsonify(status="alive", version=__version__)


def readiness() -> tuple[int, dict[str, Any]]:
    """Status code and document of ``/readyz``."""
    probes: dict[str, StoreProbe] = current_app.extensions[_PROBES]
    checks, ready = _record_checks()
    record, graph = checks["postgresql"], checks["graph"]
    documents: dict[str, Any] = {"status": "unknown"}
    if ready:
        for probe in probes.values():
            probe.start()
        until = time.monotonic() + PROBE_TIMEOUT_S
        graph |= _store_check(probes["graph"].problem(until))
        documents = _store_check(probes["documents"].problem(until))
        # A slow answer says nothing about space.
        if probes["space"].problem(until) == DISK_FULL:
            record |= {"status": "full", "problem": DISK_FULL}
    checks |= {"documents": documents, "disk": _disk()}
    ready = ready and "full" not in (record["status"], checks["disk"]["status"])
    ready = ready and documents.get("problem") != OTHER_STORE
    degraded = any("problem" in check for check in checks.values())
    word = "unavailable" if not ready else "degraded" if degraded else "ready"
    return 200 if ready else 503, {"status": word, "version": __version__, "checks": checks}


def _store_check(problem: str | None) -> dict[str, Any]:
    return {"status": "up"} if problem is None else {"status": "down", "problem": problem}


def _record_checks() -> tuple[dict[str, dict[str, Any]], bool]:
    """Return the checks of PostgreSQL, the graph and workers, and whether PostgreSQL is usable."""
    record: dict[str, Any] = {"status": "up"}
    graph: dict[str, Any] = {"status": "unknown"}
    workers: dict[str, Any] = {"status": "unknown"}
    ready = False
    try:
        with service().reading() as connection:
            record |= _schema(connection)
            graph |= _graph_lag(connection)
            workers = _workers(connection)
            ready = True
    except SchemaMismatch as error:
        _LOG.warning("record_schema", extra={"error": str(error)})
        record["problem"] = FOREIGN
    except ProjectError as error:
        _LOG.warning("record_down", extra={"error": str(error)})
        record = {"status": "down", "problem": "does not answer"}
    return {"postgresql": record, "graph": graph, "workers": workers}, ready


def _schema(connection: Connection) -> dict[str, Any]:
    """The revision of PostgreSQL, and if that is older, the expected revision.

    A running server goes on while a newer release migrates: its steps keep what this release reads.
    On the schema of an earlier release, it answers reads.

    :raises SchemaMismatch: if another program migrated it, or it has no schema
    """
    try:
        schema = relational_state(connection)
    except SchemaMismatch as error:
        if not error.newer:
            raise
        _LOG.warning("record_schema", extra={"error": str(error)})
        return {"problem": "a newer release migrated it: upgrade this server"}
    if schema.current is None:
        raise SchemaMismatch("PostgreSQL has no schema", "run `thoth migrate`")
    older = {"expected": schema.expected, "problem": READ_ONLY} if schema.pending else {}
    return {"schema": schema.current, **older}


def _disk() -> dict[str, Any]:
    """The check of the disk of ``THOTH_HOME``, which holds logs, certificates and documents."""
    home = service().settings.home
    if not has_full_disk(home):
        return {"status": "up"}
    _LOG.error("disk_full", extra={"folder": str(home), "free_bytes": free_bytes(home)})
    return {"status": "full", "problem": "the disk of THOTH_HOME is full"}


def _graph_lag(connection: Connection) -> dict[str, Any]:
    lag = lag_of(connection, COUNTED)
    stands = lag.oldest_s > UNATTENDED_AFTER.total_seconds()
    problem = f"it has been behind the record for {lag.oldest_s:.0f} s: run `thoth graph sync`"
    return {
        **({"problem": problem} if stands else {}),
        "revision": progress(connection).revision,
        "waiting": lag.count,
        "lag_s": round(lag.oldest_s, 3),
    }


def _workers(connection: Connection) -> dict[str, Any]:
    waiting = waiting_requests(connection)
    problem = {} if waiting.problem is None else {"problem": waiting.problem}
    return {
        "status": "up" if waiting.workers else "none",
        "count": waiting.workers,
        "requests_waiting": waiting.requests,
        "jobs_waiting": waiting.jobs,
        "longest_wait_s": round(waiting.longest_s, 3),
        **problem,
    }


#: What operators see on ``/readyz`` and clients in refused writes.
READ_ONLY = "read-only until `thoth migrate`"
FOREIGN = "its schema is not this release's"
#: How long a successful check counts, s.
_SCHEMA_KEPT_S = 5.0
_STATE = "thoth-schema"


class SchemaCheck:
    """Checks the schema before a write, unless a recent check was successful."""

    def __init__(self, service: ServiceStores) -> None:
        self._service = service
        self._good_until = -math.inf

    def problem(self) -> str | None:
        """Why nothing may be written: PostgreSQL lacks steps, or another program migrated it.

        :raises StoreUnavailable: if PostgreSQL does not answer
        """
        if time.monotonic() < self._good_until:
            return None
        with self._service.glancing() as connection:
            try:
                problem = READ_ONLY if relational_state(connection).pending else None
            except SchemaMismatch as error:
                problem = None if error.newer else FOREIGN
        if problem is None:
            self._good_until = time.monotonic() + _SCHEMA_KEPT_S
        return problem


def refuse_writes() -> None:
    """:raises ApiError: 503 if this request may write, and the schema is older or a foreign one"""
    check: SchemaCheck = current_app.extensions[_STATE]
    if request.method in READS or (problem := check.problem()) is None:
        return
    detail = f"the service is {READ_ONLY}" if problem == READ_ONLY else f"PostgreSQL: {problem}"
    raise ApiError(503, ProblemType.UNAVAILABLE, detail, headers={"Retry-After": "60"})
