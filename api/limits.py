"""How much one client may ask: requests a time by token or address, and the size of bodies."""

from __future__ import annotations

import time

from flask import Flask, Response, g, request
from flask_limiter import Limiter, RateLimitExceeded
from limits import RateLimitItem, parse_many
from limits.errors import ConfigurationError

from api.errors import ApiError, Problem, problem_response
from api.security import OPEN, is_open
from common.errors import InvalidSettings
from common.settings import Settings

_MIB = 1024**2
#: Of what describes a project: a lock of some thousand packages is a tenth of it.
REQUEST_BYTES = 3 * _MIB
#: The one place where more is sent.
_UPLOADS = "/api/v2/inspections"
#: Whoever watches the service asks as often as it likes.
UNLIMITED = frozenset({*OPEN, "metrics"})


class Limits:
    """The limits of one application; :meth:`bound` is called before it finds out who asks.

    Clients are counted by their token, others by their address. Tokens that are refused count
    for the address alone, so that guessing ends before one is looked up.

    :raises InvalidSettings: naming ``RATE_LIMIT``
    """

    def __init__(self, app: Flask, settings: Settings) -> None:
        self._app = app
        app.config["MAX_CONTENT_LENGTH"] = settings.body_limit_mb * _MIB
        self._rates = _rates(settings)
        self._limiter = Limiter(
            _client,
            application_limits=[] if settings.rate_limit is None else [settings.rate_limit],
            storage_uri=settings.rate_limit_storage,
            strategy="fixed-window",
        )
        self._limiter.request_filter(_is_watching)

    def bound(self) -> None:
        """Before tokens are looked at: the body's size, and who was refused too often."""
        self._app.before_request(_bound_body)
        self._app.before_request(self._refuse)
        self._app.after_request(self._count_refusal)

    def count(self) -> None:
        """After that: how often a client asked.

        :raises InvalidSettings: naming ``RATE_LIMIT_STORAGE``
        """
        # The extension's own headers would say `Retry-After` in every answer.
        self._app.register_error_handler(RateLimitExceeded, self._exceeded)
        try:
            self._limiter.init_app(self._app)
        except (ConfigurationError, ImportError) as error:
            raise InvalidSettings(f"RATE_LIMIT_STORAGE: cannot be used: {error}") from error

    def _refuse(self) -> None:
        if is_open():
            return
        for rate in self._rates:
            if not self._limiter.limiter.test(rate, "refused", _address()):
                raise ApiError(
                    429, Problem.TOO_MANY_REQUESTS, "too many tokens of this address were refused",
                    headers={"Retry-After": str(rate.get_expiry())},
                )  # fmt: skip

    def _exceeded(self, error: RateLimitExceeded) -> Response:
        breached = self._limiter.current_limit
        wait_s = 1.0 if breached is None else breached.reset_at - time.time()
        return problem_response(
            429, Problem.TOO_MANY_REQUESTS, f"more requests than {error.description} of one client",
            {"Retry-After": str(max(1, int(wait_s)))},
        )  # fmt: skip

    def _count_refusal(self, response: Response) -> Response:
        if response.status_code == 401 and "Authorization" in request.headers:
            for rate in self._rates:
                self._limiter.limiter.hit(rate, "refused", _address())
        return response


def _rates(settings: Settings) -> list[RateLimitItem]:
    if settings.rate_limit is None:
        return []
    try:
        return parse_many(settings.rate_limit)
    except ValueError:
        raise InvalidSettings(
            f"RATE_LIMIT: {settings.rate_limit!r} is neither none nor such as 600/minute"
        ) from None


def _client() -> str:
    token = g.get("token")
    return _address() if token is None else str(token.token_id)


def _address() -> str:
    return request.remote_addr or "unknown"


def _is_watching() -> bool:
    return request.endpoint in UNLIMITED


def _bound_body() -> None:
    if request.path.rstrip("/") != _UPLOADS:
        request.max_content_length = REQUEST_BYTES
