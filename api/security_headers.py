"""What browsers are told: to run nothing, to frame nothing, to tell nobody."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, request

from api.client_addresses import is_loopback

#: For documents, which load nothing.
_NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
#: For pages, which load what this service serves.
_OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'self'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR_S = 365 * 24 * 3600


def register(app: Flask) -> None:
    """Add the headers to every response of ``app``; a view's own ones stay."""
    app.after_request(_protect)


def _protect(response: Response) -> Response:
    headers = response.headers
    for name, value in _ALWAYS.items():
        headers.setdefault(name, value)
    page = response.mimetype == "text/html"
    headers.setdefault("Content-Security-Policy", _OWN if page else _NOTHING)
    # Answers may be for one token only; a tag says that asking again is cheap.
    headers.setdefault("Cache-Control", "private, no-cache" if "ETag" in headers else "no-store")
    # A browser would remember it for everything else on this machine.
    if request.is_secure and not is_loopback(urlsplit(request.host_url).hostname or ""):
        headers.setdefault("Strict-Transport-Security", f"max-age={_YEAR_S}")
    return response
