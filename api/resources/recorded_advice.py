"""Recorded advice and its reports."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import fields

from adviser.scoring.criteria import RecommendationType
from api.access.authentication import needs, require_token
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    ResultDocumentSchema,
    choice,
    count,
    filter_choice,
    fresh,
    page_of,
    query_of,
    schema_of,
)
from api.resources.base import Resources, filters, members
from api.service import service
from graph.record.advice import (
    AdviceFilter,
    AdvisedStackHead,
    advice_named,
    browse_advice,
    evidence_count,
    report_document_of,
    stacks_of,
)
from graph.record.documents import body_of
from graph.record.tokens import Scope
from model.advice import AdviceHead

_TYPES = [it.value for it in RecommendationType]
#: Outcomes of a search.
_STATUSES = ["optimal", "feasible", "infeasible", "unknown"]
_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


AdviceListQuerySchema = query_of(
    "AdviceListQuery",
    AdviceFilter,
    recommendation_type=filter_choice("Recommendation type of the request.", _TYPES),
    status=filter_choice("How the search ended.", _STATUSES),
)
AdviceItemSchema = schema_of(
    "AdviceItem",
    AdviceHead,
    recommendation_type=choice("Recommendation type of the request.", _TYPES),
    status=choice("How the search ended.", _STATUSES),
)
AdvicePageSchema = page_of("AdvicePage", AdviceItemSchema)
RecommendedStackSchema = schema_of("RecommendedStack", AdvisedStackHead)
AdviceDetailSchema = fresh(
    "AdviceDetail",
    AdviceItemSchema,
    stacks=fields.List(fields.Nested(RecommendedStackSchema), required=True),
    evidence=count("Number of observations that support its claims.", 20),
)


blueprint = Resources("advice", __name__, description="Recorded advice.")

_ADVICE = Cursor("advice", {"created_at": datetime, "advice_id": str})


@blueprint.route("/advice")
class AdviceListResource(MethodView):
    """All advice. Listing needs a token, because advice describes the projects of other people."""

    @needs(Scope.READ, anonymous=False)
    @blueprint.arguments(AdviceListQuerySchema, location="query")
    @blueprint.response(200, AdvicePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List advice requested with this token, newest first; scope `admin` lists all advice."""
        client = require_token()
        token_id = None if client.may(Scope.ADMIN) else client.token_id
        selection = AdviceFilter(**filters(query), token_id=token_id)
        with reading() as (connection, progress):
            return page(query, _ADVICE, partial(browse_advice, connection, selection), progress)


@blueprint.route("/advice/<string:advice_id>")
class AdviceResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.response(200, AdviceDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> dict[str, Any]:
        """Get one advice with its recommended stacks, best first."""
        with reading() as (connection, progress):
            advice = advice_named(connection, advice_id)
            if advice is None:
                raise not_found("advice", advice_id)
            return {
                **members(advice),
                "stacks": stacks_of(connection, advice_id),
                "evidence": evidence_count(connection, advice_id),
                **freshness(progress),
            }


@blueprint.route("/advice/<string:advice_id>/report")
class AdviceReportResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.response(200, ResultDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> Response:
        """Get the report of an advice, as it was recorded."""
        with reading() as (connection, _):
            document = report_document_of(connection, advice_id)
            body = document and body_of(connection, service().settings, document)
        if not body:
            raise not_found("advice", advice_id)
        return Response(body, mimetype="application/json")
