"""Audit log: an entry for every request that wrote something."""

from __future__ import annotations

import logging

from flask import Flask, Response, g, request

from api.access.authentication import token
from api.http.request_context import READS
from api.service import service
from graph.record.audit import AuditEntry, add_write
from model.errors import StoreUnavailable

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
