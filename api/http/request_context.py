"""Context of a request: its identifier, and the versions and data age that responses carry."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from secrets import token_hex

from flask import Flask, Response, g, request
from sqlalchemy import Connection

from api.http.errors import ApiError, ProblemType
from api.service import service
from common import __version__
from graph.record.freshness import KnowledgeState, progress

#: Methods of requests that write nothing.
READS = frozenset({"GET", "HEAD", "OPTIONS"})
REQUEST_ID = "X-Request-Id"
#: Header with the time of the newest data that a response may contain.
AS_OF = "X-Thoth-As-Of"
GRAPH_REVISION = "X-Thoth-Graph-Revision"

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def register(app: Flask) -> None:
    """Add an identifier and a time to every request of ``app``, headers to every response."""
    app.before_request(_identify)
    app.before_request(_refuse_nul)
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


def _refuse_nul() -> None:
    """Refuse NUL characters, which PostgreSQL cannot store and no name contains."""
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
