"""A process that parses and stores what was read from an index, while its parent resolves.

Python runs the code of one thread at a time, and the pages of a large project are 40 MB. So a fork
parses them on another processor. It answers only whether it has stored a page, and the parent reads
the summary from the cache, as it does when it meets the page again. Whatever the fork cannot parse
or store, the parent parses itself, with the same errors as without a fork.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Stores a body, such as a page, with facts about it; returns whether the cache has it now.
Store = Callable[[bytes, Mapping[str, Any]], bool]

_DONE, _NOT_DONE = b"1", b"0"
#: Maximum bytes of the facts about a page; longer URLs and headers are left to the parent.
_LONGEST_FACTS = 32 << 10


class IndexHelper:
    """A fork of this process, which starts with the first page; used within one event loop.

    Without a second processor, or on a system without files in memory, there is no fork. A fork
    lacks the threads of its parent and keeps the locks that they hold. So only commands use this:
    they have no thread except the one that draws their progress.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._started = False

    def start(self, store: Store) -> None:
        """Fork, unless this was called before; call it before anything is on its way.

        :param store: run in the fork
        """
        if self._started:
            return
        self._started = True
        if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of other threads; see above.
                warnings.simplefilter("ignore", DeprecationWarning)
                process = os.fork()
        except OSError:  # too many processes, or no memory
            ours.close()
            theirs.close()
            return
        if process == 0:
            # Only the parent decides when this ends: it closes its end, or it has gone.
            with suppress(BaseException):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
                _close_all_but(theirs.fileno())
                _serve(theirs, store)
            os._exit(0)
        theirs.close()
        # With hundreds of messages on their way in both directions, both processes would wait
        # for each other.
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours, self._read)

    def send(self, body: bytes, facts: Mapping[str, Any]) -> asyncio.Future[bool] | None:
        """Have the fork store a body; ``None`` if there is no fork, or if it is far behind.

        :returns: a future: whether the fork stored the body
        """
        message = json.dumps(facts).encode()
        if self._socket is None or len(message) > _LONGEST_FACTS:
            return None
        try:
            file = os.memfd_create("body")
            try:
                _write_all(file, body)
                socket.send_fds(self._socket, [message], [file])
            finally:
                os.close(file)
        except BlockingIOError:
            return None
        except OSError:
            self.close()
            return None
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        return answer

    def close(self) -> None:
        """Let the fork end after it has stored what it was sent; nobody waits for this."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        while self._waiting:
            self._resolve(stored=False)

    def _read(self) -> None:
        assert self._socket is not None  # noqa: S101 - the reader is removed before
        try:
            answer = self._socket.recv(1)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        if answer:
            self._resolve(stored=answer == _DONE)
        else:
            self.close()

    def _resolve(self, *, stored: bool) -> None:
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(stored)


def _write_all(file: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(file, view) :]


def _close_all_but(file: int) -> None:
    """Close connections of the parent, which are not the fork's; keep the standard files."""
    # Only those that are open: the limit may be a billion.
    for other in [int(it.name) for it in Path("/proc/self/fd").iterdir()]:
        if other > 2 and other != file:
            with suppress(OSError):  # the listing itself
                os.close(other)


def _serve(connection: socket.socket, store: Store) -> None:
    while True:
        message, files, _, _ = socket.recv_fds(connection, _LONGEST_FACTS, 1)
        if not message or not files:
            return
        stored = False
        with os.fdopen(files[0], "rb") as file, suppress(Exception):
            file.seek(0)
            stored = store(file.read(), json.loads(message))
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.send(_DONE if stored else _NOT_DONE)
