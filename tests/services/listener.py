"""A port of this machine at which nobody should ever ask."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.services.waiting import DEADLINE_S


@dataclass
class Listener:
    """Counts who comes, on both families, and sends everybody away.

    :param heard: addresses that connected
    """

    port: int
    heard: list[Any] = field(default_factory=list)


@contextmanager
def listener() -> Iterator[Listener]:
    """A port of this machine at which nobody should ever ask."""
    sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_INET6)]
    sockets[0].bind(("0.0.0.0", 0))
    made = Listener(sockets[0].getsockname()[1])
    sockets[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sockets[1].bind(("::", made.port))

    def accept(at: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, peer = at.accept()
                made.heard.append(peer)
                connection.close()

    for listening in sockets:
        listening.listen()
    threads = [threading.Thread(target=accept, args=(it,), daemon=True) for it in sockets]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        for listening in sockets:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        for thread in threads:
            thread.join(DEADLINE_S)
