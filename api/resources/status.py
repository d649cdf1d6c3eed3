"""State of the service: its version and how far the graph is behind the record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields

from api.access.authentication import needs
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import FreshnessSchema, count, described, moment, number, text
from api.resources.base import Resources, members
from common import __version__
from graph.record.freshness import COUNTED, lag_of, source_times
from graph.record.quarantine import count_refusals
from graph.record.source_successes import NEVER, SourceSuccess, source_successes
from graph.record.tokens import Scope


class SourceKindSchema(Schema):
    """How current one kind of knowledge is."""

    kind = text(
        "What is read (`index`, `inspections`, `advisories`), verified (`record`, `graph`),"
        " finished (a night of the `loop`) or written (a complete `backup`).",
        "index",
    )
    sources = count("Number of its sources.", 1)
    read_at = moment(
        "Time of the last success; of several sources, the oldest. Null if one never succeeded.",
        null=True,
    )


class ServiceStatusSchema(FreshnessSchema):
    """Version of the service and state of its graph."""

    version = text("Version of the service.", "0.1.0")
    asked_at = moment("Time of the last request to an index.", null=True)
    answered_at = moment("Time of the last answer of an index or advisory source.", null=True)
    sources = fields.List(fields.Nested(SourceKindSchema), required=True)
    quarantine = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata=described("Number of refused documents by reason.", {"invalid_json": 1}),
    )
    waiting = count("Number of changes that the graph does not contain yet.", 0)
    waiting_since = moment("When the oldest of these changes was recorded.", null=True)
    lag_s = number("How long ago that was, s; 0 if nothing waits.", 0.0)


blueprint = Resources("status", __name__, description="State of the service.")


@blueprint.route("/status")
class StatusResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, ServiceStatusSchema)
    def get(self) -> dict[str, Any]:
        """Get the state of the service; reads PostgreSQL only."""
        with reading() as (connection, progress):
            behind, times = lag_of(connection, COUNTED), source_times(connection)
            successes, refusals = source_successes(connection), count_refusals(connection)
        return {
            "version": __version__,
            **members(times),
            "sources": _kinds(successes),
            "quarantine": refusals,
            "waiting": behind.count,
            "waiting_since": behind.since,
            "lag_s": behind.oldest_s,
            **freshness(progress),
        }


def _kinds(successes: Iterable[SourceSuccess]) -> list[dict[str, Any]]:
    """The sources by kind, without their addresses, which may name files of the operator."""
    times = defaultdict(list)
    for success in successes:
        times[success.kind].append(success.succeeded_at)
    return [
        {"kind": kind, "sources": len(of_kind), "read_at": min(of_kind)}
        if min(of_kind) != NEVER
        else {"kind": kind, "sources": len(of_kind), "read_at": None}
        for kind, of_kind in times.items()
    ]
