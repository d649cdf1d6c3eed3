"""Places where a store should be and is not."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


def closed_port() -> int:
    """A loopback port that refuses connections until this process ends.

    Its socket stays bound, so the kernel gives the port to nobody who asks for a free one. A server
    that names the port can listen there if it sets SO_REUSEADDR, as most servers do.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port: int = probe.getsockname()[1]
    probe.detach()
    return port


@contextmanager
def silent_port() -> Iterator[int]:
    """A loopback port that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield listener.getsockname()[1]
