"""Claims of recorded advice: what one claim rests on."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView
from marshmallow import fields

from adviser.answering.recorded_claims import UnknownClaim, explained_claim
from adviser.claim_details import ClaimDetails, EffectDetails, JobPair, PartialEffect, UsedJob
from adviser.scoring.assessment_types import PackageDifference
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    json_object,
    schema_of,
    text,
    texts,
)
from api.resources.base import Resources
from api.service import service
from graph.record.tokens import Scope

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


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


blueprint = Resources("claims", __name__, description="Claims of recorded advice.")


@blueprint.route("/advice/<string:advice_id>/claims/<string:claim_id>")
class ClaimResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.response(200, ExplainedClaimSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
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
