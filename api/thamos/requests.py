"""Requests of the ``thamos`` client for advice and provenance checks, and their results."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import INCLUDE, Schema, fields, pre_load, validate

from adviser.scoring.criteria import RecommendationType
from api.access.authentication import needs, require_token, token
from api.http.errors import ApiError, ProblemType
from api.http.openapi import Routes
from api.http.project_files import MAX_MANIFEST, check_constraints, check_lock
from api.http.schema_fields import LenientSchema, ResultDocumentSchema
from api.jobs import request_submission
from api.service import service
from api.thamos.request_adapter import advice_request, provenance_request
from common.index.configuration import configured_indexes
from graph.record.access import Scope
from graph.record.analyses import AnalysisKind

#: Maximum length of one file in a request.
_MAX_TEXT = 3 * 1024**2
#: Maximum length of a query parameter, and of the URL of a project.
_MAX_NAME, _MAX_ORIGIN = 100, 2000


class CapitalBoolean(fields.Boolean):
    """A boolean in a query, also as Python writes it: ``True``, ``False``."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._deserialize(
            value.lower() if isinstance(value, str) else value, *args, **kwargs
        )


class _Submitted(LenientSchema):
    """Query parameters of every request."""

    debug = CapitalBoolean(load_default=False)
    force = CapitalBoolean(
        load_default=False, metadata={"description": "Do not answer from the cache."}
    )
    origin = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=_MAX_ORIGIN),
        metadata={"description": "URL of the project; stored only with a token."},
    )

    @pre_load
    def absent(self, data: Any, **_: Any) -> dict[str, Any]:
        """Treat ``origin=None`` and an empty value as absent."""
        return {k: v for k, v in data.items() if not (k == "origin" and v in ("", "None"))}


class AdviceQuerySchema(_Submitted):
    """Query parameters of a request for advice."""

    recommendation_type = fields.String(
        required=True, validate=validate.OneOf([it.value for it in RecommendationType])
    )
    dev = CapitalBoolean(load_default=False)
    source_type = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=_MAX_NAME),
        metadata={
            "description": "Kind of client; stored only with a token.",
            "example": "cli",
        },
    )


class ProvenanceQuerySchema(_Submitted):
    """Query parameters of a provenance check."""


class ApplicationStackSchema(LenientSchema):
    """A Pipfile as TOML, and a Pipfile.lock as JSON or null."""

    requirements = fields.String(required=True, validate=validate.Length(1, MAX_MANIFEST))
    requirements_lock = fields.String(
        required=True,
        allow_none=True,
        validate=[validate.Length(max=_MAX_TEXT), check_lock],
    )
    requirements_format = fields.String(load_default="pipenv", validate=validate.OneOf(["pipenv"]))


class RuntimeEnvironmentSchema(Schema):
    """A runtime environment of ``.thoth.yaml``; unknown members are kept."""

    class Meta:
        unknown = INCLUDE

    name = fields.String(allow_none=True)
    python_version = fields.String(allow_none=True)
    operating_system = fields.Dict(keys=fields.String(), allow_none=True)
    hardware = fields.Dict(keys=fields.String(), allow_none=True)


class LibraryUsageSchema(LenientSchema):
    """Names that a project uses from each module."""

    version = fields.String(allow_none=True)
    report = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        allow_none=True,
        load_default=None,
    )


class AdviceRequestSchema(LenientSchema):
    """Body of a request for advice."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    runtime_environment = fields.Nested(
        RuntimeEnvironmentSchema, allow_none=True, load_default=None
    )
    library_usage = fields.Nested(LibraryUsageSchema, allow_none=True, load_default=None)
    constraints = fields.String(
        allow_none=True,
        load_default=None,
        validate=[validate.Length(max=MAX_MANIFEST), check_constraints],
    )
    labels = fields.Dict(
        keys=fields.String(), values=fields.String(), allow_none=True, load_default=None
    )
    justification = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    stack_info = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)
    callback_info = fields.Dict(keys=fields.String(), allow_none=True)


class ProvenanceRequestSchema(LenientSchema):
    """Body of a provenance check."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)


class AcceptedSchema(Schema):
    """An accepted request with its identifier."""

    analysis_id = fields.String(required=True)
    cached = fields.Boolean(required=True)
    authenticated = fields.Boolean(required=True)
    parameters = fields.Dict(keys=fields.String(), required=True)


