"""Shares of clients in the requests that a process works on at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from api.http.errors import ApiError, ProblemType
from api.jobs.queue import QueueClient, room_for

#: Seconds after which a refused client may try again; most requests take less.
_RETRY_AFTER_S = 5


class ClientShares:
    """Limits how many requests of a kind run at a time in a process.

    The shares are those of the queue (:func:`api.jobs.queue.room_for`).
    """

    def __init__(self, places: int, each: int | None = None) -> None:
        """:param places: maximum number of requests at a time

        :param each: maximum of one client; by default, one with a token may take all places
        """
        self._places = max(1, places)
        self._each = self._places if each is None else max(1, each)
        self._lock = Lock()
        self._running: Counter[QueueClient] = Counter()

    @contextmanager
    def taken(self, client: QueueClient) -> Iterator[None]:
        """A place for a request, held for the length of a ``with`` block.

        :raises ApiError: 429 if there is none for this client
        """
        with self._lock:
            self._admit(client)
            self._running[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[client] -= 1
                self._running += Counter()  # forget clients without requests

    def _admit(self, client: QueueClient) -> None:
        running = self._running.total()
        room, own_room = room_for(client, self._places)
        if running >= room:
            _refuse(f"{running} such requests run")
        if self._running[client] >= min(own_room, self._each):
            _refuse(f"{self._running[client]} such requests of this client run")


def _refuse(message: str) -> None:
    raise ApiError(
        429, ProblemType.OVERLOADED, f"{message}: try again later",
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )  # fmt: skip
