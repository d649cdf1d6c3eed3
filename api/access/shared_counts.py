"""A storage of the library ``limits`` in PostgreSQL, so that all processes share one count.

A process that gets many requests of one client adds several of them to the count at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from limits.storage import MemoryStorage, Storage
from sqlalchemy import Connection

from api.service import ServiceStores
from graph.record.request_counts import count_requests, counted_requests, forget_counts
from model.errors import SchemaMismatch, StoreUnavailable

#: After a failure, PostgreSQL is not asked for this long, s.
_PAUSE_S = 5.0
#: A process adds its requests to the shared count after this time, s, or if they exceed this
#: fraction of it. Each request counts alone while the count is small.
_AFTER_S, _FRACTION = 0.1, 0.1
#: Counts that a process remembers.
_REMEMBERED = 10_000

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Count:
    """A count as PostgreSQL returned it, and the requests of this process since then.

    :param asked_at: time of that answer, by the monotonic clock
    :param ends_at: end of the window, by the same clock
    """

    shared: int
    asked_at: float
    ends_at: float
    own: int = 0

    def has_room(self, amount: int, now: float) -> bool:
        """Whether ``amount`` may be added to the shared count later."""
        return (
            now < min(self.asked_at + _AFTER_S, self.ends_at)
            and self.own + amount <= self.shared * _FRACTION
        )


class SharedCounts(Storage):
    """Counts in PostgreSQL. While it does not answer, each process counts in its own memory."""

    STORAGE_SCHEME = None

    def __init__(self, service: ServiceStores) -> None:
        super().__init__()
        self._service = service
        self._own = MemoryStorage()
        self._away_until = 0.0
        self._lock = Lock()
        self._counts: dict[str, _Count] = {}

    @property
    def base_exceptions(self) -> type[Exception]:
        """Errors of this storage."""
        return StoreUnavailable

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count requests; return the sum in the present window of ``expiry`` seconds."""
        with self._lock:
            now = time.monotonic()
            known = self._counts.get(key)
            if known is not None and known.has_room(amount, now):
                known.own += amount
                return known.shared + known.own
            if known is not None and now < known.ends_at:
                amount += known.own
            self._counts.pop(key, None)
        return self._from_postgresql(
            lambda connection: self._remembered(
                key, *count_requests(connection, key, expiry, amount)
            ),
            lambda: self._own.incr(key, expiry, amount),
        )

    def _remembered(self, key: str, shared: int, left_s: float) -> int:
        with self._lock:
            while len(self._counts) >= _REMEMBERED:
                del self._counts[next(iter(self._counts))]
            now = time.monotonic()
            other = self._counts.get(key)  # of a thread that asked at the same time
            own = 0 if other is None else other.own
            self._counts[key] = _Count(shared, now, now + left_s, own)
        return shared

    def get(self, key: str) -> int:
        """Requests in the present window, with those that this process has not shared yet."""
        with self._lock:
            known = self._counts.get(key)
            own = known.own if known is not None and time.monotonic() < known.ends_at else 0
        return self._from_postgresql(
            lambda connection: counted_requests(connection, key)[0] + own,
            lambda: self._own.get(key),
        )

    def get_expiry(self, key: str) -> float:
        """Unix time at which the present window ends."""
        return self._from_postgresql(
            lambda connection: time.time() + counted_requests(connection, key)[1],
            lambda: self._own.get_expiry(key),
        )

    def check(self) -> bool:
        """Whether PostgreSQL answers."""
        return self._from_postgresql(
            lambda connection: counted_requests(connection, "") == (0, 0.0), bool
        )

    def reset(self) -> int:
        """Forget all counts; return their number."""
        self._own.reset()
        with self._lock:
            self._counts.clear()
        return self._from_postgresql(forget_counts, int)

    def clear(self, key: str) -> None:
        """Forget one count."""
        self._own.clear(key)
        with self._lock:
            self._counts.pop(key, None)
        self._from_postgresql(lambda connection: forget_counts(connection, key), int)

    def _from_postgresql(
        self, ask: Callable[[Connection], _Result], otherwise: Callable[[], _Result]
    ) -> _Result:
        """Ask PostgreSQL, or use the memory of this process."""
        if time.monotonic() >= self._away_until:
            try:
                with self._service.glancing() as connection:
                    return ask(connection)
            except (StoreUnavailable, SchemaMismatch) as error:
                _LOG.warning("requests_counted_alone", extra={"error": str(error)})
                self._away_until = time.monotonic() + _PAUSE_S
        return otherwise()
