"""Inspections: submitted, listed, how far they are."""

from __future__ import annotations

from typing import Any

import orjson
from flask import request
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from api.amun import submission
from api.authentication import needs
from api.errors import ApiError, ProblemType, not_found
from api.request_bodies import json_of
from api.routes import Routes
from api.schema_fields import (
    LAST_PAGE,
    LenientSchema,
    count,
    flag,
    json_object,
    text,
    texts,
)
from api.service import service
from common import __version__
from graph.record.analyses import (
    Analysis,
    AnalysisKind,
    analyses_of,
    request_of,
)
from graph.record.tokens import Scope
from pis.amun.inspection_folder import (
    finished_jobs,
    read_build,
    read_job,
)
from pis.amun.launchers.containerfile import InvalidRecipe, render
from pis.amun.launchers.images import recipe_of


class AmunPageQuerySchema(LenientSchema):
    """Which page is asked for; pages count from 1."""

    page = fields.Integer(load_default=1, validate=validate.Range(1, LAST_PAGE))
    limit = fields.Integer(load_default=25, validate=validate.Range(1, 100))


class _Answer(Schema):
    """Every answer repeats what was asked."""

    parameters = json_object("What was asked.")


class VersionSchema(Schema):
    """Which service this is."""

    version = text("Of the interface.", "1.0.0")
    service_version = text("Of the service.", "1.0.0")


class SubmittedSchema(_Answer):
    """Under which identifier an inspection is found."""

    inspection_id = text("The inspection.", "inspection-matmul-1f2e3d4c")


class InspectionsSchema(_Answer):
    """Identifiers of inspections."""

    inspections = texts("In the order of their submission.", ["inspection-matmul-1f2e3d4c"])


class AmunStatusSchema(Schema):
    """How far an inspection is."""

    build = json_object("How the build went; null while there is none.", null=True)
    workflow = json_object("How far its run is.", null=True)
    data_stored = flag("Whether its results were taken in.")


class AmunStatusDocumentSchema(_Answer):
    """The state of an inspection."""

    status = fields.Nested(AmunStatusSchema, required=True)


class SpecificationDocumentSchema(_Answer):
    """What was asked for."""

    specification = json_object("docs/reference/specification.md describes every field.")


class AmunLogDocumentSchema(_Answer):
    """What was said."""

    log = text("Lines for people.", null=True)


class BatchSizeDocumentSchema(_Answer):
    """How many results there are."""

    batch_size = count("Results that are stored.", 3)


class JobResultDocumentSchema(_Answer):
    """What one job measured."""

    result = json_object("docs/reference/inspection-result.md describes every field.")


class DockerfileSchema(_Answer):
    """The recipe of an image."""

    dockerfile = text("The recipe.", "FROM registry.example/python:3.12")


blueprint = Routes(
    "amun-inspections", __name__, url_prefix=submission.PREFIX,
    description="Stacks measured on this machine.",
)  # fmt: skip
blueprint.after_app_request(submission.versioned)

