"""Traces, and ``/metrics`` for Prometheus: requests of all processes, the queue and the stores.

A request has one trace: the server, the queue, the worker and both stores.

Values are in files that processes share, or in memory while the disk is full. The Prometheus client
maps sparse files into memory. If the disk fills up, the first write to a new page kills the process
with SIGBUS. Here, the blocks of a file are allocated before they are mapped. While that fails,
values are kept in memory, where other processes do not see them.
"""

import logging
import mmap
import os
import platform
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import Connection, text

from api.access import METRICS, PAGE_TOKEN, UNLIMITED, require
from api.health.checks import readiness
from api.jobs.queue import ALIVE_S, QueueName, attending_workers, oldest_waits
from api.server.certificates import expires_at
from api.server.supervisor import files
from api.store_access import ServiceStores, service
from common import __version__
from common.tracing import TRACEPARENT, span, start_tracing
from graph.record.access import Scope
from graph.record.advice import recent_statuses
from graph.record.analyses import states, times, workers
from graph.record.events import notice_lag
from graph.record.freshness import COUNTED, lag_of, source_successes
from graph.record.loop import recent_identical_pairs
from graph.record.quarantine import count_refusals
from graph.record.releases import recent_hash_alarms
from graph.store_tracing import trace_stores
from model.errors import ProjectError, Reason

#: Initial size of a file; the client writes the format that it reads.
_FIRST_BYTES = 1 << 16
#: Pause before a value that is kept in memory is tried to be written to its file again, s.
RETRY_S = 5.0

_LOG = logging.getLogger(__name__)


class AllocatedValues(MmapedDict):
    """Values of one kind of metric of this process."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        """Continue an existing file."""
        if read_mode:
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
            return
        self._fname = filename
        self._in_file = False
        self._retry_at = 0.0
        self._positions: dict[str, int] = {}
        path = Path(filename)
        content = path.read_bytes() if path.exists() else b""
        self._capacity = max(_FIRST_BYTES, len(content))
        self._m = mmap.mmap(-1, self._capacity)
        self._m[: len(content)] = content
        self._used = int.from_bytes(self._m[:4], "little") or 8
        self._m[:4] = self._used.to_bytes(4, "little")
        for key, _, _, position in self._read_all_values():  # type: ignore[no-untyped-call]
            self._positions[key] = position
        self._to_file()

    def _init_value(self, key: str) -> None:
        needed = self._used + len(key.encode()) + 32  # length, padding and two numbers
        if needed > self._capacity:
            content = self._m[: self._used]
            self._m.close()
            self._in_file = False
            self._capacity *= 2
            self._m = mmap.mmap(-1, self._capacity)
            self._m[: len(content)] = content
            self._to_file()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Write a value, and first move all values to the file if there is space again."""
        if not self._in_file and time.monotonic() > self._retry_at:
            self._to_file()
        super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Release the memory."""
        self._m.close()

    def _to_file(self) -> None:
        """Map the file instead of memory, if the disk has space for it."""
        path = Path(self._fname)
        try:
            with path.open("a+b") as file:
                os.posix_fallocate(file.fileno(), 0, self._capacity)
                mapped = mmap.mmap(file.fileno(), self._capacity)
        except OSError as error:
            # Other processes could not read an empty file.
            with suppress(OSError):
                path.unlink()
            self._retry_at = time.monotonic() + RETRY_S
            _LOG.warning("metrics_in_memory", extra={"error": error.strerror})
            return
        mapped[:] = self._m[:]
        self._m.close()
        self._m, self._in_file = mapped, True


#: How long metrics are reused whose queries count many rows, s.
_KEPT_S = 300.0
#: Key of these metrics in ``app.extensions``.
_KEPT = "thoth-kept-metrics"
_STATUSES = ("ready", "degraded", "unavailable")
_DATABASE_BYTES = text("SELECT pg_database_size(current_database())")
#: The gauges by name, each with its documentation and labels.
_GAUGES: Mapping[str, tuple[str, ...]] = {
    "thoth_record_up": ("Whether PostgreSQL answers.",),
    "thoth_disk_free_bytes": ("Free space on the disk of THOTH_HOME.",),
    "thoth_disk_size_bytes": ("Size of the disk of THOTH_HOME.",),
    "thoth_queue_jobs": ("Jobs that wait.", "queue"),
    "thoth_queue_age_seconds": ("How long the oldest job that is due has waited.", "queue"),
    "thoth_queue_workers": ("Workers with a heartbeat that take jobs from a queue.", "queue"),
    "thoth_outbox_entries": ("Entries of the record that the graph does not contain yet.",),
    "thoth_outbox_age_seconds": ("How long the oldest entry has waited for the graph.",),
    "thoth_notices_waiting": ("Notices that wait for their first or next attempt.",),
    "thoth_notices_age_seconds": ("How long the oldest waiting notice has waited.",),
    "thoth_notices_given_up": ("Notices that were given up in the last day.",),
    "thoth_source_success_timestamp_seconds": (
        "When a source was last read completely; 0 if it never was.", "kind", "source",
    ),
    "thoth_workers": ("Workers with a heartbeat within 20 seconds.",),
    "thoth_analyses": ("Requests of the last day, and all that wait or run.", "kind", "state"),
    "thoth_quarantine_entries": ("Unresolved entries of the quarantine.", "reason"),
    "thoth_hash_alarms": ("Files of the last 7 days whose hash differs from the first known.",),
    "thoth_advice": ("Advice of the last day; feasible advice lacks a proof.", "status"),
    "thoth_identical_pairs": (
        "Comparisons of a stack with itself in the last 30 nights.", "verdict",
    ),
    "thoth_record_size_bytes": ("Size of the database in PostgreSQL.",),
    "thoth_readiness": ("1 for the status of /readyz, otherwise 0.", "status"),
    "thoth_graph_up": ("Whether the graph answers as it should.",),
    "thoth_build_info": ("The version of this release.", "version", "python"),
    "thoth_certificate_expiry_timestamp_seconds": ("When the certificate of the server expires.",),
}  # fmt: skip


def _gauge(name: str, values: float | Mapping[Any, float] | None) -> Metric:
    """A gauge with its value, or with a value for each value of its labels.

    :param values: ``None`` if the value is unknown
    """
    documentation, *labels = _GAUGES[name]
    gauge = GaugeMetricFamily(name, documentation, labels=labels)
    if isinstance(values, Mapping):
        for key, value in values.items():
            gauge.add_metric(
                list(map(str, key if isinstance(key, tuple) else (key,))), float(value)
            )
    elif values is not None:
        gauge.add_metric([], float(values))
    return gauge


class KeptMetrics:
    """Metrics of the knowledge, which are read again after some minutes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._until = 0.0
        self._metrics: list[Metric] = []

    def read(self, connection: Connection) -> list[Metric]:
        """The metrics; one thread reads them, the others wait for it."""
        with self._lock:
            if time.monotonic() > self._until:
                self._metrics = list(_knowledge(connection))
                self._until = time.monotonic() + _KEPT_S
            return self._metrics


