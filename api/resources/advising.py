"""Advice asked for: for files of a project, again as recorded, and why not something else."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api import analyses, asking
from api.authentication import needs
from api.errors import not_found
from api.jobs.queue import Job, QueueName
from api.privacy import public_request
from api.resources.base import Resources
from api.resources.requests import accepted, may_fetch, new_request
from api.schemas.work import ForceQuerySchema, ProjectSchema, RequestSchema, WhyNotQuerySchema
from api.service import service
from common.formats.json_documents import digest
from graph.record.advice import report_document_of
from graph.record.analyses import Kind
from graph.record.tokens import Scope

blueprint = Resources("advising", __name__, description="Advice asked for.")


@blueprint.route("/advice")
class AdviceRequestsResource(MethodView):
    """Requests for advice."""

    @needs(Scope.ADVISE)
    @blueprint.arguments(ForceQuerySchema, location="query")
    @blueprint.arguments(ProjectSchema)
    @blueprint.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask for the best stacks for a project."""
        request = asking.settled(public_request(body)) | may_fetch()
        asking.asked_of(service().settings, request)  # what cannot be asked needs no worker
        parameters = {
            "recommendation_type": request["type"],
            "dev": request["dev"],
            "count": request["count"],
            "files": sorted(request["files"]),
        }
        new = new_request(Kind.ADVICE, request, parameters, digest(request))
        job = Job("advice.make", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))


@blueprint.route("/advice/<string:advice_id>/replay")
class ReplaysResource(MethodView):
    """The same again."""

    @needs(Scope.ADVISE)
    @blueprint.response(202, RequestSchema)
    def post(self, advice_id: str) -> Any:
        """Answer a recorded request again on what was known then, and compare the bytes."""
        asked = {"advice_id": _known(advice_id)}
        new = new_request(Kind.REPLAY, asked, asked, digest(asked))
        job = Job("advice.replay", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=True))


@blueprint.route("/advice/<string:advice_id>/why-not")
class WhyNotResource(MethodView):
    """What a requirement would cost."""

    @needs(Scope.ADVISE)
    @blueprint.arguments(WhyNotQuerySchema, location="query")
    @blueprint.response(202, RequestSchema)
    def post(self, query: dict[str, Any], advice_id: str) -> Any:
        """Ask what a requirement would cost the stack, or why it cannot be met now."""
        asking.requirement_of(query["requirement"], "requirement")
        asked = {"advice_id": _known(advice_id), "requirement": query["requirement"]}
        new = new_request(Kind.WHY_NOT, asked, asked, digest(asked))
        job = Job("advice.why_not", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))


def _known(advice_id: str) -> str:
    """:raises ApiError: 404 if there is no such advice"""
    with service().reading() as connection:
        known = report_document_of(connection, advice_id)
    if known is None:
        raise not_found("advice", advice_id)
    return advice_id
