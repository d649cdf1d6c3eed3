"""Inspections below ``/amun/api/v1``: submission, state, logs and results."""

from __future__ import annotations

from typing import Any

import orjson
from flask import request
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from api.access.authentication import needs
from api.amun import submission
from api.http.errors import ApiError, ProblemType, not_found
from api.http.openapi import Routes
from api.http.request_bodies import json_of
from api.http.schema_fields import LAST_PAGE, LenientSchema, count, flag, json_object, text, texts
from api.service import service
from common import __version__
from graph.record.access import Scope
from graph.record.analyses import Analysis, AnalysisKind, analyses_of, request_of
from pis.amun.inspection_folder import finished_jobs, read_build, read_job
from pis.amun.launchers.images import InvalidRecipe, recipe_of, render


class AmunPageQuerySchema(LenientSchema):
    """Selects a page; pages count from 1."""

    page = fields.Integer(load_default=1, validate=validate.Range(1, LAST_PAGE))
    limit = fields.Integer(load_default=25, validate=validate.Range(1, 100))


class _Answer(Schema):
    """A response of the inspection service, which repeats the request's parameters."""

    parameters = json_object("Parameters of the request.")


class VersionSchema(Schema):
    """Version of the service."""

    version = text("Version of the interface.", "1.0.0")
    service_version = text("Version of the service.", "1.0.0")


class SubmittedSchema(_Answer):
    """A submitted inspection."""

    inspection_id = text("Identifier of the inspection.", "inspection-matmul-1f2e3d4c")


class InspectionsSchema(_Answer):
    """Identifiers of inspections."""

    inspections = texts("Identifiers, ordered by submission.", ["inspection-matmul-1f2e3d4c"])


class AmunStatusSchema(Schema):
    """State of an inspection."""

    build = json_object("State of the build; null before it starts.", null=True)
    workflow = json_object("State of the run.", null=True)
    data_stored = flag("Whether the results were ingested.")


class AmunStatusDocumentSchema(_Answer):
    """State of an inspection, with its parameters."""

    status = fields.Nested(AmunStatusSchema, required=True)


class SpecificationDocumentSchema(_Answer):
    """Specification of an inspection."""

    specification = json_object("docs/reference/specification.md describes every field.")


class AmunLogDocumentSchema(_Answer):
    """Log of a build or a job."""

    log = text("Text of the log.", null=True)


class BatchSizeDocumentSchema(_Answer):
    """Number of stored results."""

    batch_size = count("Number of stored results.", 3)


class JobResultDocumentSchema(_Answer):
    """Result of one job."""

    result = json_object("docs/reference/specification.md describes the fields.")


class DockerfileSchema(_Answer):
    """A Dockerfile."""

    dockerfile = text("Content of the Dockerfile.", "FROM registry.example/python:3.12")


blueprint = Routes(
    "amun-inspections", __name__, url_prefix=submission.PREFIX,
    description="Inspections on this machine.",
)  # fmt: skip
blueprint.after_app_request(submission.add_version)

