"""Logs of requests: a line for each, and an audit entry for every one that wrote something."""

from __future__ import annotations

import logging
import time

from flask import Flask, Response, g, request

from api.access.authentication import PAGE_TOKEN, token
from api.http.request_context import READS
from api.service import service
from graph.record.access import AuditEntry, add_write
from model.errors import StoreUnavailable

#: Paths of probes, which are logged only on failure.
_WATCHED = ("/livez", "/readyz", "/liveness", "/readiness", "/metrics")


def register_access_log(app: Flask) -> None:
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


_LOG = logging.getLogger(__name__)


def register(app: Flask) -> None:
    """Record the writes of ``app``."""
    app.after_request(_note)


def wrote(subject: str) -> None:
    """Set the subject of this request's entry: what it created or changed."""
    g.subject = subject


def wrote_nothing() -> None:
    """Write no audit entry for this request, because it changed nothing."""
    g.wrote_nothing = True


def _note(response: Response) -> Response:
    if request.method in READS or response.status_code >= 400 or request.url_rule is None:
        return response
    if "wrote_nothing" in g:
        return response
    shown = token()
    write = AuditEntry(
        request_id=g.request_id,
        token_id=shown.token_id if shown else None,
        address=request.remote_addr or "unknown",
        method=request.method,
        route=request.url_rule.rule,
        status=response.status_code,
        subject=g.get("subject") or _subject(response),
    )
    try:
        with service().writing() as connection:
            add_write(connection, write)
    except StoreUnavailable as error:
        # The write itself succeeded, so the client gets its response; the log has the entry.
        _LOG.warning("write_not_noted", extra={"request_id": g.request_id, "error": str(error)})
    return response


def _subject(response: Response) -> str | None:
    """The analysis that a request created, or the object in its URL if the URL names only one."""
    document = response.get_json(silent=True) if response.is_json else None
    for name in ("analysis_id", "inspection_id"):
        if isinstance(document, dict) and isinstance(document.get(name), str):
            return str(document[name])
    named = list((request.view_args or {}).values())
    return str(named[0]) if len(named) == 1 else None
