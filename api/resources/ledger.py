"""The ledger: how past advice holds up against what was learned later, by month."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask.views import MethodView
from marshmallow import fields

from adviser.ledger import ledger_months
from api.access.authentication import needs
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import FreshnessSchema, schema_of
from api.resources.base import Resources
from graph.record.ledger import identical_pairs, latest_scores
from graph.record.tokens import Scope
from model.ledger import CountedShare, LedgerMonth

CountedShareSchema = schema_of("CountedShare", CountedShare)


def _share(description: str) -> fields.Nested:
    return fields.Nested(CountedShareSchema, required=True, metadata={"description": description})


LedgerMonthSchema = schema_of("LedgerMonth", LedgerMonth)


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
