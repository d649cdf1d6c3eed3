"""What every request and response carries: an identifier, versions, and how fresh the data is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from secrets import token_hex

from flask import Flask, Response, g, request
from sqlalchemy import Connection

from api.errors import ApiError, ProblemType
from api.service import service
from common import __version__
from graph.record.freshness import KnowledgeState, progress

REQUEST_ID = "X-Request-Id"
#: Of the newest knowledge that an answer may rest on.
AS_OF = "X-Thoth-As-Of"
GRAPH_REVISION = "X-Thoth-Graph-Revision"

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def register(app: Flask) -> None:
    """Give every request of ``app`` an identifier, and every response its headers."""
    app.before_request(_identify)
    app.before_request(_refuse_nul)
    app.after_request(_describe)


def from_data(progress: KnowledgeState) -> None:
    """Note of when the data is that this request's answer is made of."""
    from_earlier_data(progress.as_of, progress.revision)


def from_earlier_data(as_of: datetime | None, revision: int) -> None:
    """The same of an answer that was made earlier."""
    g.known = as_of, revision


@contextmanager
def reading() -> Iterator[tuple[Connection, KnowledgeState]]:
    """A connection for questions, and how fresh what they find is.

    :raises StoreUnavailable: if PostgreSQL does not answer
    """
    with service().reading() as connection:
        # Asked first: what is found later is as new as that, or newer.
        found = progress(connection)
        from_data(found)
        yield connection, found


def versions() -> dict[str, str]:
    """Headers that say which release answers; the second is the original service's."""
    return {"X-Thoth-Version": __version__, "X-User-API-Service-Version": __version__}


def _identify() -> None:
    given = request.headers.get(REQUEST_ID, "")
    g.request_id = given if _GIVEN_ID.fullmatch(given) else token_hex(8)


def _refuse_nul() -> None:
    """No name has one, and PostgreSQL takes none in a text."""
    given = (request.path, *request.args, *request.args.values())
    if any("\0" in it for it in given):
        raise ApiError(400, ProblemType.INVALID_REQUEST, "the address has a NUL character in it")


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
