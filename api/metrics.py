"""``/metrics`` for Prometheus: requests of all processes, the queue and the stores."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from api.authentication import PAGE_TOKEN, require
from api.jobs.queue import QueueName
from api.metrics_files import files
from api.metrics_values import use_allocated_values
from api.rate_limits import UNLIMITED
from api.service import ServiceStores, service
from common.errors import ProjectError
from graph.embedded.home import free_bytes
from graph.record.analyses import states, times, workers
from graph.record.freshness import COUNTED, lag_of
from graph.record.notices import notice_lag
from graph.record.source_successes import source_successes
from graph.record.tokens import Scope

#: A worker without a heartbeat for this long is not counted.
_ALIVE = timedelta(seconds=20)


class StoreMetrics(Collector):
    """Queue, projection and request metrics from PostgreSQL; only ``up`` if PostgreSQL is down."""

    def __init__(self, service: ServiceStores) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Read all metrics with one connection."""
        try:
            with self._service.reading() as connection:
                metrics = [*self._waiting(connection), *_analyses(connection)]
        except ProjectError:
            metrics = []
        up = GaugeMetricFamily("thoth_record_up", "Whether PostgreSQL answers.")
        up.add_metric([], 1.0 if metrics else 0.0)
        yield from (up, *metrics)
        home = self._service.settings.home
        if home.exists():
            yield GaugeMetricFamily(
                "thoth_disk_free_bytes", "Free space on the disk of THOTH_HOME.",
                value=free_bytes(home),
            )  # fmt: skip

    def _waiting(self, connection: Connection) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("thoth_queue_jobs", "Jobs that wait.", labels=["queue"])
        for name in QueueName:
            jobs.add_metric([name.value], self._service.queue.waiting(connection, name))
        yield jobs
        behind = lag_of(connection, COUNTED)
        yield GaugeMetricFamily(
            "thoth_outbox_entries", "Entries of the record that the graph does not contain yet.",
            value=behind.count,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "thoth_outbox_age_seconds", "How long the oldest of them has waited.",
            value=behind.oldest_s,
        )  # fmt: skip
        notices = notice_lag(connection)
        yield GaugeMetricFamily(
            "thoth_notices_waiting", "Notices that wait for their first or next attempt.",
            value=notices.waiting,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "thoth_notices_age_seconds", "How long the oldest of them has waited.",
            value=notices.oldest_s,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "thoth_notices_given_up", "Notices that were given up within a day.",
            value=notices.given_up,
        )  # fmt: skip
        succeeded = GaugeMetricFamily(
            "thoth_source_success_timestamp_seconds",
            "When the nightly run last read a source completely.", labels=["kind", "source"],
        )  # fmt: skip
        for success in source_successes(connection):
            moment = success.succeeded_at.timestamp()
            succeeded.add_metric([success.kind, success.source], moment)
        yield succeeded
        yield GaugeMetricFamily(
            "thoth_workers", "Workers with a heartbeat within 20 seconds.",
            value=workers(connection, _ALIVE),
        )  # fmt: skip


def _analyses(connection: Connection) -> Iterator[Metric]:
    number = GaugeMetricFamily(
        "thoth_analyses", "Requests of the last day, and all that wait or run.",
        labels=["kind", "state"],
    )  # fmt: skip
    for kind, state, count in states(connection):
        number.add_metric([kind, state], count)
    yield number
    labels = ["kind", "quantile"]
    waited = GaugeMetricFamily(
        "thoth_analysis_wait_seconds", "How long requests of the last day waited.", labels=labels
    )
    ran = GaugeMetricFamily(
        "thoth_analysis_run_seconds", "How long a worker took for them.", labels=labels
    )
    for analysis in times(connection):
        for place, quantile in enumerate(("0.5", "0.99")):
            waited.add_metric([analysis.kind, quantile], analysis.waited_s[place])
            ran.add_metric([analysis.kind, quantile], analysis.ran_s[place])
    yield from (waited, ran)


#: Other methods share one label, so that clients cannot create new series.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: Attempts to read the files of processes, which may start or end meanwhile.
_TRIES = 3

use_allocated_values()

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


def register(app: Flask) -> None:
    """Count the requests of ``app`` and serve ``/metrics``."""
    app.before_request(_begin)
    app.after_request(_count)
    app.add_url_rule("/metrics", "metrics", _metrics)


def _metrics() -> Response:
    """All metrics in Prometheus' text format."""
    require(Scope.READ)
    registry = CollectorRegistry()
    registry.register(_AllProcesses())
    registry.register(StoreMetrics(service()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _begin() -> None:
    g.began = time.perf_counter()


def _count(response: Response) -> Response:
    if request.endpoint in UNLIMITED or PAGE_TOKEN in request.environ:
        return response
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.method in _METHODS else "other"
    REQUESTS.labels(route, method, str(response.status_code)).inc()
    if "began" in g:
        DURATIONS.labels(route, method).observe(time.perf_counter() - g.began)
    return response
