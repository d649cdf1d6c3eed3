"""Who asks, and what they may: bearer tokens, which are shown in the Authorization header only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import Flask, g, request

from api.errors import ApiError, Problem
from api.service import service
from graph.repositories.tokens import Scope, Token, token_shown

P = ParamSpec("P")
R = TypeVar("R")

#: Parameters that hold secrets where clients of old put them.
_IN_QUERY = "token"


#: Questions that everybody may ask; none is refused for the token that it shows.
OPEN = frozenset({"livez", "readyz", "liveness", "readiness"})


def is_open() -> bool:
    """Whether nobody is asked who they are for this request."""
    return request.endpoint in OPEN


def register(app: Flask) -> None:
    """Find out for every request of ``app`` who asks."""
    app.before_request(_identify)


def token() -> Token | None:
    """The token of this request; ``None`` for an anonymous one."""
    found: Token | None = g.get("token")
    return found


def needs(scope: Scope, *, anonymous: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let only those call a view who have ``scope``: by their token, or because everybody has.

    :param anonymous: whether it may be everybody's; not what tells of others' projects
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            require(scope, anonymous=anonymous)
            return view(*args, **kwargs)

        return guarded

    return decorate


def require(scope: Scope, *, anonymous: bool = True) -> None:
    """:raises ApiError: 401 without a token where one is needed, 403 if it has not this scope"""
    if anonymous and scope.value in service().settings.anonymous_scopes:
        return
    found = require_token()
    if not found.may(scope):
        raise ApiError(
            403, Problem.FORBIDDEN, f"the token {found.prefix}… has not the scope {scope.value!r}"
        )


def require_token() -> Token:
    """:raises ApiError: 401 if this request showed none"""
    found = token()
    if found is None:
        raise _unauthorized("this needs a token: `Authorization: Bearer <token>`")
    return found


def _identify() -> None:
    g.token = None
    if is_open():
        return
    secret = _secret()
    if secret is None:
        return
    with service().writing() as connection:
        g.token = token_shown(connection, secret)
    if g.token is None:
        raise _unauthorized("the token is not known, has expired or was revoked")


def _secret() -> str | None:
    """What the request shows as its token."""
    header = request.headers.get("Authorization")
    if _IN_QUERY in request.args:
        if not service().settings.query_tokens:
            raise _unauthorized("tokens are read of the Authorization header only, never of a URL")
        if header is None:
            return request.args[_IN_QUERY]
    if header is None:
        return None
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise _unauthorized("the Authorization header is not `Bearer <token>`")
    return secret.strip()


def _unauthorized(detail: str) -> ApiError:
    return ApiError(401, Problem.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})
