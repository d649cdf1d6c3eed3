"""A storage of the library ``limits`` in PostgreSQL, so that all processes share one count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from limits.storage import MemoryStorage, Storage
from sqlalchemy import Connection

from api.service import ServiceStores
from common.errors import SchemaMismatch, StoreUnavailable
from graph.record.request_counts import count_requests, counted_requests, forget_counts

#: After a failure, PostgreSQL is not asked for this long, s.
_PAUSE_S = 5.0

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class SharedCounts(Storage):
    """Counts in PostgreSQL. While it does not answer, each process counts in its own memory."""

    STORAGE_SCHEME = None

    def __init__(self, service: ServiceStores) -> None:
        super().__init__()
        self._service = service
        self._own = MemoryStorage()
        self._away_until = 0.0

    @property
    def base_exceptions(self) -> type[Exception]:
        """Errors of this storage."""
        return StoreUnavailable

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count requests; return the sum in the present window of ``expiry`` seconds."""
        return self._asked(
            lambda connection: count_requests(connection, key, expiry, amount),
            lambda: self._own.incr(key, expiry, amount),
        )

    def get(self, key: str) -> int:
        """Requests in the present window."""
        return self._asked(
            lambda connection: counted_requests(connection, key)[0], lambda: self._own.get(key)
        )

    def get_expiry(self, key: str) -> float:
        """Unix time at which the present window ends."""
        return self._asked(
            lambda connection: time.time() + counted_requests(connection, key)[1],
            lambda: self._own.get_expiry(key),
        )

    def check(self) -> bool:
        """Whether PostgreSQL answers."""
        return self._asked(lambda connection: counted_requests(connection, "") == (0, 0.0), bool)

    def reset(self) -> int:
        """Forget all counts; return their number."""
        self._own.reset()
        return self._asked(forget_counts, int)

    def clear(self, key: str) -> None:
        """Forget one count."""
        self._own.clear(key)
        self._asked(lambda connection: forget_counts(connection, key), int)

    def _asked(
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
