"""Requests that a worker answers: how far they are, and what came of them."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, url_for
from flask.views import MethodView
from marshmallow import Schema, fields

from api import analyses
from api.authentication import require
from api.errors import not_found
from api.resources.base import Resources, members
from api.schema_fields import (
    QuerySchema,
    asked_flag,
    choice,
    count,
    flag,
    free,
    moment,
    text,
)
from api.service import service
from graph.record.analyses import (
    Analysis,
    AnalysisKind,
    analysis_of,
    log_of,
)
from graph.record.tokens import Scope

_STATES = ["pending", "running", "succeeded", "failed", "error"]


class ForceQuerySchema(QuerySchema):
    """Whether an equal request of a while ago will do."""

    force = asked_flag("Do it again although the same was asked a while ago.")


class RequestSchema(Schema):
    """A request that was accepted."""

    analysis_id = text("Under which it is found.", "adviser-240611083015-5f0c9d2be417a863")
    kind = text("What it asks for.", "adviser")
    state = choice("How far it is; the last three are ends.", _STATES)
    reason = text("Why it ended otherwise than in success.", null=True)
    cached = flag("Whether it is an equal request of a while ago.")
    parameters = free("What was asked.")
    accepted_at = moment("When it was accepted.")
    started_at = moment("When a worker took it first.", null=True)
    finished_at = moment("When it ended.", null=True)
    attempts = count("How often a worker took it.", 1)
    as_of = moment("Of the newest knowledge that the result may rest on.", null=True)
    graph_revision = count("How far the graph was by then.", 1804, null=True)
    result = text("Address of the result, once there is one.", null=True)
    log = text("Address of what people are shown of the run.")


class LogSchema(Schema):
    """What people are shown of a run."""

    analysis_id = text("Of the request.", "adviser-240611083015-5f0c9d2be417a863")
    lines = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "In order, with `asctime`, `levelname` and `message`."},
    )


blueprint = Resources("requests", __name__, description="Requests that a worker answers.")

#: Who may look at a request is who may make one.
_SCOPES = {
    AnalysisKind.UPLOAD: Scope.INGEST,
    AnalysisKind.FETCH: Scope.INGEST,
    AnalysisKind.INSPECTION: Scope.INSPECT,
}


@blueprint.route("/requests/<string:analysis_id>")
class RequestResource(MethodView):
    """One request."""

    @blueprint.response(200, RequestSchema)
    def get(self, analysis_id: str) -> dict[str, Any]:
        """Say how far a request is."""
        return document_of(_found(analysis_id))


@blueprint.route("/requests/<string:analysis_id>/result")
class RequestResultResource(MethodView):
    """What came of a request."""

    @blueprint.response(200, {"type": "object"})
    @blueprint.alt_response(202, description="Not finished: ask again.")
    def get(self, analysis_id: str) -> Response:
        """Give the result of a request, or say that it is not ready."""
        return Response(analyses.result(_found(analysis_id)), mimetype="application/json")


@blueprint.route("/requests/<string:analysis_id>/log")
class RequestLogResource(MethodView):
    """What people are shown of a run."""

    @blueprint.response(200, LogSchema)
    def get(self, analysis_id: str) -> dict[str, Any]:
        """Give the log of a request, which is empty while it has not begun."""
        found = _found(analysis_id)
        with service().reading() as connection:
            log = log_of(connection, found.analysis_id)
        return {
            "analysis_id": found.analysis_id,
            "lines": [orjson.loads(it) for it in log.splitlines()],
        }


def accepted(found: Analysis, cached: bool) -> tuple[dict[str, Any], int, dict[str, str]]:
    """What a submit is answered with: the request, and where it is found."""
    where = url_for("v2-requests.RequestResource", analysis_id=found.analysis_id)
    return document_of(found, cached=cached), 202, {"Location": where}


def document_of(found: Analysis, *, cached: bool = False) -> dict[str, Any]:
    """A request as clients read it."""
    name = found.analysis_id
    has_result = found.result_document_id is not None
    result = url_for("v2-requests.RequestResultResource", analysis_id=name) if has_result else None
    return {
        **members(found),
        "kind": found.kind.value,
        "state": found.state.value,
        "cached": cached,
        "result": result,
        "log": url_for("v2-requests.RequestLogResource", analysis_id=name),
    }


def _found(analysis_id: str) -> Analysis:
    with service().reading() as connection:
        found = analysis_of(connection, analysis_id)
    if found is None:
        raise not_found("request", analysis_id)
    require(_SCOPES.get(found.kind, Scope.ADVISE))
    return found