class StatusSchema(Schema):
    """State of an analysis."""

    state = fields.String(
        required=True,
        validate=validate.OneOf(["pending", "running", "succeeded", "failed", "error"]),
    )
    reason = fields.String(allow_none=True)
    started_at = fields.String(allow_none=True)
    finished_at = fields.String(allow_none=True)


class StatusDocumentSchema(Schema):
    """State of an analysis, with the parameters of the query."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    status = fields.Nested(StatusSchema, required=True)


class LogDocumentSchema(Schema):
    """Log of an analysis."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    log = fields.String(required=True, allow_none=True)


advice_routes = Routes(
    "advise", __name__, url_prefix="/api/v1/advise/python", description="Advice on stacks."
)
provenance_routes = Routes(
    "provenance",
    __name__,
    url_prefix="/api/v1/provenance/python",
    description="Checks where the files of a lock come from.",
)

#: Query parameters that responses repeat; the origin is not among them.
_PARAMETERS = ("recommendation_type", "dev", "debug", "force")


@advice_routes.route("")
class ThamosAdviceResource(MethodView):
    @needs(Scope.ADVISE)
    @advice_routes.arguments(AdviceQuerySchema, location="query")
    @advice_routes.arguments(AdviceRequestSchema)
    @advice_routes.response(202, AcceptedSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """Request the best stack for a Pipfile in a runtime environment."""
        _require_token_for_protected(body)
        if body.get("callback_info") is not None:
            message = "callback_info: this service sends no callbacks"
            raise ApiError(400, ProblemType.INVALID_REQUEST, message)
        request = advice_request(
            service().settings, query, body, token(), may_fetch=request_submission.may_fetch()
        )
        return _submit(AnalysisKind.ADVICE, request.to_document(), request.cache_key, query)


@provenance_routes.route("")
class ProvenanceRequestsResource(MethodView):
    @needs(Scope.ADVISE)
    @provenance_routes.arguments(ProvenanceQuerySchema, location="query")
    @provenance_routes.arguments(ProvenanceRequestSchema)
    @provenance_routes.response(202, AcceptedSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """Request a check of where every file of a Pipfile.lock comes from."""
        _require_token_for_protected(body)
        settings = service().settings
        request = provenance_request(settings, query, body, token())
        allowed = {name: index.url for name, index in configured_indexes(settings).items()}
        cache_key = request.cache_key(allowed)
        return _submit(AnalysisKind.PROVENANCE, request.to_document(), cache_key, query)


def _submit(
    kind: AnalysisKind, request: dict[str, Any], cache_key: str, query: dict[str, Any]
) -> dict[str, Any]:
    parameters = {name: query[name] for name in _PARAMETERS if name in query}
    analysis, cached = request_submission.submit(
        kind, request, cache_key, parameters=parameters, force=query["force"]
    )
    return {
        "analysis_id": analysis.analysis_id,
        "cached": cached,
        "authenticated": token() is not None,
        "parameters": dict(analysis.parameters),
    }


def _require_token_for_protected(body: dict[str, Any]) -> None:
    if body.get("kebechet_metadata") is not None:
        require_token()


def _serve_results(blueprint: Routes, kind: AnalysisKind) -> None:
    """Add the routes for result, state and log of the analyses of a kind."""

    @blueprint.route("/<string:analysis_id>")
    class ResultResource(MethodView):
        @needs(Scope.ADVISE)
        @blueprint.response(200, ResultDocumentSchema)
        @blueprint.alt_response(202, description="Not finished: try again.")
        def get(self, analysis_id: str) -> Response:
            """Get the report of a request; 202 if it is not finished."""
            analysis = request_submission.existing(analysis_id, kind)
            return Response(request_submission.result(analysis), mimetype="application/json")

    @blueprint.route("/<string:analysis_id>/status")
    class StateResource(MethodView):
        @needs(Scope.ADVISE)
        @blueprint.response(200, StatusDocumentSchema)
        def get(self, analysis_id: str) -> dict[str, Any]:
            """Get the state of a request."""
            return request_submission.status_of(request_submission.existing(analysis_id, kind))

    @blueprint.route("/<string:analysis_id>/log")
    class LogResource(MethodView):
        @needs(Scope.ADVISE)
        @blueprint.response(200, LogDocumentSchema)
        def get(self, analysis_id: str) -> dict[str, Any]:
            """Get the log of a request."""
            return request_submission.log_document(request_submission.existing(analysis_id, kind))


_serve_results(advice_routes, AnalysisKind.ADVICE)
_serve_results(provenance_routes, AnalysisKind.PROVENANCE)
