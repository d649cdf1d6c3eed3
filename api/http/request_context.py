"""Context of a request: its client's address, its identifier, its body, headers of all responses.

Bodies have limits of size, time, nesting depth and numbers. Headers state versions and the age of
the data, and protect browsers.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from ipaddress import IPv4Address, IPv6Network, ip_address
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

import orjson
from flask import Flask, Response, current_app, g, request
from sqlalchemy import Connection

from api.http.errors import ApiError, ProblemType
from api.store_access import service
from common import __version__
from graph.record.freshness import KnowledgeState, progress
from model.json_documents import out_of_bounds

#: Methods of requests that write nothing.
READS = frozenset({"GET", "HEAD", "OPTIONS"})
REQUEST_ID = "X-Request-Id"
#: Header with the time of the newest data that a response may contain.
AS_OF = "X-Thoth-As-Of"
GRAPH_REVISION = "X-Thoth-Graph-Revision"

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
#: Maximum length of a URL.
_URL_CHARACTERS = 8000

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def register(app: Flask) -> None:
    """Identify and limit every request of ``app``; add headers to every response."""
    app.before_request(_identify)
    app.before_request(_check_url)
    app.before_request(_bound_body)
    app.after_request(_protect)
    app.after_request(_describe)


def from_data(progress: KnowledgeState) -> None:
    """Note how current the data of this request's response is."""
    from_earlier_data(progress.as_of, progress.revision)


def from_earlier_data(as_of: datetime | None, revision: int) -> None:
    """Note how current the data was when a stored response was made."""
    g.known = as_of, revision


@contextmanager
def reading() -> Iterator[tuple[Connection, KnowledgeState]]:
    """A connection for reading, and how current its data is.

    :raises StoreUnavailable: if PostgreSQL does not answer
    """
    with service().reading() as connection:
        # Read first, so that data which is read later is at least as new.
        now = progress(connection)
        from_data(now)
        yield connection, now


def versions() -> dict[str, str]:
    """Headers with the release of this service, under its own and the original service's name."""
    return {"X-Thoth-Version": __version__, "X-User-API-Service-Version": __version__}


def _identify() -> None:
    g.began = time.perf_counter()
    client_id = request.headers.get(REQUEST_ID, "")
    g.request_id = client_id if _GIVEN_ID.fullmatch(client_id) else token_hex(8)


def _check_url() -> None:
    """Refuse long URLs, and NUL characters, which PostgreSQL cannot store and no name contains."""
    if len(request.url) > _URL_CHARACTERS:
        raise ApiError(414, ProblemType.TOO_LARGE, f"the URL is longer than {_URL_CHARACTERS}")
    texts = (request.path, *request.args, *request.args.values())
    if any("\0" in it for it in texts):
        raise ApiError(400, ProblemType.INVALID_REQUEST, "the URL contains a NUL character")


def _describe(response: Response) -> Response:
    headers = response.headers
    headers[REQUEST_ID] = g.get("request_id") or token_hex(8)
    headers.update(versions())
    if "known" in g:
        as_of, revision = g.known
        headers[GRAPH_REVISION] = str(revision)
        if as_of is not None:
            headers[AS_OF] = as_of.isoformat(timespec="seconds")
    return response


def _protect(response: Response) -> Response:
    """Add security headers that the response does not set itself."""
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


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback address.

    >>> [is_loopback(it) for it in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.example")]
    [True, True, True, False, False]
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def neighbourhood(host: str) -> str:
    """The network that counts as one client: an IPv4 address, or an IPv6 network of 64 bits.

    >>> [neighbourhood(it) for it in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::9:1", "?")]
    ['192.0.2.7', '192.0.2.7', '2001:db8::/64', '?']
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), 64), strict=False))


def client_address() -> str:
    """The address by which the present request is counted."""
    return neighbourhood(request.remote_addr or "unknown")


#: WSGI key of a request whose body did not arrive in time.
LATE = "thoth.late_body"
MIB = 1024**2
#: Maximum size of most bodies. A lock of a few thousand packages has a tenth of it.
REQUEST_BYTES = 3 * MIB
#: The only path with a larger limit.
_UPLOADS = "/api/v2/inspections"


def body_limit(app: Flask, path: str) -> int:
    """Maximum size of the body of a request to ``path``, bytes."""
    limit: int = app.config["UPLOAD_BYTES"] if path.rstrip("/") == _UPLOADS else REQUEST_BYTES
    return limit


def _bound_body() -> None:
    if LATE in request.environ:
        raise ApiError(408, ProblemType.TOO_SLOW, "the body did not arrive in time")
    request.max_content_length = body_limit(current_app, request.path)
    # By default, texts of a form may have 500 kB together.
    request.max_form_memory_size = REQUEST_BYTES


def json_of(data: bytes) -> Any:
    """Parse a JSON body.

    :raises ApiError: 400 if it is invalid, or cannot be stored; names the field
    """
    try:
        # orjson limits the depth and refuses lone surrogates and infinite numbers.
        value = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise _refused("json", f"Invalid JSON body: {error}") from error
    problem = out_of_bounds(value)
    if problem is not None:
        path, message = problem
        # Clients choose keys, and logs show them.
        printable = "".join(it if it.isprintable() else "?" for it in path)[:200]
        raise _refused(printable or "json", message)
    return value


def _refused(field: str, message: str) -> ApiError:
    detail = message if field == "json" else f"{field}: {message}"
    return ApiError(400, ProblemType.INVALID_REQUEST, detail, errors={"json": {field: [message]}})
