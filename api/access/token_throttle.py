"""Throttling of invalid tokens: after too many from an address, its tokens are not looked up.

Tokens that were valid recently stay accepted, because many people share an address.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from flask import request
from limits import RateLimitItem
from limits.strategies import RateLimiter

from api.access.client_addresses import neighbourhood
from api.http.errors import ApiError, ProblemType
from graph.record.tokens import Token

#: How long a valid token is remembered, s.
_KNOWN_S = 3600.0
#: Number of keys that are remembered; the oldest go first.
_MOST_KEYS = 4096


class RememberedKeys:
    """Keys with the time at which each is forgotten, and a value; threads share it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._lock = Lock()

    def add(self, key: str, seconds: float, value: Any = None) -> None:
        """Remember a key for as many seconds from now."""
        with self._lock:
            self._entries[key] = (time.monotonic() + seconds, value)
            self._entries.move_to_end(key)
            if len(self._entries) > _MOST_KEYS:
                self._entries.popitem(last=False)

    def left_s(self, key: str) -> float:
        """Seconds until a key is forgotten; 0 if it is not remembered.

        >>> keys = RememberedKeys()
        >>> keys.add("a", 60)
        >>> 59 < keys.left_s("a") <= 60, keys.left_s("b")
        (True, 0.0)
        """
        with self._lock:
            end, _ = self._entries.get(key, (0.0, None))
        return max(0.0, end - time.monotonic())

    def value(self, key: str) -> Any:
        """The value of a key; ``None`` if it is not remembered."""
        with self._lock:
            end, value = self._entries.get(key, (0.0, None))
        return value if end > time.monotonic() else None


class TokenThrottle:
    """Counts invalid tokens by address.

    :param rates: limits
    """

    def __init__(self, limiter: RateLimiter, rates: Sequence[RateLimitItem]) -> None:
        self._limiter = limiter
        self._rates = rates
        self._known = RememberedKeys()

    def check(self, digest: str) -> None:
        """Check whether the token of this request may be looked up.

        :raises ApiError: 429 after too many invalid tokens, unless this one was valid recently
        """
        if self._known.left_s(digest):
            return  # without asking the storage, which may be PostgreSQL
        for rate in self._rates:
            if not self._limiter.test(rate, "refused", client_address()):
                wait_s = wait_of(self._limiter, rate, "refused", client_address())
                raise ApiError(
                    429, ProblemType.TOO_MANY_REQUESTS,
                    "too many invalid tokens from this address",
                    headers={"Retry-After": str(wait_s)},
                )  # fmt: skip

    def refused(self) -> None:
        """Count the invalid token of this request."""
        for rate in self._rates:
            self._limiter.hit(rate, "refused", client_address())

    def accepted(self, digest: str, client: Token) -> None:
        """Remember that a token is valid."""
        self._known.add(digest, _KNOWN_S, client)

    def recent(self, digest: str) -> Token | None:
        """The token with this digest, if it was valid recently."""
        client: Token | None = self._known.value(digest)
        return client


def client_address() -> str:
    """The address by which this request is counted."""
    return neighbourhood(request.remote_addr or "unknown")


def wait_of(limiter: RateLimiter, rate: RateLimitItem, *names: str) -> int:
    """Seconds until a limit admits requests again, at least 1."""
    return max(1, round(limiter.get_window_stats(rate, *names).reset_time - time.time()))
