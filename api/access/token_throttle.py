"""Throttling of invalid tokens: after too many from an address, its tokens are not looked up.

Tokens that were valid recently stay accepted, because many people share an address.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock

from limits import parse_many
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from api.access.client_addresses import client_address
from api.http.errors import ApiError, ProblemType
from graph.record.tokens import Token

#: How long a valid token is remembered, s.
_RECENT_S = 3600.0
#: Number of tokens that are remembered; the oldest go first.
_MOST_TOKENS = 4096


class TokenThrottle:
    """Counts the invalid tokens of each address in this process.

    :param rate: limit, such as ``600/minute``; ``None`` for no limit
    """

    def __init__(self, rate: str | None) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._rates = parse_many(rate) if rate else []
        self._recent: OrderedDict[str, tuple[float, Token]] = OrderedDict()
        self._lock = Lock()

    def check(self, digest: str) -> None:
        """Check whether the token of this request may be looked up.

        :raises ApiError: 429 after too many invalid tokens, unless this one was valid recently
        """
        if self.recent(digest):
            return
        for rate in self._rates:
            if not self._limiter.test(rate, client_address()):
                reset = self._limiter.get_window_stats(rate, client_address()).reset_time
                raise ApiError(
                    429, ProblemType.TOO_MANY_REQUESTS,
                    "too many invalid tokens from this address",
                    headers={"Retry-After": str(max(1, round(reset - time.time())))},
                )  # fmt: skip

    def refused(self) -> None:
        """Count the invalid token of this request."""
        for rate in self._rates:
            self._limiter.hit(rate, client_address())

    def accepted(self, digest: str, client: Token) -> None:
        """Remember that a token is valid."""
        with self._lock:
            self._recent[digest] = (time.monotonic() + _RECENT_S, client)
            self._recent.move_to_end(digest)
            if len(self._recent) > _MOST_TOKENS:
                self._recent.popitem(last=False)

    def recent(self, digest: str) -> Token | None:
        """The token with this digest, if it was valid recently."""
        with self._lock:
            until, client = self._recent.get(digest, (0.0, None))
        return client if until > time.monotonic() else None
