"""AdviceResource that was given, and its reports."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView

from api.authentication import needs, require_token
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, reading
from api.schemas.advice import AdviceDetailSchema, AdviceListQuerySchema, AdvicePageSchema
from api.schemas.thamos import ResultDocumentSchema
from api.service import service
from graph.record import advice as record
from graph.record.advice import report_document_of
from graph.record.documents import body_of
from graph.record.tokens import Scope

blueprint = Resources("advice", __name__, description="Advice that was given.")

_ADVICE = Cursor("advice", {"created_at": datetime, "advice_id": str})


@blueprint.route("/advice")
class AdviceListResource(MethodView):
    """AdviceResource: what others asked, so that nobody lists it without a token."""

    @needs(Scope.READ, anonymous=False)
    @blueprint.arguments(AdviceListQuerySchema, location="query")
    @blueprint.response(200, AdvicePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List advice that the token asked for, or all with the scope `admin`; newest first."""
        shown = require_token()
        whose = None if shown.may(Scope.ADMIN) else shown.token_id
        wanted = record.AdviceFilter(**filters(query), token_id=whose)
        with reading() as (connection, progress):
            return page(query, _ADVICE, partial(record.browse_advice, connection, wanted), progress)


@blueprint.route("/advice/<string:advice_id>")
class AdviceResource(MethodView):
    """One advice."""

    @needs(Scope.ADVISE)
    @blueprint.response(200, AdviceDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> dict[str, Any]:
        """Say which stacks an advice recommends, best first."""
        with reading() as (connection, progress):
            found = record.advice_named(connection, advice_id)
            if found is None:
                raise not_found("advice", advice_id)
            return {
                **members(found),
                "stacks": record.stacks_of(connection, advice_id),
                "evidence": record.evidence_count(connection, advice_id),
                **freshness(progress),
            }


@blueprint.route("/advice/<string:advice_id>/report")
class AdviceReportResource(MethodView):
    """The report of an advice."""

    @needs(Scope.ADVISE)
    @blueprint.response(200, ResultDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> Response:
        """Give the report of an advice, as it was recorded."""
        with reading() as (connection, _):
            document = report_document_of(connection, advice_id)
            body = document and body_of(connection, service().settings, document)
        if not body:
            raise not_found("advice", advice_id)
        return Response(body, mimetype="application/json")
