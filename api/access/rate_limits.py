"""Limits for the rate of requests, by token or address: Flask-Limiter counts them."""

from __future__ import annotations

import time

from flask import Flask, Response, request
from flask_limiter import Limiter, RequestLimit
from limits.errors import ConfigurationError

from api.access.authentication import OPEN, PAGE_TOKEN, UNLIMITED, token
from api.http.errors import ProblemType, problem_response
from api.http.request_context import client_address, is_loopback
from common.settings import Settings
from model.errors import InvalidSettings


def register(app: Flask, settings: Settings) -> None:
    """Limit the requests of each token and, without a token, of each address.

    Register this after authentication. Requests for unknown paths count, too.

    :raises InvalidSettings: naming ``RATE_LIMIT_STORAGE``
    """
    limiter = Limiter(
        _client,
        application_limits=[settings.rate_limit] if settings.rate_limit else [],
        storage_uri=settings.rate_limit_storage,
        # While a store such as Redis does not answer, each process counts in its own memory.
        in_memory_fallback_enabled=True,
        # What has no name is not counted, and an unknown path has no endpoint.
        request_identifier=lambda: request.endpoint or "unknown",
        on_breach=_refusal,
    )
    limiter.request_filter(_is_exempt)
    try:
        limiter.init_app(app)
    except (ConfigurationError, ImportError) as error:
        raise InvalidSettings(f"RATE_LIMIT_STORAGE: cannot be used: {error}") from error


def _client() -> str:
    current = token()
    return client_address() if current is None else current.token_id


def _is_exempt() -> bool:
    if PAGE_TOKEN in request.environ:
        return True  # the request for the page is counted
    near = token() is not None or is_loopback(request.remote_addr or "")
    return request.endpoint in OPEN or (request.endpoint in UNLIMITED and near)


def _refusal(limit: RequestLimit) -> Response:
    wait_s = max(1, int(limit.reset_at - time.time()))
    detail = f"more requests than {limit.limit}"
    headers = {"Retry-After": str(wait_s)}
    return problem_response(429, ProblemType.TOO_MANY_REQUESTS, detail, headers)
