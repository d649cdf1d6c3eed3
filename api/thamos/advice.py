"""Advice for the ``thamos`` client."""

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
from api.resources.requests import may_fetch, new_request
from api.routes import Routes
from api.schemas.thamos import AcceptedSchema, AdviceQuerySchema, AdviceRequestSchema
from api.service import service
from api.thamos.answers import serve_answers
from api.thamos.stacks import asked_by, asked_of, cache_key
from graph.record.analyses import Kind
from graph.record.tokens import Scope

advice_routes = Routes(
    "advise", __name__, url_prefix="/api/v1/advise/python", description="Advice on stacks."
)

#: What of a request is given back to whoever asks for its state; no origin, and no texts.
_PARAMETERS = ("recommendation_type", "dev", "debug", "force")
#: What of the query changes the answer.
_ASKED = ("recommendation_type", "dev", "debug")


@advice_routes.route("")
class ThamosAdviceResource(MethodView):
    """Requests for advice."""

    @needs(Scope.ADVISE)
    @advice_routes.arguments(AdviceQuerySchema, location="query")
    @advice_routes.arguments(AdviceRequestSchema)
    @advice_routes.response(202, AcceptedSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask for the best stack for a Pipfile in a runtime environment."""
        if body.pop("kebechet_metadata", None) is not None:
            require_token()
        if body.pop("callback_info", None) is not None:
            raise ApiError(
                400,
                ProblemType.INVALID_REQUEST,
                "callback_info: this service sends nothing to others",
            )
        request = {**public_request(body), **{name: query[name] for name in _ASKED}, **may_fetch()}
        asked_of(service().settings, request)  # what cannot be asked needs no worker to say so
        shown = token()
        new = new_request(
            Kind.ADVICE,
            request | asked_by(query, shown),
            {name: query[name] for name in _PARAMETERS},
            cache_key(request),
        )
        job = QueueJob("advice.make", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        found, cached = analyses.submit(new, job, force=query["force"])
        return analyses.accepted_document(found, cached=cached, authenticated=shown is not None)


serve_answers(advice_routes, Kind.ADVICE)