_SPECIFICATION = {
    "required": True,
    "description": "docs/reference/specification.md describes every field.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@blueprint.route("/version")
class VersionResource(MethodView):
    @blueprint.response(200, VersionSchema)
    def get(self) -> dict[str, str]:
        """Give the version of the service."""
        return {"version": __version__, "service_version": __version__}


@blueprint.route("/inspect")
class AmunInspectionsResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(202, SubmittedSchema)
    def post(self) -> dict[str, Any]:
        """Have a stack built and measured; a script runs confined, an indicator by its name."""
        found, inspection = submission.submitted(_specification())
        return {
            "inspection_id": found.analysis_id,
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
        """List inspections in the order in which they were submitted."""
        limit = query["limit"]
        with service().reading() as connection:
            found = analyses_of(
                connection, AnalysisKind.INSPECTION, limit, (query["page"] - 1) * limit
            )
        return {"inspections": [it.analysis_id for it in found], "parameters": query}


@blueprint.route("/inspect/<string:inspection_id>/status")
class InspectionStatusResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.response(200, AmunStatusDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Say how far an inspection is."""
        found = submission.found_inspection(inspection_id)
        return {"status": _status(found), "parameters": submission.about(found)}


@blueprint.route("/_debug/generate-dockerfile")
class DockerfilesResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(200, DockerfileSchema)
    def post(self) -> dict[str, Any]:
        """Give the recipe of the image that a specification makes; nothing is built."""
        value = _specification()
        inspection = submission.checked(value, "")
        parameters = {"specification": value}
        try:
            dockerfile = render(recipe_of(inspection))
        except InvalidRecipe as error:
            raise ApiError(
                400, ProblemType.INVALID_REQUEST, str(error), parameters=parameters
            ) from error
        return {"dockerfile": dockerfile, "parameters": parameters}


def _specification() -> dict[str, Any]:
    """:raises ApiError: 400 if the body is no JSON object, or holds secrets"""
    try:
        value = json_of(request.get_data())
    except ApiError as error:
        error.more["parameters"] = {}
        raise
    if not isinstance(value, dict):
        raise ApiError(400, ProblemType.INVALID_REQUEST, "the body is not an object", parameters={})
    return submission.public(value)


def _status(found: Analysis) -> dict[str, Any]:
    folder = submission.folder(found)
    build = read_build(folder)
    seen = {name: build.get(name) for name in ("state", "reason", "started_at", "finished_at")}
    more = {"container": None, "exit_code": build.get("exit_code"), "message": build.get("message")}
    done = len(finished_jobs(folder))
    return {
        "build": {**seen, **more} if build else None,
        "workflow": {
            "state": found.state.value,
            "reason": found.reason,
            "accepted_at": found.accepted_at.isoformat(),
            "started_at": found.started_at and found.started_at.isoformat(),
            "finished_at": found.finished_at and found.finished_at.isoformat(),
            "attempts": found.attempts,
            "jobs_finished": done,
        },
        "data_stored": found.result_document_id is not None,
    }


result_routes = Routes(
    "amun-results", __name__, url_prefix=f"{submission.PREFIX}/inspect/<string:inspection_id>",
    description="What inspections left.",
)  # fmt: skip


@result_routes.route("/specification")
class SpecificationResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, SpecificationDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Give the specification of an inspection, as it is run once it was built."""
        found = submission.found_inspection(inspection_id)
        written = submission.text_of(found, "build", "specification")
        return {"specification": _asked(found, written), "parameters": submission.about(found)}


@result_routes.route("/build/log")
class BuildLogResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Give the log of the build; null while it is not built."""
        found = submission.found_inspection(inspection_id)
        log = submission.text_of(found, "build", "log")
        return {"log": log, "parameters": submission.about(found)}


@result_routes.route("/job/batch-size")
class BatchSizeResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, BatchSizeDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Count the results of an inspection that are stored."""
        found = submission.found_inspection(inspection_id)
        stored = len(finished_jobs(submission.folder(found)))
        return {"batch_size": stored, "parameters": submission.about(found)}


@result_routes.route("/job/<int:item>/result")
class JobResultResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, JobResultDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Give the result document of one job; they count from 0."""
        found = submission.found_inspection(inspection_id)
        result = read_job(submission.folder(found), item)
        if not result:
            raise _no_result(found, item)
        return {"result": result, "parameters": {**submission.about(found), "item": item}}


@result_routes.route("/job/<int:item>/log")
class JobLogResource(MethodView):
    @needs(Scope.INSPECT)
    @result_routes.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Give the log of one job; they count from 0."""
        found = submission.found_inspection(inspection_id)
        log = submission.text_of(found, "results", str(item), "log")
        if log is None:
            raise _no_result(found, item)
        return {"log": log, "parameters": {**submission.about(found), "item": item}}


def _asked(found: Analysis, written: str | None) -> Any:
    if written is not None:
        return orjson.loads(written)
    it = service()
    with it.reading() as connection:
        return orjson.loads(request_of(connection, it.settings, found))["specification"]


def _no_result(found: Analysis, item: int) -> ApiError:
    return not_found("result", f"{found.analysis_id}/{item}")
