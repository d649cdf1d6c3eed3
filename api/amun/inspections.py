"""InspectionsResource: submitted, listed, how far they are."""

from __future__ import annotations

from typing import Any

from flask import request
from flask.views import MethodView

from api.amun import submitting
from api.authentication import needs
from api.errors import ApiError, Problem
from api.request_bodies import json_of
from api.routes import Routes
from api.schemas.amun import (
    AmunPageQuerySchema,
    AmunStatusDocumentSchema,
    DockerfileSchema,
    InspectionsSchema,
    SubmittedSchema,
    VersionSchema,
)
from api.service import service
from common import __version__
from graph.record.analyses import (
    Analysis,
    Kind,
    analyses_of,
)
from graph.record.tokens import Scope
from pis.amun.documents import finished_jobs, read_build
from pis.amun.launchers.containerfile import InvalidRecipe, render
from pis.amun.launchers.images import recipe_of

blueprint = Routes(
    "amun-inspections", __name__, url_prefix=submitting.PREFIX,
    description="Stacks measured on this machine.",
)  # fmt: skip
blueprint.after_app_request(submitting.versioned)

_SPECIFICATION = {
    "required": True,
    "description": "docs/reference/specification.md describes every field.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@blueprint.route("/version")
class VersionResource(MethodView):
    """Which service this is."""

    @blueprint.response(200, VersionSchema)
    def get(self) -> dict[str, str]:
        """Give the version of the service."""
        return {"version": __version__, "service_version": __version__}


@blueprint.route("/inspect")
class InspectionsResource(MethodView):
    """All inspections."""

    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(202, SubmittedSchema)
    def post(self) -> dict[str, Any]:
        """Have a stack built and measured; a script runs confined, an indicator by its name."""
        found, inspection = submitting.submitted(_specification())
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
            found = analyses_of(connection, Kind.INSPECTION, limit, (query["page"] - 1) * limit)
        return {"inspections": [it.analysis_id for it in found], "parameters": query}


@blueprint.route("/inspect/<string:inspection_id>/status")
class InspectionStatusResource(MethodView):
    """How far an inspection is."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, AmunStatusDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Say how far an inspection is."""
        found = submitting.found_inspection(inspection_id)
        return {"status": _status(found), "parameters": submitting.about(found)}


@blueprint.route("/_debug/generate-dockerfile")
class DockerfilesResource(MethodView):
    """The recipe of an image."""

    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(200, DockerfileSchema)
    def post(self) -> dict[str, Any]:
        """Give the recipe of the image that a specification makes; nothing is built."""
        value = _specification()
        inspection = submitting.checked(value, "")
        parameters = {"specification": value}
        try:
            dockerfile = render(recipe_of(inspection))
        except InvalidRecipe as error:
            raise ApiError(
                400, Problem.INVALID_REQUEST, str(error), parameters=parameters
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
        raise ApiError(400, Problem.INVALID_REQUEST, "the body is not an object", parameters={})
    return submitting.public(value)


def _status(found: Analysis) -> dict[str, Any]:
    folder = submitting.folder(found)
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
