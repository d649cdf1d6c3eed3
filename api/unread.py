"""Requests that the HTTP server refuses before the application sees them: problems all the same."""

from __future__ import annotations

import json
import socket
from secrets import token_hex

import gunicorn.util

from api.errors import MEDIA_TYPE, problem_of, title

#: A peer that does not read is not waited for.
_TIMEOUT_S = 2.0


def register() -> None:
    """Have gunicorn refuse requests in our words; its own are a page."""
    gunicorn.util.write_error = write_problem


def write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Answer what could not be read, and say that the connection ends."""
    problem = problem_of(status)
    document = {
        "type": f"/problems/{problem}",
        "title": title(problem),
        "status": status,
        "detail": message or reason,
        "request_id": token_hex(8),
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
    )
    sock.settimeout(_TIMEOUT_S)
    sock.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
