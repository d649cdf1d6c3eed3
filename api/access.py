"""Tokens, sessions, limits of requests, and the audit log.

A token is in the Authorization header. Flask-Limiter counts requests by token or, without a token,
by address. Every request is logged, and every request that wrote data is recorded.
"""

import logging
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

from api.health.checks import refuse_writes
from api.http.errors import ApiError, ProblemType, problem_response
from api.http.request_context import READS, client_address, is_loopback
from api.store_access import service
from common.settings import OPENABLE_SCOPES, Settings
from graph.record.access import (
    AuditEntry,
    Scope,
    Token,
    add_write,
    digest_of,
    session_token,
    token_shown,
)
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
#: Maximum number of cached tokens; the oldest are removed first.
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

    def count_refusal(self) -> None:
        """Count the invalid token of this request."""
        for rate in self._rates:
            self._limiter.hit(rate, client_address())

    def remember(self, digest: str, client: Token) -> None:
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


def authenticate(app: Flask, settings: Settings) -> None:
    """Authenticate every request of ``app``; refuse addresses that send many invalid tokens."""
    guesses = app.extensions[_GUESSES] = TokenThrottle(settings.rate_limit)

    @app.before_request
    def _identify() -> None:
        g.token = None
        if PAGE_TOKEN in request.environ:
            g.token = request.environ[PAGE_TOKEN]
        elif request.endpoint not in OPEN:
            try:
                secret = _secret()
            except ApiError:
                guesses.check("")
                guesses.count_refusal()
                raise
            g.token = _of_session() if secret is None else token_of(secret)


def token() -> Token | None:
    """The token of this request; ``None`` for an anonymous request."""
    client: Token | None = g.get("token")
    return client


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
    openable = open_ and OPENABLE_SCOPES.intersection(scopes)
    return [*([{}] if openable else []), *({"token": [scope.value]} for scope in scopes)]


#: Scopes whose requests write nothing, whatever their method.
_READING = frozenset({Scope.READ, Scope.CYPHER})


def require(scope: Scope, *, anonymous: bool = True) -> None:
    """Let a request pass that has a scope.

    :raises ApiError: 401 if a token is needed and missing, 403 if it lacks the scope, 503 if writes
        wait for a migration
    """
    if not (anonymous and scope.value in service().settings.anonymous_scopes):
        client = token()
        if client is None:
            detail = f"the request needs a token with the scope {scope.value!r}"
            raise _unauthorized(detail, f'scope="{scope.value}"', hint=_HINT)
        if not client.may(scope):
            detail = f"the token {client.prefix}… does not have the scope {scope.value!r}"
            challenge = _challenge(f'error="insufficient_scope", scope="{scope.value}"')
            raise ApiError(403, ProblemType.FORBIDDEN, detail, headers=challenge)
    if scope not in _READING:
        refuse_writes()


def require_token() -> Token:
    """:raises ApiError: 401 if this request has no token"""
    client = token()
    if client is None:
        raise _unauthorized("the request needs a token", hint=_HINT)
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
        guesses.count_refusal()
        detail = "the token is unknown, has expired or was revoked"
        raise _unauthorized(detail, 'error="invalid_token"')
    guesses.remember(digest, client)
    return client


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

    def client() -> str:
        current = token()
        return client_address() if current is None else current.token_id

    def refusal(limit: RequestLimit) -> Response:
        headers = {"Retry-After": str(max(1, int(limit.reset_at - time.time())))}
        detail = f"more requests than {limit.limit}"
        return problem_response(429, ProblemType.TOO_MANY_REQUESTS, detail, headers)

    limiter = Limiter(
        client,
        application_limits=[settings.rate_limit] if settings.rate_limit else [],
        storage_uri=settings.rate_limit_storage,
        # While a store such as Redis does not answer, each process counts in its own memory.
        in_memory_fallback_enabled=True,
        # What has no name is not counted, and an unknown path has no endpoint.
        request_identifier=lambda: request.endpoint or "unknown",
        on_breach=refusal,
    )

    @limiter.request_filter
    def _is_exempt() -> bool:
        if PAGE_TOKEN in request.environ:
            return True  # the request for the page is counted
        near = token() is not None or is_loopback(request.remote_addr or "")
        return request.endpoint in OPEN or (request.endpoint in UNLIMITED and near)

    try:
        limiter.init_app(app)
    except (ConfigurationError, ImportError) as error:
        raise InvalidSettings(f"RATE_LIMIT_STORAGE: cannot be used: {error}") from error


#: Paths of probes, which are logged only on failure.
_WATCHED = ("/livez", "/readyz", "/liveness", "/readiness", "/metrics")


def register_access_log(app: Flask) -> None:
    """Log every request of ``app``, except those that pages make themselves."""
    app.after_request(_log)


def _log(response: Response) -> Response:
    """Log a request; its query is logged without values, which may be private."""
    status = response.status_code
    if PAGE_TOKEN in request.environ or (request.path in _WATCHED and status < 400):
        return response
    client = token()
    fields = {
        "method": request.method,
        "path": request.path[:200],
        "query": sorted(request.args)[:20],
        "status": status,
        "bytes": response.content_length,
        "duration_ms": round((time.perf_counter() - g.began) * 1000, 1),
        "address": request.remote_addr,
        "request_id": g.request_id,
        "token_id": client.token_id if client else None,
        "route": request.url_rule.rule if request.url_rule else None,
    }
    _LOG.info("request", extra=fields)
    return response


_LOG = logging.getLogger(__name__)


def record_writes(app: Flask) -> None:
    """Record the writes of ``app``."""
    app.after_request(_note)


def wrote(subject: str) -> None:
    """Set the subject of this request's entry: the object that it created or changed."""
    g.subject = subject


def wrote_nothing() -> None:
    """Write no audit entry for this request, because it changed nothing."""
    g.wrote_nothing = True


def _note(response: Response) -> Response:
    if request.method in READS or response.status_code >= 400 or request.url_rule is None:
        return response
    if "wrote_nothing" in g:
        return response
    shown = token()
    # The analysis that the request created, or the object in its URL if the URL names only one.
    document = response.get_json(silent=True) if response.is_json else None
    if not isinstance(document, dict):
        document = {}
    named = document.get("analysis_id") or document.get("inspection_id")
    arguments = list((request.view_args or {}).values())
    argument = str(arguments[0]) if len(arguments) == 1 else None
    write = AuditEntry(
        request_id=g.request_id,
        token_id=shown.token_id if shown else None,
        address=request.remote_addr or "unknown",
        method=request.method,
        route=request.url_rule.rule,
        status=response.status_code,
        subject=g.get("subject") or named or argument,
    )
    try:
        with service().writing() as connection:
            add_write(connection, write)
    except StoreUnavailable as error:
        # The write itself succeeded, so the client gets its response; the log has the entry.
        _LOG.warning("write_not_noted", extra={"request_id": g.request_id, "error": str(error)})
    return response
