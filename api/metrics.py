"""``/metrics``: what Prometheus reads, of all processes of the service together."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from api.authentication import require
from api.figures import StoreFigures
from api.metrics_files import files
from api.rate_limits import UNLIMITED
from api.service import service
from graph.record.tokens import Scope

#: A stranger may invent methods, but no more series.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: How often processes may begin or end while their files are read.
_TRIES = 3

#: What this process counted; with several processes their files hold the same.
OWN = CollectorRegistry()
REQUESTS = Counter(
    "thoth_http_requests", "Requests by pattern of their URL, method and status.",
    ("route", "method", "status"), registry=OWN,
)  # fmt: skip
DURATIONS = Histogram(
    "thoth_http_request_seconds", "How long requests took in the application.",
    ("route", "method"), buckets=_SECONDS, registry=OWN,
)  # fmt: skip
RESTARTS = Counter(
    "thoth_worker_restarts", "Workers that ended by themselves and were started again.",
    registry=OWN,
)  # fmt: skip


class _AllProcesses(Collector):
    """What processes left in files, added up."""

    def collect(self) -> Iterable[Metric]:
        for _ in range(_TRIES):
            found = files()
            if found is None:
                return OWN.collect()
            try:
                merged = MultiProcessCollector.merge(found, accumulate=True)  # type: ignore[no-untyped-call]
                return list(merged)
            except (FileNotFoundError, struct.error):
                continue  # a process just ended, or has just begun
        return []


def register(app: Flask) -> None:
    """Count the requests of ``app``, and serve what was counted."""
    app.before_request(_begin)
    app.after_request(_count)
    app.add_url_rule("/metrics", "metrics", _metrics)


def _metrics() -> Response:
    """Everything that is measured, in Prometheus' text format."""
    require(Scope.READ)
    registry = CollectorRegistry()
    registry.register(_AllProcesses())
    registry.register(StoreFigures(service()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _begin() -> None:
    g.began = time.perf_counter()


def _count(response: Response) -> Response:
    if request.endpoint in UNLIMITED:
        return response
    route = request.url_rule.rule if request.url_rule else "none"
    method = request.method if request.method in _METHODS else "other"
    REQUESTS.labels(route, method, str(response.status_code)).inc()
    if "began" in g:
        DURATIONS.labels(route, method).observe(time.perf_counter() - g.began)
    return response
