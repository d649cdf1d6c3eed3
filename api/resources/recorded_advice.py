"""Recorded advice: its reports, and what a claim rests on."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import fields

from adviser.answering.recorded_advice import UnknownClaim, explained_claim
from adviser.claim_details import ClaimDetails, EffectDetails, JobPair, PartialEffect, UsedJob
from adviser.scoring.assessment_types import PackageDifference
from adviser.scoring.criteria import RecommendationType
from api.access.authentication import needs, require_token
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    ResultDocumentSchema,
    choice,
    count,
    filter_choice,
    fresh,
    json_object,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import Resources, filters, members
from api.service import service
from graph.record.access import Scope
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
from model.advice import AdviceHead

_TYPES = [it.value for it in RecommendationType]
#: Outcomes of a search.
_STATUSES = ["optimal", "feasible", "infeasible", "unknown"]

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


def _ended_at() -> fields.String:
    return text("End of the last job; null if unknown.", "2026-01-01T00:00:00Z", null=True)


ClaimEffectSchema = schema_of("ClaimEffect", EffectDetails)
ClaimDifferenceSchema = schema_of("ClaimDifference", PackageDifference)
schema_of("PartialEffect", PartialEffect, ended_at=_ended_at())
JobPairSchema = schema_of("JobPair", JobPair, ended_at=_ended_at())
UsedJobSchema = schema_of("UsedJob", UsedJob, ended_at=_ended_at())
ExplainedClaimSchema = schema_of(
    "ExplainedClaim",
    ClaimDetails,
    base=FreshnessSchema,
    advice_id=text("Identifier of the advice.", "adviser-260101000000-5f0c9d2be417a863"),
    other_version=text(
        "Version of Thoth that wrote the advice, if this version computes other values.", null=True
    ),
    claim=json_object("The claim with the keys of a report."),
    sentences=texts("What the claim says and how it was computed, for people."),
)

claim_routes = Resources("claims", __name__, description="Claims of recorded advice.")


@claim_routes.route("/advice/<string:advice_id>/claims/<string:claim_id>")
class ClaimResource(MethodView):
    @needs(Scope.ADVISE)
    @claim_routes.response(200, ExplainedClaimSchema)
    @claim_routes.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str, claim_id: str) -> dict[str, Any]:
        """Explain a claim of an advice: its pairs, hosts, inspections, contexts and error rate.

        The first digits of the identifier suffice if no other claim of the advice has them.
        """
        with reading() as (connection, progress):

            def explained() -> dict[str, Any]:
                settings = service().settings
                return explained_claim(connection, settings, claim_id, advice_id).document()

            # Judging thousands of comparisons takes seconds.
            key = "claim", advice_id, claim_id
            try:
                document = service().record_value(connection, key, explained)
            except UnknownClaim as error:
                raise not_found("claim of this advice", claim_id) from error
        return {**document, **freshness(progress)}
