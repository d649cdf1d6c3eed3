"""Requests that a worker answers: their state, result and log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response, url_for
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from adviser.answering.index_resolution import ResolutionProgress
from api.access.authentication import require, security
from api.http.errors import not_found
from api.http.schema_fields import StrictSchema, described, filter_flag, flag, schema_of, text
from api.jobs import request_submission
from api.jobs.queue import REQUEST_WORK
from api.resources.base import Resources, members
from api.service import service
from graph.record.analyses import Analysis, AnalysisKind, analysis_of, log_of


class ForceQuerySchema(StrictSchema):
    """Controls the cache."""

    force = filter_flag("Do not answer from the cache.")


class WaitQuerySchema(StrictSchema):
    """Whether to wait for a result."""

    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(0, request_submission.LONGEST_WAIT_S),
        metadata=described(
            "Wait for the result for up to so many seconds. If many clients wait already, the"
            " answer is sent at once.",
            10.0,
        ),
    )


IndexProgressSchema = schema_of("IndexProgress", ResolutionProgress)
RequestSchema = schema_of(
    "Request",
    Analysis,
    progress=fields.Nested(
        IndexProgressSchema,
        required=True,
        allow_none=True,
        metadata={"description": "What was read from the indexes; null if nothing had to be read."},
    ),
    cached=flag("Whether it was served from the cache."),
    result=text("Address of the result; null if there is none yet.", null=True),
    log=text("Address of the log."),
)


class LogSchema(Schema):
    """Log of a request."""

    analysis_id = text("Identifier of the request.", "adviser-240611083015-5f0c9d2be417a863")
    lines = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "Lines in order, with `asctime`, `levelname` and `message`."},
    )


blueprint = Resources("requests", __name__, description="Requests that a worker answers.")

#: Reading a request needs the scope that sending one needs, which depends on its kind.
_SECURITY = security(*dict.fromkeys(it.scope for it in REQUEST_WORK.values()))


@blueprint.route("/requests/<string:analysis_id>")
class RequestResource(MethodView):
    @blueprint.doc(security=_SECURITY)
    @blueprint.response(200, RequestSchema)
    def get(self, analysis_id: str) -> dict[str, Any]:
        """Get the state of a request."""
        return request_document(_analysis(analysis_id))


@blueprint.route("/requests/<string:analysis_id>/result")
class RequestResultResource(MethodView):
    @blueprint.doc(security=_SECURITY)
    @blueprint.arguments(WaitQuerySchema, location="query")
    @blueprint.response(200, {"type": "object"})
    @blueprint.alt_response(202, description="Not finished: try again.")
    def get(self, query: dict[str, Any], analysis_id: str) -> Response:
        """Get the result of a request; 202 if it is not finished."""
        body = request_submission.result(_analysis(analysis_id), query["wait"])
        return Response(body, mimetype="application/json")


@blueprint.route("/requests/<string:analysis_id>/log")
class RequestLogResource(MethodView):
    @blueprint.doc(security=_SECURITY)
    @blueprint.response(200, LogSchema)
    def get(self, analysis_id: str) -> dict[str, Any]:
        """Get the log of a request; it is empty until a worker starts."""
        analysis = _analysis(analysis_id)
        with service().reading() as connection:
            log = log_of(connection, analysis.analysis_id)
        return {
            "analysis_id": analysis.analysis_id,
            "lines": [orjson.loads(line) for line in log.splitlines()],
        }


def submit_request(
    kind: AnalysisKind, request: Mapping[str, Any], cache_key: str | None = None, **options: Any
) -> Any:
    """Submit a request; answer 202 with its state and the URL of that."""
    analysis, cached = request_submission.submit(kind, request, cache_key, **options)
    location = url_for("v2-requests.RequestResource", analysis_id=analysis.analysis_id)
    return request_document(analysis, cached=cached), 202, {"Location": location}


def request_document(analysis: Analysis, *, cached: bool = False) -> dict[str, Any]:
    """Return a request in the format of :class:`RequestSchema`."""
    name = analysis.analysis_id
    has_result = analysis.result_document_id is not None
    result = url_for("v2-requests.RequestResultResource", analysis_id=name) if has_result else None
    return {
        **members(analysis),
        "kind": analysis.kind.value,
        "state": analysis.state.value,
        "cached": cached,
        "result": result,
        "log": url_for("v2-requests.RequestLogResource", analysis_id=name),
    }


def _analysis(analysis_id: str) -> Analysis:
    """:raises ApiError: 404 if there is none, 401 or 403 without the scope for its kind"""
    with service().reading() as connection:
        analysis = analysis_of(connection, analysis_id)
    if analysis is None:
        raise not_found("request", analysis_id)
    require(REQUEST_WORK[analysis.kind].scope)
    return analysis
