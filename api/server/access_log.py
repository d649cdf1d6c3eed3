"""Access log: one line for each request with client, route, status and duration."""

from __future__ import annotations

import logging
import time

from flask import Flask, Response, g, request

from api.access.authentication import PAGE_TOKEN, token

#: Paths of probes, which are logged only on failure.
_WATCHED = ("/livez", "/readyz", "/liveness", "/readiness", "/metrics")

_LOG = logging.getLogger(__name__)


def register(app: Flask) -> None:
    """Log every request of ``app``, except those that pages make themselves."""
    app.after_request(_log)


def _log(response: Response) -> Response:
    """Log a request; its query is logged without values, which may be private."""
    status = response.status_code
    if PAGE_TOKEN in request.environ or (request.path in _WATCHED and status < 400):
        return response
    client = token()
    fields = {
        "method": request.method,
        "path": request.path[:200],
        "query": sorted(request.args)[:20],
        "status": status,
        "bytes": response.content_length,
        "duration_ms": round((time.perf_counter() - g.began) * 1000, 1),
        "address": request.remote_addr,
        "request_id": g.request_id,
        "token_id": client.token_id if client else None,
        "route": request.url_rule.rule if request.url_rule else None,
    }
    _LOG.info("request", extra=fields)
    return response
