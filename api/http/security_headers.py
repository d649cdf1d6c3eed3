"""Security headers for browsers."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, request

from api.access.client_addresses import is_loopback

#: Policy for JSON documents, which load nothing.
_JSON_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
#: Policy for pages, which load resources of this service only.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'self'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer", browsers name no origin for the service's own forms either.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR_S = 365 * 24 * 3600


def register(app: Flask) -> None:
    """Add the headers to every response of ``app`` that does not set them itself."""
    app.after_request(_protect)


def _protect(response: Response) -> Response:
    headers = response.headers
    for name, value in _ALWAYS.items():
        headers.setdefault(name, value)
    page = response.mimetype == "text/html"
    headers.setdefault("Content-Security-Policy", _PAGE_POLICY if page else _JSON_POLICY)
    # Responses may be private to a token; those with an entity tag may be revalidated.
    headers.setdefault("Cache-Control", "private, no-cache" if "ETag" in headers else "no-store")
    # On a loopback address a browser would apply it to all other services there.
    if request.is_secure and not is_loopback(urlsplit(request.host_url).hostname or ""):
        headers.setdefault("Strict-Transport-Security", f"max-age={_YEAR_S}")
    return response
