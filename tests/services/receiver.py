"""A receiver of webhooks on a free port of this machine, which answers what a test says."""

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from api.server.certificates import Certificate
from common.settings import Settings
from tests.services.web import Quiet, serve

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def hooked(settings: Settings, url: str, secret: str = SECRET, events: str = "settled") -> Settings:
    """Settings that send notices to a receiver, which is called ``build``."""
    return replace(
        settings, webhooks=(("build", url),), webhook_secrets=(("build", secret),),
        webhook_events=events,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Received:
    """A request.

    :param status: of the answer; 0 if the connection was closed without one
    """

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def notice_id(self) -> str:
        return self.headers["webhook-id"]


#: Returns the status of an answer; 0 closes the connection instead.
Answer = Callable[[BaseHTTPRequestHandler], int]


@dataclass(slots=True)
class Receiver:
    """Requests in the order of their answers.

    :param answers: answer in the place of 204, once each, in their order
    :param acknowledged: called after each answer was sent
    """

    url: str
    port: int
    answers: list[Answer] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    acknowledged: Callable[[], None] = lambda: None

    def identifiers(self) -> list[str]:
        """Identifiers of the acknowledged notices."""
        return [it.notice_id for it in self.received if 200 <= it.status < 300]


class _Handler(Quiet, BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        receiver = self.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = receiver.answers.pop(0)(self) if receiver.answers else 204
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.received.append(Received(self.path, headers, body, status))
        if status:
            with suppress(ConnectionError):  # of a client that has left
                self.send_response(status)
                self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.wfile.flush()
        receiver.acknowledged()

    def do_GET(self) -> None:
        """A client that follows redirects comes here."""
        self.receiver.received.append(Received(self.path, {}, b"", 405))
        self.send_error(405)


@contextmanager
def receiver(port: int = 0, certificate: Certificate | None = None) -> Iterator[Receiver]:
    """A receiver that runs within the block, over TLS with a certificate."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path, certificate.key_path)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    Handler.receiver = Receiver(f"{scheme}://127.0.0.1:{server.server_port}", server.server_port)
    with serve(server):
        yield Handler.receiver
