"""Web servers of our own; :func:`site` serves one body a path, with validators."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


@dataclass(slots=True)
class Site:
    """What it serves; may be changed while it runs.

    :param answers: what answers in the place of a body, once each, in their order
    :param seen: path and headers of every request
    """

    url: str
    bodies: dict[str, bytes] = field(default_factory=dict)
    answers: list[Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)


class Quiet:
    """A handler that prints nothing."""

    def log_message(self, format: str, *args: object) -> None: ...


class _Handler(Quiet, BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.seen.append((self.path, dict(self.headers)))
        with suppress(ConnectionError):  # of a client that has left
            self._respond()

    def _respond(self) -> None:
        if self.site.answers:
            self.site.answers.pop(0)(self)
            return
        body = self.site.bodies.get(self.path)
        if body is None:
            answer(self, 404)
            return
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == etag:
            answer(self, 304, ETag=etag)
        else:
            answer(self, 200, body, ETag=etag)


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """A whole answer; ``Content_Length`` and the like become headers."""
    handler.send_response(status)
    headers = {"Content_Length": str(len(body))} | headers
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serve(server: BaseServer) -> Iterator[None]:
    """Run a server in a thread within the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def site() -> Iterator[Site]:
    """A server that runs within the block."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.site = Site(f"http://127.0.0.1:{server.server_port}")
    with serve(server):
        yield Handler.site
