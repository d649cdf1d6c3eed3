"""Forms: their protection against other sites, and the files chosen in them.

A random value is in a cookie and in every form. Another site can make a browser send a form, but
can read neither value (OWASP: double submit cookie). The cookie is also ``SameSite=Strict``.
Beside that, the browser states the origin of a form; other clients state none.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from flask import after_this_request, g, request
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response

from adviser.projects.documents import text_of
from api.http.errors import ApiError, ProblemType
from api.pages.api_client import ApiProblem
from model.errors import InvalidFile

#: Name of the cookie and of the field.
FORM_TOKEN = "form_token"  # noqa: S105


def form_token() -> str:
    """The value for the hidden field of a form; sets the cookie if there is none."""
    if "form_token" not in g:
        g.form_token = request.cookies.get(FORM_TOKEN) or secrets.token_urlsafe(16)
        if FORM_TOKEN not in request.cookies:
            after_this_request(_with_cookie)
    return str(g.form_token)


def check_form() -> None:
    """Refuse a form that does not come from a page of this service.

    :raises ApiError: 403 if the field and the cookie differ, or the browser names another origin
    """
    if request.method != "POST":
        return
    sent, cookie = request.form.get(FORM_TOKEN, ""), request.cookies.get(FORM_TOKEN, "")
    if not cookie or not _has_own_origin() or not hmac.compare_digest(sent, cookie):
        detail = "the form is too old or comes from another site: load the page again"
        raise ApiError(403, ProblemType.FORBIDDEN, detail)


def _has_own_origin() -> bool:
    """Whether the browser says that this request comes from this origin, or says nothing.

    Behind a proxy ``Sec-Fetch-Site`` is more reliable, because the proxy may change the host.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.host


def uploaded_text(upload: FileStorage) -> str:
    """The text of a file, in UTF-8 or in the encoding of its byte order mark.

    :raises ApiProblem: 422 if it is not such text
    """
    try:
        return text_of(upload.filename or "file", upload.read())
    except InvalidFile as error:
        raise ApiProblem(422, {"detail": str(error), "hint": error.hint}, {}) from error


def _with_cookie(response: Response) -> Response:
    response.set_cookie(
        FORM_TOKEN, g.form_token, httponly=True, samesite="Strict", secure=request.is_secure
    )
    return response
