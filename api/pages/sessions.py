"""Signing in and out: a token opens a session, whose secret is in a cookie."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from api.access.authentication import SESSION_COOKIE, token_of
from api.http.errors import ApiError
from api.pages.site import Pages, render
from api.service import service
from graph.record.access import close_session, open_session

#: How long a session is open.
LIFETIME = timedelta(hours=12)

blueprint = Pages("sessions", __name__)


@blueprint.get("/sign-in")
def sign_in() -> Response:
    """The form for a token."""
    return render("sign_in.html", target=_target(request.args.get("next")))


@blueprint.post("/sign-in")
def open_page_session() -> BaseResponse:
    """Open a session, and return to the page that needed it."""
    target = _target(request.form.get("next"))
    try:
        client = token_of(request.form.get("token", "").strip())
    except ApiError as error:
        if error.status != 401:
            raise
        return render("sign_in.html", target=target, status=401, refused=error.detail)
    with service().writing() as connection:
        secret = open_session(connection, client.token_id, LIFETIME)
    response = redirect(target, 303)
    response.set_cookie(
        SESSION_COOKIE, secret, max_age=LIFETIME, httponly=True, samesite="Strict",
        secure=request.is_secure,
    )  # fmt: skip
    return response


@blueprint.post("/sign-out")
def sign_out() -> BaseResponse:
    """Close the session."""
    secret = request.cookies.get(SESSION_COOKIE)
    if secret is not None:
        with service().writing() as connection:
            close_session(connection, secret)
    response = redirect(url_for("pages-home.home"), 303)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="Strict")
    return response


def _target(text: str | None) -> str:
    """A path of this service; the home page for anything else."""
    home = url_for("pages-home.home")
    # Browsers skip control characters: "/\t/host" is another server.
    if not text or not text.isprintable() or not text.startswith("/"):
        return home
    if text.startswith(("//", "/\\")):
        return home
    parts = urlsplit(text)
    return home if parts.scheme or parts.netloc else text
