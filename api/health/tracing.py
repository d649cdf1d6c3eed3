"""One trace for a request: the server, the queue, the worker and both stores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from flask import Flask, Response, g, request

from api.access.authentication import UNLIMITED
from api.health.metrics import METHODS
from common.tracing import TRACEPARENT, span, start_tracing
from graph.store_tracing import trace_stores


def trace_process() -> None:
    """Record spans of this process if the environment says so; call it after forking."""
    if start_tracing():
        trace_stores()


def register(app: Flask) -> None:
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
