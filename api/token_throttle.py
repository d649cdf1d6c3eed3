"""Tokens that are guessed: so many of one address are refused, and then none is looked up.

Who shows a token that was valid lately is let in all the same: many people share an address.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from flask import request
from limits import RateLimitItem
from limits.strategies import RateLimiter

from api.client_addresses import neighbourhood
from api.errors import ApiError, ProblemType

#: How long a token counts as known after it was seen to be valid, and how many do.
_KNOWN_S = 3600.0
_MOST = 4096


class TokenThrottle:
    """The tokens of one application that were refused, by address.

    :param rates: how many may be
    """

    def __init__(self, limiter: RateLimiter, rates: Sequence[RateLimitItem]) -> None:
        self._limiter = limiter
        self._rates = rates
        self._known: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def check(self, digest: str) -> None:
        """Whether a token may be looked up for this request.

        :raises ApiError: 429 if too many of this address were refused, and this one is not known
        """
        for rate in self._rates:
            if not self._limiter.test(rate, "refused", client_address()):
                if self._is_known(digest):
                    return
                wait_s = wait_of(self._limiter, rate, "refused", client_address())
                raise ApiError(
                    429, ProblemType.TOO_MANY_REQUESTS,
                    "too many invalid tokens from this address",
                    headers={"Retry-After": str(wait_s)},
                )  # fmt: skip

    def refused(self) -> None:
        """Count what this request showed as a token."""
        for rate in self._rates:
            self._limiter.hit(rate, "refused", client_address())

    def accepted(self, digest: str) -> None:
        """Remember that a token is valid."""
        with self._lock:
            self._known[digest] = time.monotonic() + _KNOWN_S
            self._known.move_to_end(digest)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)

    def _is_known(self, digest: str) -> bool:
        with self._lock:
            return self._known.get(digest, 0.0) > time.monotonic()


def client_address() -> str:
    """Of whom this request comes, as it is counted."""
    return neighbourhood(request.remote_addr or "unknown")


def wait_of(limiter: RateLimiter, rate: RateLimitItem, *names: str) -> int:
    """Whole seconds until a limit lets through again, at least one."""
    return max(1, round(limiter.get_window_stats(rate, *names).reset_time - time.time()))