class StoreMetrics(Collector):
    """Metrics of the stores, the queue, the knowledge and the disk; few if PostgreSQL is down."""

    def __init__(self, service: ServiceStores, kept: KeptMetrics) -> None:
        self._service = service
        self._kept = kept

    def collect(self) -> Iterator[Metric]:
        """Read all metrics from PostgreSQL with one connection."""
        try:
            with self._service.reading() as connection:
                metrics = [
                    *self._waiting(connection), *_analyses(connection),
                    *self._kept.read(connection),
                ]  # fmt: skip
        except ProjectError:
            metrics = []
        yield from (_gauge("thoth_record_up", bool(metrics)), *metrics)
        yield from _readiness()
        home = self._service.settings.home
        if home.exists():
            disk = shutil.disk_usage(home)
            yield _gauge("thoth_disk_free_bytes", disk.free)
            yield _gauge("thoth_disk_size_bytes", disk.total)

    def _waiting(self, connection: Connection) -> Iterator[Metric]:
        waiting = {it: self._service.queue.waiting(connection, it) for it in QueueName}
        yield _gauge("thoth_queue_jobs", waiting)
        yield _gauge("thoth_queue_age_seconds", oldest_waits(connection))
        yield _gauge("thoth_queue_workers", attending_workers(connection))
        behind = lag_of(connection, COUNTED)
        yield _gauge("thoth_outbox_entries", behind.count)
        yield _gauge("thoth_outbox_age_seconds", behind.oldest_s)
        notices = notice_lag(connection)
        yield _gauge("thoth_notices_waiting", notices.waiting)
        yield _gauge("thoth_notices_age_seconds", notices.oldest_s)
        yield _gauge("thoth_notices_given_up", notices.given_up)
        successes = source_successes(connection)
        ends = {(it.kind, it.source): it.succeeded_at.timestamp() for it in successes}
        yield _gauge("thoth_source_success_timestamp_seconds", ends)
        yield _gauge("thoth_workers", workers(connection, timedelta(seconds=ALIVE_S)))


def _analyses(connection: Connection) -> Iterator[Metric]:
    counts = {(kind, state): count for kind, state, count in states(connection)}
    yield _gauge("thoth_analyses", counts)
    # The type of metrics with the label ``quantile``; the client's own class has no quantiles.
    waited = Metric(
        "thoth_analysis_wait_seconds", "How long requests of the last day waited.", "summary"
    )
    ran = Metric("thoth_analysis_run_seconds", "How long these requests ran.", "summary")
    for analysis in times(connection):
        for place, quantile in enumerate(("0.5", "0.99")):
            labels = {"kind": analysis.kind, "quantile": quantile}
            waited.add_sample(waited.name, labels, analysis.waited_s[place])
            ran.add_sample(ran.name, labels, analysis.ran_s[place])
    yield from (waited, ran)


