"""Throttling of invalid tokens: after too many from an address, its tokens are not looked up.

Tokens that were valid recently stay accepted, because many people share an address.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from flask import request
from limits import RateLimitItem
from limits.strategies import RateLimiter

from api.client_addresses import neighbourhood
from api.errors import ApiError, ProblemType
from api.remembered_keys import RememberedKeys

#: How long a valid token is remembered, s.
_KNOWN_S = 3600.0


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

    def accepted(self, digest: str) -> None:
        """Remember that a token is valid."""
        self._known.add(digest, _KNOWN_S)


def client_address() -> str:
    """The address by which this request is counted."""
    return neighbourhood(request.remote_addr or "unknown")


def wait_of(limiter: RateLimiter, rate: RateLimitItem, *names: str) -> int:
    """Seconds until a limit admits requests again, at least 1."""
    return max(1, round(limiter.get_window_stats(rate, *names).reset_time - time.time()))
