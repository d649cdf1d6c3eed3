"""The ledger: how past advice holds up against what was learned later, by month."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields

from adviser.ledger import ledger_months
from api.access.authentication import needs
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import FreshnessSchema, json_object, number, text
from api.http.schema_fields import count as integer
from api.resources.base import Resources
from graph.record.ledger import identical_pairs, latest_scores
from graph.record.tokens import Scope


class CountedShareSchema(Schema):
    """A share with its exact 95 % interval."""

    count = integer("Number of cases that count.", 19)
    total = integer("Number of all cases.", 20)
    share = number("The share; null without any case.", 0.95, null=True)
    low = number("Lower end of its interval.", 0.751)
    high = number("Upper end of its interval.", 0.999)


def _share(description: str) -> fields.Nested:
    return fields.Nested(CountedShareSchema, required=True, metadata={"description": description})


class LedgerMonthSchema(Schema):
    """The ledger of the advice of one month."""

    month = text("The month, UTC.", "2026-01")
    advices = integer("Number of scored pieces of advice.", 40)
    outcomes = json_object("Number of pieces of advice by outcome.")
    still_best = _share("Advice that is still best, among the tested pieces.")
    mean_regret_points = number("Mean regret in score points.", 0.1, null=True)
    worst_regret_points = number("Largest regret in score points.", 1.5, null=True)
    mean_regret_pct = number("Mean regret in speed, %.", 0.5, null=True)
    worst_regret_pct = number("Largest regret in speed, %.", 12.0, null=True)
    worst_advice = text("Identifier of the advice with the largest regret.", null=True)
    contained = _share("Past 95 % intervals that contain the later estimate.")
    expected_contained = number("Expected share of them for honest intervals.", 0.83, null=True)
    contradicted = _share("Claims of a difference that everything known now contradicts.")
    faster = integer("Number of claims `faster`.", 11)
    slower = integer("Number of claims `slower`.", 9)
    symmetry_p = number(
        "P-value of the test that both are equally likely; null without such claims.",
        0.82,
        null=True,
    )
    false_claims = _share("Pairs of identical stacks (A/A) that were claimed to differ.")


class LedgerSchema(FreshnessSchema):
    """The ledger by month, newest first."""

    months = fields.List(fields.Nested(LedgerMonthSchema), required=True)


blueprint = Resources("ledger", __name__, description="How past advice holds up.")


@blueprint.route("/ledger")
class LedgerResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, LedgerSchema)
    def get(self) -> dict[str, Any]:
        """Get the ledger: how past advice holds up against what was learned later."""
        with reading() as (connection, progress):
            months = ledger_months(latest_scores(connection), identical_pairs(connection))
            return {"months": [asdict(it) for it in months], **freshness(progress)}
