"""What an inspection left: its specification, its logs and the results of its jobs."""

from __future__ import annotations

from typing import Any

import orjson
from flask.views import MethodView

from api.amun import submitting
from api.authentication import needs
from api.errors import ApiError, not_found
from api.routes import Routes
from api.schemas.amun import (
    AmunLogDocumentSchema,
    BatchSizeDocumentSchema,
    JobResultDocumentSchema,
    SpecificationDocumentSchema,
)
from api.service import service
from graph.record.analyses import Analysis, request_of
from graph.record.tokens import Scope
from pis.amun.documents import finished_jobs, read_job

blueprint = Routes(
    "amun-results", __name__, url_prefix=f"{submitting.PREFIX}/inspect/<string:inspection_id>",
    description="What inspections left.",
)  # fmt: skip


@blueprint.route("/specification")
class SpecificationResource(MethodView):
    """What was asked for."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, SpecificationDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Give the specification of an inspection, as it is run once it was built."""
        found = submitting.found_inspection(inspection_id)
        written = submitting.text_of(found, "build", "specification")
        return {"specification": _asked(found, written), "parameters": submitting.about(found)}


@blueprint.route("/build/log")
class BuildLogResource(MethodView):
    """What was said while the stack was built."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Give the log of the build; null while it is not built."""
        found = submitting.found_inspection(inspection_id)
        log = submitting.text_of(found, "build", "log")
        return {"log": log, "parameters": submitting.about(found)}


@blueprint.route("/job/batch-size")
class BatchSizeResource(MethodView):
    """How many results there are."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, BatchSizeDocumentSchema)
    def get(self, inspection_id: str) -> dict[str, Any]:
        """Count the results of an inspection that are stored."""
        found = submitting.found_inspection(inspection_id)
        stored = len(finished_jobs(submitting.folder(found)))
        return {"batch_size": stored, "parameters": submitting.about(found)}


@blueprint.route("/job/<int:item>/result")
class JobResultResource(MethodView):
    """What one job measured."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, JobResultDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Give the result document of one job; they count from 0."""
        found = submitting.found_inspection(inspection_id)
        result = read_job(submitting.folder(found), item)
        if not result:
            raise _no_result(found, item)
        return {"result": result, "parameters": {**submitting.about(found), "item": item}}


@blueprint.route("/job/<int:item>/log")
class JobLogResource(MethodView):
    """What one job printed."""

    @needs(Scope.INSPECT)
    @blueprint.response(200, AmunLogDocumentSchema)
    def get(self, inspection_id: str, item: int) -> dict[str, Any]:
        """Give the log of one job; they count from 0."""
        found = submitting.found_inspection(inspection_id)
        log = submitting.text_of(found, "results", str(item), "log")
        if log is None:
            raise _no_result(found, item)
        return {"log": log, "parameters": {**submitting.about(found), "item": item}}


def _asked(found: Analysis, written: str | None) -> Any:
    if written is not None:
        return orjson.loads(written)
    it = service()
    with it.reading() as connection:
        return orjson.loads(request_of(connection, it.settings, found))["specification"]


def _no_result(found: Analysis, item: int) -> ApiError:
    return not_found("result", f"{found.analysis_id}/{item}")
