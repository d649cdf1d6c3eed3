"""Every write that a request caused, noted once it succeeded."""

from __future__ import annotations

import logging

from flask import Flask, Response, g, request

from api.authentication import token
from api.service import service
from common.errors import StoreUnavailable
from graph.record.audit import AuditEntry, add_write

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOG = logging.getLogger(__name__)


def register(app: Flask) -> None:
    """Note the writes of ``app``."""
    app.after_request(_note)


def wrote(subject: str) -> None:
    """Name what this request made or changed."""
    g.subject = subject


def wrote_nothing() -> None:
    """Say that this request is answered with what was there."""
    g.wrote_nothing = True


def _note(response: Response) -> Response:
    if request.method in _READS or response.status_code >= 400 or request.url_rule is None:
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
        # It is done and the client is to know; the log keeps what the table could not.
        _LOG.warning("write_not_noted", extra={"request_id": g.request_id, "error": str(error)})
    return response


def _subject(response: Response) -> str | None:
    """What a request for an analysis made, or the one thing that the URL names."""
    document = response.get_json(silent=True) if response.is_json else None
    for name in ("analysis_id", "inspection_id"):
        if isinstance(document, dict) and isinstance(document.get(name), str):
            return str(document[name])
    named = list((request.view_args or {}).values())
    return str(named[0]) if len(named) == 1 else None
