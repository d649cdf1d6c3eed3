"""Request bodies, within limits of size, time, nesting depth and numbers."""

from __future__ import annotations

from typing import Any

import flask
import orjson
from flask import request
from marshmallow import Schema
from webargs import missing
from webargs.flaskparser import FlaskParser, is_json_request

from api.http.errors import ApiError, ProblemType
from common.settings import Settings
from model.json_documents import out_of_bounds

#: WSGI key of a request whose body did not arrive in time.
LATE = "thoth.late_body"
_MIB = 1024**2
#: Maximum size of most bodies. A lock of a few thousand packages has a tenth of it.
REQUEST_BYTES = 3 * _MIB
#: The only path with a larger limit.
_UPLOADS = "/api/v2/inspections"


def register(app: flask.Flask, settings: Settings) -> None:
    """Refuse bodies of requests to ``app`` that are too large or arrived too slowly."""
    app.config["UPLOAD_BYTES"] = settings.body_limit_mb * _MIB
    app.before_request(_bound_body)


def body_limit(app: flask.Flask, path: str) -> int:
    """Maximum size of the body of a request to ``path``, bytes."""
    limit: int = app.config["UPLOAD_BYTES"] if path.rstrip("/") == _UPLOADS else REQUEST_BYTES
    return limit


def _bound_body() -> None:
    if LATE in request.environ:
        raise ApiError(408, ProblemType.TOO_SLOW, "the body did not arrive in time")
    request.max_content_length = body_limit(flask.current_app, request.path)
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
        raise _refused(_printable(path) or "json", message)
    return value


class BodyParser(FlaskParser):
    """Reads bodies with :func:`json_of`."""

    def _raw_load_json(self, req: flask.Request) -> Any:
        data = req.get_data(cache=True)
        if data and not is_json_request(req):
            detail = f"Content-Type: {req.mimetype!r} is not application/json"
            raise ApiError(415, ProblemType.UNSUPPORTED_MEDIA_TYPE, detail)
        return json_of(data) if data else missing

    def load_querystring(self, req: flask.Request, schema: Schema) -> Any:
        """Load a query; a parameter must not occur more than once.

        :raises ApiError: 400, naming those that occur more often
        """
        known = {field.data_key or name for name, field in schema.load_fields.items()}
        twice = {
            name: ["Given more than once."]
            for name, values in req.args.lists()
            if len(values) > 1 and name in known
        }
        if twice:
            detail = f"given more than once: {', '.join(sorted(twice))}"
            raise ApiError(400, ProblemType.INVALID_REQUEST, detail, errors={"query": twice})
        return super().load_querystring(req, schema)


def _refused(field: str, message: str) -> ApiError:
    detail = message if field == "json" else f"{field}: {message}"
    return ApiError(400, ProblemType.INVALID_REQUEST, detail, errors={"json": {field: [message]}})


def _printable(path: str) -> str:
    """Replace control characters in a path: clients choose keys, and logs show them."""
    return "".join(it if it.isprintable() else "?" for it in path)[:200]
