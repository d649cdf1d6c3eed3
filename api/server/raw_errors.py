"""Requests that the HTTP server refuses before the application sees them: problems all the same."""

from __future__ import annotations

import json
import logging
import socket
from secrets import token_hex

import gunicorn.util

from api.errors import MEDIA_TYPE, problem_of, title
from api.request_context import REQUEST_ID, versions

_LOG = logging.getLogger(__name__)


def register() -> None:
    """Have gunicorn refuse requests in our words; its own are a page."""
    gunicorn.util.write_error = write_problem


def write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Answer what could not be read, and say that the connection ends.

    :param sock: does not block from then on
    :raises OSError: if nothing of it could be sent
    """
    problem, request_id = problem_of(status), token_hex(8)
    told = {"request_id": request_id, "status": status, "address": _peer(sock)}
    _LOG.info("request_unread", extra=told)
    document = {
        "type": f"/problems/{problem}",
        "title": title(problem),
        "status": status,
        "detail": message or reason,
        "request_id": request_id,
        # Nobody knows whether it was one of those that have these.
        "error": message or reason,
        "parameters": {},
    }
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} {reason}",
        "Connection: close",
        f"Content-Type: {MEDIA_TYPE}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in {REQUEST_ID: request_id, **versions()}.items()),
    )
    # Whoever has not read so much that this finds no place is not waited for.
    sock.setblocking(False)
    sock.send("\r\n".join([*head, "", ""]).encode("latin-1") + body)


def _peer(sock: socket.socket) -> str | None:
    try:
        return str(sock.getpeername()[0])
    except (OSError, IndexError):
        return None  # it is gone, or this is no network
