"""JSON that clients send: read once, within bounds that every store and digest can take."""

from __future__ import annotations

from typing import Any

import flask
import orjson
from flask_smorest import Blueprint
from webargs import missing
from webargs.flaskparser import FlaskParser, is_json_request

from api.errors import ApiError, Problem
from common.bounds import out_of_bounds


def json_of(data: bytes) -> Any:
    """The value of a body.

    :raises ApiError: 400 if it is no JSON, or holds what cannot be stored; names the field
    """
    try:
        # Its depth is bounded, and it takes no half of a character and no number without end.
        value = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise _refused("json", f"Invalid JSON body: {error}") from error
    wrong = out_of_bounds(value)
    if wrong is not None:
        place, message = wrong
        raise _refused(_printable(place) or "json", message)
    return value


class BodyParser(FlaskParser):
    """Reads bodies by :func:`json_of`."""

    def _raw_load_json(self, req: flask.Request) -> Any:
        if not is_json_request(req):
            return missing
        data = req.get_data(cache=True)
        return json_of(data) if data else missing


class BodyBlueprint(Blueprint):
    """Resources whose bodies are read so."""

    ARGUMENTS_PARSER = BodyParser()


def _refused(field: str, message: str) -> ApiError:
    detail = message if field == "json" else f"{field}: {message}"
    return ApiError(400, Problem.INVALID_REQUEST, detail, errors={"json": {field: [message]}})


def _printable(place: str) -> str:
    """Keys are anybody's, and a problem is read in logs and terminals."""
    return "".join(it if it.isprintable() else "?" for it in place)[:200]
