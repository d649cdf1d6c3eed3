"""Limits for clients: request rates by token or address, and the size of bodies."""

from __future__ import annotations

import math

from flask import Flask, request
from limits import parse_many
from limits.errors import ConfigurationError
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from api.access.authentication import METRICS, OPEN, PAGE_TOKEN, token
from api.access.client_addresses import is_loopback
from api.access.shared_counts import SharedCounts
from api.access.token_throttle import RememberedKeys, TokenThrottle, client_address, wait_of
from api.http.errors import ApiError, ProblemType
from api.service import EXTENSION
from common.settings import Settings
from model.errors import InvalidSettings

#: Endpoints for monitoring without a limit; `metrics` only with a token or from this machine.
UNLIMITED = frozenset({*OPEN, METRICS})


class RequestLimits:
    """The limits of one application.

    Requests are counted by token or, without a token, by address. Requests for unknown paths count,
    too.

    :raises InvalidSettings: naming ``RATE_LIMIT_STORAGE``
    """

    def __init__(self, app: Flask, settings: Settings) -> None:
        self._app = app
        self._rates = parse_many(settings.rate_limit) if settings.rate_limit else []
        self._limiter = FixedWindowRateLimiter(_storage(app, settings))
        self._refused = RememberedKeys()
        self.guesses = TokenThrottle(self._limiter, self._rates)

    def count(self) -> None:
        """Limit the rate of requests; register this after authentication."""
        self._app.before_request(self._count)

    def _count(self) -> None:
        if PAGE_TOKEN in request.environ:
            return  # the request for the page is counted
        shown = token()
        if request.endpoint in OPEN or (request.endpoint in UNLIMITED and (shown or _is_near())):
            return
        client = client_address() if shown is None else shown.token_id
        for rate in self._rates:
            key = rate.key_for("asked", client)
            wait_s = math.ceil(self._refused.left_s(key))
            if not wait_s and not self._limiter.hit(rate, "asked", client):
                wait_s = wait_of(self._limiter, rate, "asked", client)
                # Who goes on is refused without asking the storage, which may be PostgreSQL.
                self._refused.add(key, wait_s)
            if wait_s:
                raise ApiError(
                    429, ProblemType.TOO_MANY_REQUESTS, f"more requests than {rate}",
                    headers={"Retry-After": str(wait_s)},
                )  # fmt: skip


def _is_near() -> bool:
    """Whether the request is from this machine."""
    return is_loopback(request.remote_addr or "")


def _storage(app: Flask, settings: Settings) -> Storage:
    if settings.rate_limit_storage == "postgresql":
        return SharedCounts(app.extensions[EXTENSION])
    try:
        storage = storage_from_string(settings.rate_limit_storage)
    except (ConfigurationError, ImportError) as error:
        raise InvalidSettings(f"RATE_LIMIT_STORAGE: cannot be used: {error}") from error
    if not isinstance(storage, Storage):
        raise InvalidSettings("RATE_LIMIT_STORAGE: cannot be used: it is asynchronous")
    return storage
