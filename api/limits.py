"""How much one client may ask: requests a time by token or address, and the size of bodies."""

from __future__ import annotations

from flask import Flask, g, request
from flask_limiter import Limiter
from limits import parse_many
from limits.errors import ConfigurationError

from api.errors import ApiError
from api.exchange import UNLIMITED
from common.errors import InvalidSettings
from common.settings import Settings

_MIB = 1024**2
#: Of requests that describe a project: a lock of some thousand packages is a tenth of it.
REQUEST_BYTES = 3 * _MIB
#: Where everything that is sent is such a request.
_REQUESTS = ("/api/v1/", "/amun/api/v1/")


def register(app: Flask, settings: Settings) -> None:
    """Bound what clients of ``app`` send; called after who asks is found out.

    :raises InvalidSettings: naming ``RATE_LIMIT`` or ``RATE_LIMIT_STORAGE``
    """
    app.config["MAX_CONTENT_LENGTH"] = settings.body_limit_mb * _MIB
    app.before_request(_bound_body)
    if settings.rate_limit is None:
        return
    try:
        parse_many(settings.rate_limit)
    except ValueError:
        raise InvalidSettings(
            f"RATE_LIMIT: {settings.rate_limit!r} is neither none nor such as 600/minute"
        ) from None
    try:
        limiter = Limiter(
            _client,
            default_limits=[settings.rate_limit],
            storage_uri=settings.rate_limit_storage,
            headers_enabled=True,
            auto_check=False,
            # A client's limit is one, whatever it asks for.
            application_limits=[],
            strategy="fixed-window",
        )
        limiter.init_app(app)
    except (ConfigurationError, ImportError) as error:
        raise InvalidSettings(f"RATE_LIMIT_STORAGE: cannot be used: {error}") from error

    def check() -> None:
        if request.endpoint not in UNLIMITED:
            limiter.check()

    app.before_request(check)
