"""What a request of the ``thamos`` client is asked for once it is accepted."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView

from api import analyses
from api.authentication import needs
from api.routes import Routes
from api.schema_fields import ResultDocumentSchema
from api.schemas.thamos import LogDocumentSchema, StatusDocumentSchema
from graph.record.analyses import Kind
from graph.record.tokens import Scope


def serve_answers(blueprint: Routes, kind: Kind) -> None:
    """Add result, state and log of the requests of ``kind``, by their identifiers."""

    @blueprint.route("/<string:analysis_id>")
    class ResultResource(MethodView):
        """The result of a request."""

        @needs(Scope.ADVISE)
        @blueprint.response(200, ResultDocumentSchema)
        @blueprint.alt_response(202, description="Not finished: ask again.")
        def get(self, analysis_id: str) -> Response:
            """Give the report of a request, or say that it is not ready."""
            found = analyses.found(analysis_id, kind)
            return Response(analyses.result(found), mimetype="application/json")

    @blueprint.route("/<string:analysis_id>/status")
    class StatusOfResultResource(MethodView):
        """How far a request is."""

        @needs(Scope.ADVISE)
        @blueprint.response(200, StatusDocumentSchema)
        def get(self, analysis_id: str) -> dict[str, Any]:
            """Say how far a request is."""
            return analyses.status_of(analyses.found(analysis_id, kind))

    @blueprint.route("/<string:analysis_id>/log")
    class LogResource(MethodView):
        """What people are shown of a run."""

        @needs(Scope.ADVISE)
        @blueprint.response(200, LogDocumentSchema)
        def get(self, analysis_id: str) -> dict[str, Any]:
            """Give the log of a request."""
            return analyses.log_document(analyses.found(analysis_id, kind))
