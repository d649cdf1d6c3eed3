"""A TCP proxy that stops forwarding while its connections stay open."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.services.waiting import DEADLINE_S


@dataclass
class Proxy:
    """Forwards to another port of this machine until it is stopped.

    :param flowing: cleared while nothing is forwarded
    """

    port: int
    flowing: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Forward nothing; connections are accepted and stay open."""
        self.flowing.clear()

    def go_on(self) -> None:
        """Forward what has arrived, and all that follows."""
        self.flowing.set()


@contextmanager
def proxy_to(target: int, port: int = 0) -> Iterator[Proxy]:
    """A proxy in front of a port.

    :param port: of the proxy; 0 takes a free one
    """
    sockets: list[socket.socket] = []

    def forward(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                made.flowing.wait(DEADLINE_S)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                sockets.append(client)
                server = socket.create_connection(("127.0.0.1", target))
                sockets.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listening:
        made = Proxy(listening.getsockname()[1])
        made.go_on()
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield made
        finally:
            made.go_on()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            # A connection that it accepts at this moment is closed, too.
            accepting.join(DEADLINE_S)
            for it in sockets:
                with suppress(OSError):
                    it.shutdown(socket.SHUT_RDWR)
                it.close()
