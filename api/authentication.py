"""Authentication and scopes: bearer tokens, which clients send in the Authorization header."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import Flask, g, request

from api.errors import ApiError, ProblemType
from api.service import service
from api.token_throttle import TokenThrottle
from graph.record.tokens import Scope, Token, digest_of, token_shown

P = ParamSpec("P")
R = TypeVar("R")

#: Query parameter in which old clients send their token.
_IN_QUERY = "token"
#: Endpoints that are open to everybody, even with an invalid token.
OPEN = frozenset({"livez", "readyz", "liveness", "readiness"})


def register(app: Flask, guesses: TokenThrottle) -> None:
    """Authenticate every request of ``app``.

    :param guesses: counts invalid tokens and refuses addresses that send too many
    """

    @app.before_request
    def _identify() -> None:
        g.token = None
        if request.endpoint not in OPEN:
            g.token = _shown(guesses)


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

        return guarded

    return decorate


def require(scope: Scope, *, anonymous: bool = True) -> None:
    """:raises ApiError: 401 if a token is needed and missing, 403 if it lacks the scope"""
    if anonymous and scope.value in service().settings.anonymous_scopes:
        return
    client = token()
    if client is None:
        raise _unauthorized(
            f"this needs a token with the scope {scope.value!r}: `Authorization: Bearer <token>`",
            f'scope="{scope.value}"',
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
        raise _unauthorized("this needs a token: `Authorization: Bearer <token>`")
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
    if secret is None:
        return None
    digest = digest_of(secret)
    guesses.check(digest)
    with service().writing() as connection:
        client = token_shown(connection, secret)
    if client is None:
        guesses.refused()
        raise _unauthorized(
            "the token is unknown, has expired or was revoked", 'error="invalid_token"'
        )
    guesses.accepted(digest)
    return client


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


def _unauthorized(detail: str, why: str = "") -> ApiError:
    return ApiError(401, ProblemType.UNAUTHORIZED, detail, headers=_challenge(why))


def _challenge(why: str) -> dict[str, str]:
    """The header ``WWW-Authenticate`` of RFC 6750, section 3."""
    return {"WWW-Authenticate": f"Bearer {why}".rstrip()}