_SPECIFICATION = {
    "required": True,
    "description": "docs/reference/specification.md describes every field.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@blueprint.route("/version")
class VersionResource(MethodView):
    @blueprint.response(200, VersionSchema)
    def get(self) -> dict[str, str]:
        """Get the version of the service."""
        return {"version": __version__, "service_version": __version__}


@blueprint.route("/inspect")
class AmunInspectionsResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(202, SubmittedSchema)
    def post(self) -> dict[str, Any]:
        """Submit an inspection of a named indicator, or of a script that runs in a sandbox."""
        analysis, inspection = submission.submit_inspection(_specification())
        return {
            "inspection_id": analysis.analysis_id,
            "parameters": {
                "batch_size": inspection.specification.batch_size,
                "timeout_s": inspection.specification.timeout_s,
                **inspection.specification.document,
            },
        }

    @needs(Scope.INSPECT)
    @blueprint.arguments(AmunPageQuerySchema, location="query")
    @blueprint.response(200, InspectionsSchema)
    def get(self, query: dict[str, int]) -> dict[str, Any]:
        """List inspections, ordered by submission."""
        limit = query["limit"]
        with service().reading() as connection:
            page = analyses_of(
                connection, AnalysisKind.INSPECTION, limit, (query["page"] - 1) * limit
            )
        return {"inspections": [it.analysis_id for it in page], "parameters": query}


@blueprint.route("/inspect/<string:inspection_id>/status")
class InspectionStatusResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.response(200, AmunStatusDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Get the state of an inspection."""
        analysis = submission.existing_inspection(inspection_id)
        return {"status": _status(analysis), "parameters": submission.identity(analysis)}


@blueprint.route("/_debug/generate-dockerfile")
class DockerfilesResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(200, DockerfileSchema)
    def post(self) -> dict[str, Any]:
        """Get the Dockerfile of a specification's image; nothing is built."""
        value = _specification()
        inspection = submission.parse_submission(value, "")
        parameters = {"specification": value}
        try:
            dockerfile = render(recipe_of(inspection))
        except InvalidRecipe as error:
            raise ApiError(
                400, ProblemType.INVALID_REQUEST, str(error), parameters=parameters
            ) from error
        return {"dockerfile": dockerfile, "parameters": parameters}


def _specification() -> dict[str, Any]:
    """:raises ApiError: 400 if the body is not a JSON object, or contains secrets"""
    try:
        value = json_of(request.get_data())
    except ApiError as error:
        error.more["parameters"] = {}
        raise
    if not isinstance(value, dict):
        raise ApiError(400, ProblemType.INVALID_REQUEST, "the body is not an object", parameters={})
    return submission.public(value)


def _status(analysis: Analysis) -> dict[str, Any]:
    folder = submission.folder(analysis)
    build = read_build(folder)
    names = ("state", "reason", "started_at", "finished_at", "exit_code", "message")
    state = {"container": None, **{name: build.get(name) for name in names}}
    return {
        "build": state if build else None,
        "workflow": {
            "state": analysis.state.value,
            "reason": analysis.reason,
            "accepted_at": analysis.accepted_at.isoformat(),
            "started_at": analysis.started_at and analysis.started_at.isoformat(),
            "finished_at": analysis.finished_at and analysis.finished_at.isoformat(),
            "attempts": analysis.attempts,
            "jobs_finished": len(finished_jobs(folder)),
        },
        "data_stored": analysis.result_document_id is not None,
    }


result_routes = Routes(
    "amun-results", __name__, url_prefix=f"{submission.PREFIX}/inspect/<string:inspection_id>",
    description="Results of inspections.",
)  # fmt: skip


@result_routes.route("/specification")
class SpecificationResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, SpecificationDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Get the specification of an inspection; once built, the specification as it runs."""
        analysis = submission.existing_inspection(inspection_id)
        written = submission.text_of(analysis, "build", "specification")
        return {
            "specification": _submitted_specification(analysis, written),
            "parameters": submission.identity(analysis),
        }


@result_routes.route("/build/log")
class BuildLogResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Get the log of the build; null before the build ends."""
        analysis = submission.existing_inspection(inspection_id)
        log = submission.text_of(analysis, "build", "log")
        return {"log": log, "parameters": submission.identity(analysis)}


@result_routes.route("/job/batch-size")
class BatchSizeResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, BatchSizeDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Get the number of stored results of an inspection."""
        analysis = submission.existing_inspection(inspection_id)
        stored = len(finished_jobs(submission.folder(analysis)))
        return {"batch_size": stored, "parameters": submission.identity(analysis)}


@result_routes.route("/job/<int:item>/result")
class JobResultResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, JobResultDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Get the result of one job; jobs count from 0."""
        analysis = submission.existing_inspection(inspection_id)
        result = read_job(submission.folder(analysis), item)
        if not result:
            raise _no_result(analysis, item)
        return {"result": result, "parameters": {**submission.identity(analysis), "item": item}}


@result_routes.route("/job/<int:item>/log")
class JobLogResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Get the log of one job; jobs count from 0."""
        analysis = submission.existing_inspection(inspection_id)
        log = submission.text_of(analysis, "results", str(item), "log")
        if log is None:
            raise _no_result(analysis, item)
        return {"log": log, "parameters": {**submission.identity(analysis), "item": item}}


def _submitted_specification(analysis: Analysis, written: str | None) -> Any:
    if written is not None:
        return orjson.loads(written)
    stores = service()
    with stores.reading() as connection:
        return orjson.loads(request_of(connection, stores.settings, analysis))["specification"]


def _no_result(analysis: Analysis, item: int) -> ApiError:
    return not_found("result", f"{analysis.analysis_id}/{item}")
