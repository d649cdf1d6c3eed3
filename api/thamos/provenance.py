"""Checks of provenance for the ``thamos`` client."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api import analyses
from api.authentication import (
    needs,
    require_token,
    token,
)
from api.errors import ApiError, ProblemType
from api.jobs.queue import QueueJob, QueueName
from api.privacy import public_request
from api.resources.requests import new_request
from api.routes import Routes
from api.schemas.thamos import AcceptedSchema, ProvenanceQuerySchema, ProvenanceRequestSchema
from api.service import service
from api.thamos.answers import serve_answers
from api.thamos.stacks import asked_by, cache_key, project_of
from common.index.configuration import configured_indexes
from graph.record.analyses import Kind
from graph.record.tokens import Scope

provenance_routes = Routes(
    "provenance",
    __name__,
    url_prefix="/api/v1/provenance/python",
    description="Where the files of a lock come from.",
)


@provenance_routes.route("")
class ProvenanceRequestsResource(MethodView):
    """Requests for checks."""

    @needs(Scope.ADVISE)
    @provenance_routes.arguments(ProvenanceQuerySchema, location="query")
    @provenance_routes.arguments(ProvenanceRequestSchema)
    @provenance_routes.response(202, AcceptedSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask where every file of a Pipfile.lock comes from."""
        if body.pop("kebechet_metadata", None) is not None:
            require_token()
        request = {**public_request(body), "debug": query["debug"]}
        if project_of(service().settings, request).locked is None:
            message = "application_stack.requirements_lock: no lock whose packages are all pinned"
            raise ApiError(400, ProblemType.INVALID_REQUEST, message)
        allowed = {name: it.url for name, it in configured_indexes(service().settings).items()}
        shown = token()
        new = new_request(
            Kind.PROVENANCE,
            request | asked_by(query, shown),
            {"debug": query["debug"], "force": query["force"]},
            cache_key({**request, "allowed": allowed}),
        )
        job = QueueJob("provenance.check", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        found, cached = analyses.submit(new, job, force=query["force"])
        return analyses.accepted_document(found, cached=cached, authenticated=shown is not None)


serve_answers(provenance_routes, Kind.PROVENANCE)
