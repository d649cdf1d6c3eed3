"""Receives webhooks on this machine, verifies their signatures, and prints each notice once.

Usage: ``python receiver.py SECRET_FILE PORT_FILE``. The port is written to ``PORT_FILE``.
"""

from __future__ import annotations

import base64
import hmac
import json
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

#: Oldest request that is accepted, in seconds.
_OLDEST_S = 300


def is_genuine(headers: Message, body: bytes, secret: str) -> bool:
    """Whether Thoth sent this request within the last five minutes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    moment = headers.get("webhook-timestamp", "")
    content = f"{headers.get('webhook-id')}.{moment}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()
    recent = moment.isdecimal() and abs(time.time() - int(moment)) < _OLDEST_S
    signatures = headers.get("webhook-signature", "").split()
    return recent and any(hmac.compare_digest(it, expected) for it in signatures)


class NoticeHandler(BaseHTTPRequestHandler):
    """Acknowledges genuine notices, and refuses other requests."""

    secret = ""
    handled: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = is_genuine(self.headers, body, self.secret)
        if genuine and self.headers["webhook-id"] not in self.handled:
            self.handled.add(self.headers["webhook-id"])
            notice = json.loads(body)
            text = f"received {notice['type']}, signature valid: {notice['data']['text']}"
            print(text)  # noqa: T201 - what a person runs this program for
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing for each request."""


def main(secret_file: str, port_file: str) -> None:
    """Serve until the process is ended."""
    NoticeHandler.secret = Path(secret_file).read_text().strip()
    server = HTTPServer(("127.0.0.1", 0), NoticeHandler)
    partial = Path(f"{port_file}.partial")
    partial.write_text(str(server.server_port))
    partial.replace(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
