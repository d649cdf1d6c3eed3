"""Authentication, scopes and rates: bearer tokens in the Authorization header, sessions of pages.

Requests are counted by token, or by address without one; Flask-Limiter counts them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

from flask import Flask, Response, current_app, g, request
from flask_limiter import Limiter, RequestLimit
from limits import parse_many
from limits.errors import ConfigurationError
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from api.health.schema_state import refuse_writes
from api.http.errors import ApiError, ProblemType, problem_response
from api.http.request_context import client_address, is_loopback
from api.service import service
from common.settings import OPENABLE_SCOPES, Settings
from graph.record.access import Scope, Token, digest_of, session_token, token_shown
from model.errors import InvalidSettings, StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")

#: Query parameter in which old clients send their token.
_IN_QUERY = "token"
#: WSGI key that pages set in their own requests to the API: the client's token, or ``None``.
PAGE_TOKEN = "thoth.page_token"  # noqa: S105
#: Cookie with the secret of a session, which only pages accept.
SESSION_COOKIE = "thoth_session"
#: How clients of the API send a token; pages offer to sign in instead.
_HINT = "send it in the header `Authorization: Bearer <token>`"
#: How the names of the blueprints of pages begin.
PAGES = "pages-"
#: Key of the throttle in ``app.extensions``.
_GUESSES = "thoth-token-throttle"
#: Endpoints that are open to everybody, even with an invalid token.
OPEN = frozenset({"livez", "readyz", "liveness", "readiness"})
#: Endpoint that tells monitoring that PostgreSQL does not answer, so recent tokens suffice then.
METRICS = "metrics"
#: Endpoints for monitoring without a limit; `metrics` only with a token or from this machine.
UNLIMITED = frozenset({*OPEN, METRICS})

#: How long a valid token is remembered, s.
_RECENT_S = 3600.0
#: Number of tokens that are remembered; the oldest go first.
_MOST_TOKENS = 4096


class TokenThrottle:
    """Counts invalid tokens: after too many from an address, its tokens are not looked up.

    Tokens that were valid recently stay accepted, because many people share an address.

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


def register(app: Flask, settings: Settings) -> None:
    """Authenticate every request of ``app``; refuse addresses that send many invalid tokens."""
    guesses = app.extensions[_GUESSES] = TokenThrottle(settings.rate_limit)

    @app.before_request
    def _identify() -> None:
        g.token = None
        if PAGE_TOKEN in request.environ:
            g.token = request.environ[PAGE_TOKEN]
        elif request.endpoint not in OPEN:
            g.token = _shown(guesses) or _of_session()


def token() -> Token | None:
    """The token of this request; ``None`` for an anonymous request."""
    current: Token | None = g.get("token")
    return current


def needs(scope: Scope, *, anonymous: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Restrict a view to clients with ``scope``.

    :param anonymous: whether the operator can open the view to everyone; ``False`` for views that
        show other clients' projects
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            require(scope, anonymous=anonymous)
            return view(*args, **kwargs)

        # Where flask-smorest keeps what the decorators of an operation tell its document.
        document = {**getattr(view, "_apidoc", {}), "security": security(scope, open_=anonymous)}
        setattr(guarded, "_apidoc", document)  # noqa: B010
        return guarded

    return decorate


def security(*scopes: Scope, open_: bool = True) -> list[dict[str, list[str]]]:
    """The security of an operation that needs one of ``scopes``, in the form of OpenAPI.

    :param open_: whether the operator can open the operation to everyone

    >>> security(Scope.READ)
    [{}, {'token': ['read']}]
    >>> security(Scope.INGEST)
    [{'token': ['ingest']}]
    """
    nobody: list[dict[str, list[str]]] = (
        [{}] if open_ and OPENABLE_SCOPES.intersection(scopes) else []
    )
    return [*nobody, *({"token": [scope.value]} for scope in scopes)]


#: Scopes whose requests write nothing, whatever their method.
_READING = frozenset({Scope.READ, Scope.CYPHER})


def require(scope: Scope, *, anonymous: bool = True) -> None:
    """Let a request pass that has a scope.

    :raises ApiError: 401 if a token is needed and missing, 403 if it lacks the scope, 503 if writes
        wait for a migration
    """
    if not (anonymous and scope.value in service().settings.anonymous_scopes):
        _require_token_with(scope)
    if scope not in _READING:
        refuse_writes()


def _require_token_with(scope: Scope) -> None:
    client = token()
    if client is None:
        raise _unauthorized(
            f"this needs a token with the scope {scope.value!r}",
            f'scope="{scope.value}"',
            hint=_HINT,
        )
    if not client.may(scope):
        raise ApiError(
            403, ProblemType.FORBIDDEN,
            f"the token {client.prefix}… does not have the scope {scope.value!r}",
            headers=_challenge(f'error="insufficient_scope", scope="{scope.value}"'),
        )  # fmt: skip


def require_token() -> Token:
    """:raises ApiError: 401 if this request has no token"""
    client = token()
    if client is None:
        raise _unauthorized("this needs a token", hint=_HINT)
    return client


def token_of(secret: str) -> Token:
    """The valid token with this secret.

    :raises ApiError: 401 if there is none, 429 if the address sent too many invalid ones
    :raises StoreUnavailable: if PostgreSQL does not answer
    """
    guesses: TokenThrottle = current_app.extensions[_GUESSES]
    digest = digest_of(secret)
    guesses.check(digest)
    try:
        with service().writing() as connection:
            client = token_shown(connection, secret)
    except StoreUnavailable:
        recent = guesses.recent(digest) if request.endpoint == METRICS else None
        if recent is None:
            raise
        return recent
    if client is None:
        guesses.refused()
        raise _unauthorized(
            "the token is unknown, has expired or was revoked", 'error="invalid_token"'
        )
    guesses.accepted(digest, client)
    return client


def _shown(guesses: TokenThrottle) -> Token | None:
    """The token of this request; ``None`` if it has none.

    :raises ApiError: 401 if it is invalid, 429 if its address sent too many invalid ones
    """
    try:
        secret = _secret()
    except ApiError:
        guesses.check("")
        guesses.refused()
        raise
    return None if secret is None else token_of(secret)


def _of_session() -> Token | None:
    """The token of the session of a page; ``None`` without a session that is still open."""
    secret = request.cookies.get(SESSION_COOKIE)
    if secret is None or not (request.blueprint or "").startswith(PAGES):
        return None
    with service().reading() as connection:
        return session_token(connection, secret)


def _secret() -> str | None:
    """The secret in this request; ``None`` if there is none."""
    header = request.headers.get("Authorization")
    if _IN_QUERY in request.args:
        if not service().settings.query_tokens:
            raise _unauthorized("a token belongs in the Authorization header, not in the URL")
        if header is None:
            return request.args[_IN_QUERY]
    if header is None:
        return None
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise _unauthorized("the Authorization header is not `Bearer <token>`")
    return secret.strip()


def _unauthorized(detail: str, why: str = "", **more: str) -> ApiError:
    return ApiError(401, ProblemType.UNAUTHORIZED, detail, headers=_challenge(why), **more)


def _challenge(why: str) -> dict[str, str]:
    """The header ``WWW-Authenticate`` of RFC 6750, section 3."""
    return {"WWW-Authenticate": f"Bearer {why}".rstrip()}


def limit_rates(app: Flask, settings: Settings) -> None:
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
