"""Translation of errors into problem documents (RFC 9457); no other module does this.

The ``type`` of a problem is a stable address below ``/problems/`` that explains it. Below
``/api/v1`` problems also have ``error`` and ``parameters``, which ``thamos`` reads.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Self

from flask import Flask, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from api.jobs.queue import Overloaded
from model.errors import (
    AccessDenied,
    AlreadyRunning,
    DamagedDocument,
    IncomparableSamples,
    IndexProblem,
    InvalidArgument,
    InvalidDocument,
    ProjectError,
    QueryRefused,
    SchemaMismatch,
    StoreUnavailable,
)

MEDIA_TYPE = "application/problem+json"
#: Paths below which errors have the members that clients of the original service read.
COMPATIBLE = ("/api/v1", "/amun/api/v1")
#: Statuses that these clients expect as 400.
_OLD_STATUS = {413: 400, 422: 400}
#: Parameters that errors never repeat, because they may be secret.
_SECRET = frozenset({"token", "authorization", "password"})

_LOG = logging.getLogger(__name__)


class ProblemType(StrEnum):
    """Kind of problem; its value ends the URL in ``type``, and is never renamed."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """A kind with its explanation, which is served below ``/problems/``."""
        kind = str.__new__(cls, value)
        kind._value_, kind.meaning = value, meaning
        return kind

    INVALID_REQUEST = "invalid-request", "The request is invalid; `errors` names the fields."
    INVALID_DOCUMENT = (
        "invalid-document",
        "A document was refused; `reason` and `field` say why and where.",
    )
    INVALID_QUERY = "invalid-query", "The query was refused, or exceeded its time or row limit."
    INCOMPARABLE = "incomparable", "The two differ in unit, indicator or hardware."
    INDEX_NOT_ALLOWED = "index-not-allowed", "An index is not configured for this service."
    UNAUTHORIZED = "unauthorized", "The request needs a token, or its token is invalid."
    FORBIDDEN = "forbidden", "The token does not have the required scope."
    NOT_FOUND = "not-found", "The resource does not exist."
    NOT_READY = "not-ready", "The analysis is not finished; try again."
    METHOD_NOT_ALLOWED = "method-not-allowed", "The resource does not have this method."
    CONFLICT = "conflict", "The request conflicts with the present state."
    TOO_LARGE = "too-large", "The request is larger than the limit."
    TOO_SLOW = "too-slow", "The client did not send the request in time."
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported-media-type",
        "The `Content-Type` of the body is not supported.",
    )
    TOO_MANY_REQUESTS = (
        "too-many-requests",
        "The client exceeded its limit; `Retry-After` says when to try.",
    )
    OVERLOADED = "overloaded", "Too many jobs wait or run; `Retry-After` says when to try again."
    ANALYSIS_FAILED = "analysis-failed", "The analysis ended without a result; `status` says why."
    UNAVAILABLE = "unavailable", "A store is unavailable, or has the schema of another release."
    INTERNAL = "internal", "The service has a bug; its log contains the request's identifier."
    HTTP = "http", "See the HTTP status."


_OF_STATUS = {
    400: ProblemType.INVALID_REQUEST,
    401: ProblemType.UNAUTHORIZED,
    403: ProblemType.FORBIDDEN,
    404: ProblemType.NOT_FOUND,
    405: ProblemType.METHOD_NOT_ALLOWED,
    408: ProblemType.TOO_SLOW,
    409: ProblemType.CONFLICT,
    413: ProblemType.TOO_LARGE,
    414: ProblemType.TOO_LARGE,
    415: ProblemType.UNSUPPORTED_MEDIA_TYPE,
    422: ProblemType.INVALID_REQUEST,
    429: ProblemType.TOO_MANY_REQUESTS,
    431: ProblemType.TOO_LARGE,
    500: ProblemType.INTERNAL,
    503: ProblemType.UNAVAILABLE,
}
#: Details for statuses that werkzeug raises without one.
_DETAILS = {
    400: "the request cannot be read",
    404: "there is nothing at this address",
    405: "the resource does not have this method",
    413: "the request is larger than the limit",
    415: "the Content-Type of the body is not supported",
}


#: Status and kind by class of error; the first match counts.
_TRANSLATIONS: tuple[tuple[type[ProjectError], int, ProblemType], ...] = (
    (InvalidDocument, 422, ProblemType.INVALID_DOCUMENT),
    (InvalidArgument, 400, ProblemType.INVALID_REQUEST),
    (QueryRefused, 400, ProblemType.INVALID_QUERY),
    (IncomparableSamples, 422, ProblemType.INCOMPARABLE),
    (IndexProblem, 502, ProblemType.UNAVAILABLE),
    (AlreadyRunning, 409, ProblemType.CONFLICT),
    (DamagedDocument, 500, ProblemType.INTERNAL),
    (StoreUnavailable, 503, ProblemType.UNAVAILABLE),
    (SchemaMismatch, 503, ProblemType.UNAVAILABLE),
    (AccessDenied, 503, ProblemType.UNAVAILABLE),
    (ProjectError, 400, ProblemType.INVALID_REQUEST),
)


class ApiError(Exception):
    """An error that the API itself raises.

    :param detail: the problem, for people
    :param more: further members of the problem document
    """

    def __init__(
        self,
        status: int,
        problem: ProblemType,
        detail: str,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.problem = problem
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more


def not_found(what: str, name: str, **more: Any) -> ApiError:
    """A 404 error: there is no ``what`` of this name."""
    return ApiError(404, ProblemType.NOT_FOUND, f"no {what} is called {name!r}", **more)


def register(app: Flask) -> None:
    """Answer every error of ``app`` with a problem document."""
    app.register_error_handler(
        ApiError,
        lambda it: problem_response(it.status, it.problem, it.detail, it.headers, **it.more),
    )
    app.register_error_handler(
        Overloaded,
        lambda it: problem_response(
            429, ProblemType.OVERLOADED, str(it), {"Retry-After": str(it.retry_after_s)}
        ),
    )
    app.register_error_handler(ProjectError, _of_project)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, _of_bug)

    @app.get("/problems/<string:name>")
    def meaning(name: str) -> tuple[dict[str, str], int]:
        for problem in ProblemType:
            if problem == name:
                named = {"type": f"/problems/{problem}", "title": title(problem)}
                return {**named, "meaning": problem.meaning}, 200
        raise not_found("problem", name)


def title(problem: ProblemType) -> str:
    """Title of a kind of problem, for people."""
    return problem.value.replace("-", " ").capitalize()


def problem_response(
    status: int,
    problem: ProblemType,
    detail: str,
    headers: Mapping[str, str] | None = None,
    /,
    **more: Any,
) -> Response:
    """A response with a problem document.

    :param more: further members; ``parameters`` replaces the repeated parameters
    """
    if compatible := request.path.startswith(COMPATIBLE):
        status = _OLD_STATUS.get(status, status)
    document: dict[str, Any] = {
        "type": f"/problems/{problem}",
        "title": title(problem),
        "status": status,
        "detail": detail,
        "request_id": g.get("request_id", ""),
    }
    if compatible:
        # About an analysis, these clients expect its state in `status`. RFC 9457 has other
        # clients ignore a `status` that is not a number.
        parameters = {**request.args.to_dict(), **(request.view_args or {})}
        shown = {name: it for name, it in parameters.items() if name.lower() not in _SECRET}
        document |= {"error": detail, "parameters": shown}
    response = jsonify({**document, **more})
    response.status_code = status
    response.content_type = MEDIA_TYPE
    response.headers.update(headers or {})
    return response


def _of_project(error: ProjectError) -> Response:
    status, problem = next(it[1:] for it in _TRANSLATIONS if isinstance(error, it[0]))
    more: dict[str, Any] = {} if error.hint is None else {"hint": error.hint}
    if isinstance(error, InvalidDocument):
        more |= {"reason": str(error.reason), "field": error.field}
    if status >= 500:
        fields = {"request_id": g.get("request_id"), "error": str(error)}
        _LOG.warning("request_failed", extra=fields)
    if isinstance(error, (StoreUnavailable, SchemaMismatch, AccessDenied)):
        detail = f"{public_message(error)}: try again later"
        return problem_response(status, problem, detail, {"Retry-After": "5"})
    return problem_response(status, problem, str(error), **more)


def public_message(error: ProjectError) -> str:
    """The error message for clients, without store addresses and hints to operators."""
    if isinstance(error, StoreUnavailable):
        return f"{error.store} is unavailable"
    if isinstance(error, SchemaMismatch):
        return "the schema of a store is unavailable"
    if isinstance(error, AccessDenied):
        return "a store refuses the service"
    return str(error)


def problem_of(status: int) -> ProblemType:
    """The kind of problem for an HTTP status if no further details are known."""
    return _OF_STATUS.get(status, ProblemType.HTTP)


def of_http(error: HTTPException) -> Response:
    """Translate an error of Flask, werkzeug or a schema."""
    if error.response is not None:
        return error.response  # type: ignore[return-value]
    status = error.code
    if status is None or 300 <= status < 400:
        return error.get_response()  # type: ignore[return-value]
    data = getattr(error, "data", None) or {}
    more = {"errors": data["messages"]} if "messages" in data else {}
    headers = dict(data.get("headers") or {})
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(error.valid_methods)
    own = error.description if error.description != type(error).description else None
    detail = _summary(more.get("errors")) or data.get("message") or own
    detail = detail or _DETAILS.get(status) or HTTPStatus(status).phrase
    return problem_response(status, problem_of(status), detail, headers, **more)


def _summary(messages: Any, field: str = "") -> str:
    """All messages of a schema in one line, each with its field.

    >>> _summary({"query": {"dev": ["Not a valid boolean."]}})
    'query.dev: Not a valid boolean.'
    """
    if isinstance(messages, Mapping):
        parts = (
            _summary(inner, f"{field}.{name}" if field else str(name))
            for name, inner in messages.items()
        )
        return "; ".join(filter(None, parts))
    if isinstance(messages, list):
        return f"{field}: {' '.join(map(str, messages))}" if messages else ""
    return f"{field}: {messages}" if messages else ""


def _of_bug(error: Exception) -> Response:
    """Translate a bug: the log gets the traceback, and the client gets the request's identifier."""
    _LOG.exception("request_broke", exc_info=error, extra={"request_id": g.get("request_id")})
    detail = "the service has a bug; its log contains the identifier of this request"
    return problem_response(500, ProblemType.INTERNAL, detail)