def _knowledge(connection: Connection) -> Iterator[Metric]:
    """Metrics of the knowledge, which change slowly."""
    # Growth is measured from a number, so an empty quarantine needs one, too.
    refusals = {str(Reason.TAMPERED): 0, **count_refusals(connection)}
    yield _gauge("thoth_quarantine_entries", refusals)
    yield _gauge("thoth_hash_alarms", recent_hash_alarms(connection))
    yield _gauge("thoth_advice", recent_statuses(connection))
    yield _gauge("thoth_identical_pairs", recent_identical_pairs(connection))
    yield _gauge("thoth_record_size_bytes", connection.scalar(_DATABASE_BYTES) or 0)


def _readiness() -> Iterator[Metric]:
    """The status of ``/readyz``, the version, and when the certificate expires."""
    _, document = readiness()
    yield _gauge("thoth_readiness", {it: document["status"] == it for it in _STATUSES})
    graph = document["checks"]["graph"]["status"]
    yield _gauge("thoth_graph_up", None if graph == "unknown" else graph == "up")
    yield _gauge("thoth_build_info", {(__version__, platform.python_version()): 1})
    path: Path | None = current_app.config["CERTIFICATE"]
    expires = None if path is None else expires_at(path)
    ends = None if expires is None else expires.timestamp()
    yield _gauge("thoth_certificate_expiry_timestamp_seconds", ends)


#: Other methods share one label, so that clients cannot create new series.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: Attempts to read the files of processes, which may start or end meanwhile.
_TRIES = 3

# The Prometheus client keeps values of several processes there.
values.MmapedDict = AllocatedValues  # type: ignore[attr-defined]

#: Metrics of this process; with several processes, their files hold them.
PROCESS_REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    "thoth_http_requests", "Requests by pattern of their URL, method and status.",
    ("route", "method", "status"), registry=PROCESS_REGISTRY,
)  # fmt: skip
DURATIONS = Histogram(
    "thoth_http_request_seconds", "How long requests took in the application.",
    ("route", "method"), buckets=_SECONDS, registry=PROCESS_REGISTRY,
)  # fmt: skip
RESTARTS = Counter(
    "thoth_worker_restarts", "Workers that ended unexpectedly and were restarted.",
    registry=PROCESS_REGISTRY,
)  # fmt: skip


class _AllProcesses(Collector):
    """Sums of the metrics in the files of all processes."""

    def collect(self) -> Iterable[Metric]:
        for _ in range(_TRIES):
            folder_files = files()
            if folder_files is None:
                return PROCESS_REGISTRY.collect()
            try:
                merged = MultiProcessCollector.merge(folder_files, accumulate=True)  # type: ignore[no-untyped-call]
                return list(merged)
            except (FileNotFoundError, struct.error):
                continue  # a process has just started or ended
        return []


def register_metrics(app: Flask) -> None:
    """Count the requests of ``app`` and serve ``/metrics``."""
    app.extensions[_KEPT] = KeptMetrics()
    app.after_request(_count)
    app.add_url_rule("/metrics", METRICS, _metrics)


def _metrics() -> Response:
    """All metrics in Prometheus' text format."""
    require(Scope.READ)
    registry = CollectorRegistry()
    registry.register(_AllProcesses())
    registry.register(StoreMetrics(service(), current_app.extensions[_KEPT]))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _count(response: Response) -> Response:
    if request.endpoint in UNLIMITED or PAGE_TOKEN in request.environ:
        return response
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.method in METHODS else "other"
    REQUESTS.labels(route, method, str(response.status_code)).inc()
    DURATIONS.labels(route, method).observe(time.perf_counter() - g.began)
    return response


def trace_process() -> None:
    """Record spans of this process if the environment names a collector; call it after forking."""
    if start_tracing():
        trace_stores()


def register_traces(app: Flask) -> None:
    """Record a span for each request of ``app``, except those for monitoring."""
    app.before_request(_begin)
    app.after_request(_describe)
    app.teardown_request(_end)


def _begin() -> None:
    if request.endpoint in UNLIMITED:
        return
    method = request.method if request.method in METHODS else "_OTHER"
    attributes = {"http.request.method": method}
    name = method
    if request.url_rule is not None:  # a pattern, never an address
        attributes["http.route"] = request.url_rule.rule
        name = f"{method} {request.url_rule.rule}"
    opened = span(name, "server", attributes, traceparent=request.headers.get(TRACEPARENT))
    g.span, g.end_span = opened.__enter__(), opened.__exit__


def _describe(response: Response) -> Response:
    current: Any = g.get("span")
    if current is not None:
        current.set_attribute("http.response.status_code", response.status_code)
        if response.status_code >= 500:
            current.set_attribute("error.type", str(response.status_code))
    return response


def _end(_error: BaseException | None) -> None:
    end: Callable[..., object] | None = g.pop("end_span", None)
    if end is not None:
        end(None, None, None)


def job_span(task: str, queue: str, traceparent: str | None) -> AbstractContextManager[Any]:
    """The span of a job, in the trace of the request that enqueued it."""
    attributes = {"messaging.system": "procrastinate", "messaging.destination.name": queue}
    return span(f"process {task}", "consumer", attributes, traceparent=traceparent)
