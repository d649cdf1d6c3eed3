"""Complete reading of request bodies, within limits of size, time, nesting depth and numbers."""

from __future__ import annotations

from typing import IO, Any, NoReturn, cast

import flask
import orjson
from gunicorn.http.errors import ParseException
from marshmallow import Schema
from webargs import missing
from webargs.flaskparser import FlaskParser, is_json_request
from webargs.multidictproxy import MultiDictProxy
from werkzeug.utils import cached_property
from werkzeug.wsgi import LimitedStream

from api.http.errors import ApiError, ProblemType
from model.json_documents import out_of_bounds


class TooManySlow(TimeoutError):
    """A body arrives slowly, and slow clients already use all threads allotted to them."""


class _Body(LimitedStream):
    """A request body, which ends after the announced length or with the last chunk.

    :param most: limit, bytes
    :raises ApiError: on reading: 400 if it breaks off, 408 or 503 if it arrives too slowly,
        413 if it is larger than the limit
    """

    def __init__(self, stream: IO[bytes], length: int | None, most: int) -> None:
        # The first byte beyond the limit shows that chunks are too large.
        super().__init__(stream, most + 1 if length is None else length)
        self._most = most
        self._length = length
        if length is not None and length > most:
            self._refuse_large()

    def readinto(self, b: bytearray) -> int | None:  # type: ignore[override]
        """Read bytes of the body, and check the size limit."""
        try:
            size = super().readinto(b)
        except ParseException as error:  # of a chunk's length
            self.on_disconnect(error)
        if self.tell() > self._most:
            self._refuse_large()
        return size

    def on_disconnect(self, error: Exception | None = None) -> None:
        """Handle the end of the input, which is an error unless the body is chunked."""
        if self._length is None and error is None:
            return
        if isinstance(error, TooManySlow):
            raise ApiError(
                503, ProblemType.OVERLOADED, "too many clients send slowly: try again later",
                headers={"Retry-After": "10"},
            ) from error  # fmt: skip
        if isinstance(error, TimeoutError):
            raise ApiError(408, ProblemType.TOO_SLOW, "the body did not arrive in time") from error
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, "the body broke off before its end"
        ) from error

    def _refuse_large(self) -> NoReturn:
        raise ApiError(413, ProblemType.TOO_LARGE, f"the body is larger than {self._most} bytes")


class BoundedRequest(flask.Request):
    """A request whose body is read completely or refused."""

    @cached_property
    def stream(self) -> IO[bytes]:
        """The body; a server that decodes chunks marks the end of the body itself."""
        most = self.max_content_length
        if most is None or not (self.content_length or "wsgi.input_terminated" in self.environ):
            return super().stream
        return cast(IO[bytes], _Body(self.environ["wsgi.input"], self.content_length, most))


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
        """Load a query; a parameter that takes one value must not occur more than once.

        :raises ApiError: 400, naming those that occur more often
        """
        many = MultiDictProxy(req.args, schema).multiple_keys
        known = {field.data_key or name for name, field in schema.load_fields.items()} - many
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
