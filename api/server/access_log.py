"""Access log: one line for each request with client, route, status and duration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from flask import Flask, Response, g, request

from api.access.authentication import token

#: WSGI key for the application's fields; the server adds the duration.
_NOTE = "thoth.request"
#: Paths of probes, which are logged only on failure.
_WATCHED = ("/livez", "/readyz", "/liveness", "/readiness", "/metrics")

_LOG = logging.getLogger(__name__)


def register(app: Flask) -> None:
    """Pass fields of every request of ``app`` to the server's log."""
    app.after_request(_leave_word)


def log_request(
    environ: Mapping[str, Any], status: int, body_bytes: int | None, took: timedelta
) -> None:
    """Log a request; its query is logged without values, which may be private."""
    path = str(environ.get("PATH_INFO", ""))
    if path in _WATCHED and status < 400:
        return
    names = {part.partition("=")[0] for part in str(environ.get("QUERY_STRING", "")).split("&")}
    fields = {
        "method": environ.get("REQUEST_METHOD"),
        "path": path[:200],
        "query": sorted(names - {""})[:20],
        "status": status,
        "bytes": body_bytes,
        "duration_ms": round(took.total_seconds() * 1000, 1),
        "address": environ.get("REMOTE_ADDR"),
    }
    _LOG.info("request", extra={**fields, **environ.get(_NOTE, {})})


def _leave_word(response: Response) -> Response:
    shown = token()
    request.environ[_NOTE] = {
        "request_id": g.get("request_id"),
        "token_id": shown.token_id if shown else None,
        "route": request.url_rule.rule if request.url_rule else None,
    }
    return response
