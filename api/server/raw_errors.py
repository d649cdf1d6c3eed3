"""Problem documents for requests that the server refuses before the application sees them."""

from __future__ import annotations

import json
import logging
import socket
from secrets import token_hex

import gunicorn.util

from api.http.errors import MEDIA_TYPE, problem_of, title
from api.http.request_context import REQUEST_ID, versions

_LOG = logging.getLogger(__name__)


def register() -> None:
    """Replace gunicorn's HTML error pages by problem documents."""
    gunicorn.util.write_error = write_problem


def write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Answer a request that could not be read; the response announces the end of the connection.

    :param sock: does not block from then on
    :raises OSError: if nothing of it could be sent
    """
    problem, request_id = problem_of(status), token_hex(8)
    fields = {"request_id": request_id, "status": status, "address": _peer(sock)}
    _LOG.info("request_unread", extra=fields)
    document = {
        "type": f"/problems/{problem}",
        "title": title(problem),
        "status": status,
        "detail": message or reason,
        "request_id": request_id,
        # The path is unknown, so the members of version 1 are added in any case.
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
    # Does not wait for a client that does not read and whose buffers are full.
    sock.setblocking(False)
    sock.send("\r\n".join([*head, "", ""]).encode("latin-1") + body)


def _peer(sock: socket.socket) -> str | None:
    try:
        return str(sock.getpeername()[0])
    except (OSError, IndexError):
        return None  # the client has closed, or the socket is local
