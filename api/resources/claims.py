"""Claims of recorded advice: what one claim rests on."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields

from adviser.answering.recorded_claims import UnknownClaim, explained_claim
from adviser.scoring.estimates import Method
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    choice,
    count,
    json_object,
    number,
    text,
    texts,
)
from api.resources.base import Resources
from api.service import service
from graph.record.tokens import Scope

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


def _ended_at() -> fields.String:
    return text("End of the last job; null if unknown.", "2026-01-01T00:00:00Z", null=True)


class ClaimEffectSchema(Schema):
    """A difference between two stacks with its error."""

    d = number("Candidate minus baseline, natural logarithm; null if unknown.", 0.17, null=True)
    standard_error = number("Standard error of `d`; null if unknown.", 0.037, null=True)
    degrees_of_freedom = number("Degrees of freedom of the standard error; 0 if unknown.", 12.8)
    observed_pct = number("The difference in % of the baseline's rate.", 18.5, null=True)
    interval_low_pct = number("Lower end of its 95 % interval, %.", 9.4, null=True)
    interval_high_pct = number("Upper end of its 95 % interval, %.", 28.2, null=True)


class ClaimDifferenceSchema(Schema):
    """A package in which the two stacks differ."""

    name = text("Normalised name.", "numpy")
    ours = text("Version in the candidate; null if it lacks the package.", "2.4.6", null=True)
    theirs = text("Version in the baseline; null if it lacks the package.", "2.0.2", null=True)


class PartialEffectSchema(Schema):
    """The effect that some jobs show: those of a host, of two inspections, or of other stacks."""

    stack = text("Digest of the candidate stack.", _DIGEST)
    baseline_stack = text("Digest of the baseline stack.", _DIGEST)
    differs = texts("Packages in which these stacks differ from those of the claim.", ["scipy"])
    hosts = texts("Digests of the machines.", [_DIGEST])
    documents = texts("Inspections of the candidate's jobs.", [_DIGEST])
    baseline_documents = texts("Inspections of the baseline's jobs.", [_DIGEST])
    ended_at = _ended_at()
    method = choice("How the effect was estimated.", [it.value for it in Method])
    jobs = count("Number of jobs of the candidate.", 9)
    baseline_jobs = count("Number of jobs of the baseline.", 9)
    effect = fields.Nested(ClaimEffectSchema, required=True)


class JobPairSchema(Schema):
    """The jobs of both stacks in one turn."""

    block = text("Identifier of the turn.", null=True)
    host = text("Digest of the machine.", null=True)
    ended_at = _ended_at()
    rate = number("Rate of the candidate, in the unit of the claim.", 4.0e10)
    baseline_rate = number("Rate of the baseline.", 3.4e10)
    d = number("Natural logarithm of the ratio of both rates.", 0.16)
    difference_pct = number("The same in % of the baseline's rate.", 17.3)


class UsedJobSchema(Schema):
    """A job that the claim rests on."""

    stack = text("Digest of the stack.", _DIGEST)
    document_id = text("Identifier of the inspection.", _DIGEST, null=True)
    job_id = text("Identifier of the job in its document.")
    host = text("Digest of the machine.", null=True)
    block = text("Identifier of the turn.", null=True)
    ended_at = _ended_at()
    rate = number("Rate of the job.", 4.0e10)
    observations = texts("Identifiers of its observations.", [_DIGEST])


def _parts() -> fields.List[Any]:
    return fields.List(fields.Nested(PartialEffectSchema), required=True)


class ExplainedClaimSchema(FreshnessSchema):
    """A claim with everything that it rests on, computed again from the recorded evidence."""

    advice_id = text("Identifier of the advice.", "adviser-260101000000-5f0c9d2be417a863")
    other_version = text(
        "Version of Thoth that wrote the advice, if this version computes other values.", null=True
    )
    sentences = texts("What the claim says and how it was computed, for people.")
    claim = json_object("The claim with the keys of a report.")
    comparisons = count("Number of comparisons of the advice that share the error rate.", 28)
    share = number("Share of the error rate that this claim has; 0 if it was not tested.", 0.003)
    differences = fields.List(fields.Nested(ClaimDifferenceSchema), required=True)
    effect = fields.Nested(ClaimEffectSchema, required=True)
    elsewhere_sd = number(
        "Standard deviation, natural logarithm, added because the comparison was measured elsewhere"
        " than on the target; 0 if it was measured there.",
        0.0,
    )
    hosts = _parts()
    inspections = _parts()
    contexts = _parts()
    pairs = fields.List(fields.Nested(JobPairSchema), required=True)
    jobs = fields.List(fields.Nested(UsedJobSchema), required=True)
    left_out = json_object("For each stack, the number of jobs left out by reason.")


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
                document = service().record_cache.value(connection, key, explained)
            except UnknownClaim as error:
                raise not_found("claim of this advice", claim_id) from error
        return {**document, **freshness(progress)}
