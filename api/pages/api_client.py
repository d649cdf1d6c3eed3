"""Reads and writes of pages: each is a request to the API in the same process.

A page therefore shows what the API answers, under the same scopes, and links to the same JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import current_app, g, request
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from api.access.authentication import PAGE_TOKEN, token
from api.http.request_context import AS_OF, REQUEST_ID


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """A JSON response of the API.

    :param url: path and query that return it
    :param as_of: time of the newest data that it may contain, in ISO format
    """

    url: str
    status: int
    body: Mapping[str, Any]
    as_of: str | None = None
    method: str = "GET"

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class ApiProblem(Exception):
    """A response of the API with a status from 400 on; ``body`` is the problem document."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__(body.get("detail") or HTTPStatus(status).phrase)
        self.status = status
        self.body = body
        self.headers = headers


def read(path: str, /, **query: object) -> ApiDocument:
    """GET a document of the API; parameters that are ``None`` or empty are left out.

    :raises ApiProblem: for a status from 400 on
    """
    return _answer("GET", path, query)


def read_if_any(path: str, /, **query: object) -> ApiDocument | None:
    """GET a document of the API; ``None`` if it does not exist or this client may not see it.

    :raises ApiProblem: for any other status from 400 on
    """
    try:
        return read(path, **query)
    except ApiProblem as problem:
        if problem.status in {401, 403, 404}:
            return None
        raise


def write(path: str, body: Mapping[str, Any] | None = None, **query: object) -> ApiDocument:
    """POST a document to the API.

    :raises ApiProblem: for a status from 400 on
    """
    return _answer("POST", path, query, body or {})


def _answer(
    method: str, path: str, query: Mapping[str, object], body: Mapping[str, Any] | None = None
) -> ApiDocument:
    filled = sorted((name, str(value)) for name, value in query.items() if value not in (None, ""))
    text = urlencode(filled)
    builder = EnvironBuilder(
        path,
        base_url=request.host_url,
        method=method,
        query_string=text,
        data=None if body is None else orjson.dumps(body),
        content_type=None if body is None else "application/json",
        headers=Headers({REQUEST_ID: str(g.request_id)}),
        environ_overrides={PAGE_TOKEN: token(), "REMOTE_ADDR": request.remote_addr or ""},
    )
    chunks, status_line, headers = run_wsgi_app(current_app.wsgi_app, builder.get_environ())
    content = b"".join(chunks)
    status = int(status_line.split()[0])
    document = orjson.loads(content) if content else {}
    if status >= 400:
        raise ApiProblem(status, document, dict(headers.items()))
    url = f"{path}?{text}" if text else path
    return ApiDocument(url, status, document, headers.get(AS_OF), method)
