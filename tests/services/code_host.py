"""Stands for the comments of one request at a code host, with the paths of GitHub and GitLab."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "secret-token-of-a-test"
#: The paths of lists and of single comments.
_PATHS = re.compile(
    r"/repos/team/app/issues/7/comments|/repos/team/app/issues/comments/(\d+)"
    r"|/projects/42/merge_requests/7/notes(?:/(\d+))?"
)


@dataclass(slots=True)
class CodeHost:
    """Comments by identifier, and the method and path of each request.

    :param user: who writes with the token
    :param forbids: whether writing is refused, as for a pull request of a fork
    """

    url: str
    user: str = "github-actions[bot]"
    forbids: bool = False
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def add(self, body: str, user: str) -> int:
        """A comment; its author has the names of both hosts."""
        person = {"login": user, "username": user}
        number = len(self.requests) * 1000 + len(self.comments) + 1
        self.comments[number] = {"id": number, "body": body, "user": person, "author": person}
        return number

    @property
    def bodies(self) -> list[str]:
        return [it["body"] for it in self.comments.values()]

    @property
    def writes(self) -> list[str]:
        """Methods of all requests that change something."""
        return [method for method, _ in self.requests if method != "GET"]

    def answer(self, method: str, path: str, body: str) -> tuple[int, Any]:
        """Status and document."""
        address = urlsplit(path)
        if address.path == "/user":
            return 200, {"username": self.user}
        match = _PATHS.fullmatch(address.path)
        if match is None:
            return 404, None
        if method == "GET":
            query = {key: int(value[0]) for key, value in parse_qs(address.query).items()}
            begin = query["per_page"] * (query["page"] - 1)
            return 200, list(self.comments.values())[begin : begin + query["per_page"]]
        number = next((int(it) for it in match.groups() if it), None)
        return (403, None) if self.forbids else self._written(method, number, body)

    def _written(self, method: str, number: int | None, body: str) -> tuple[int, Any]:
        if number is None:
            return 201, {"id": self.add(body, self.user)}
        if method == "DELETE":
            del self.comments[number]
            return 204, None
        self.comments[number]["body"] = body
        return 200, self.comments[number]


@contextmanager
def code_host() -> Iterator[CodeHost]:
    """A code host on a free port of this machine, which knows :data:`TOKEN`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            host.requests.append((self.command, self.path))
            known = (f"Bearer {TOKEN}", TOKEN)
            given = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")
            body = json.loads(sent)["body"] if sent else ""
            status, document = (
                host.answer(self.command, self.path, body) if given in known else (401, None)
            )
            data = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host = CodeHost(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
