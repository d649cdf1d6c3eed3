"""How far the graph is behind the record."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api.authentication import needs
from api.paging import freshness
from api.request_context import reading
from api.resources.base import Resources, members
from api.schema_fields import (
    FreshnessSchema,
    count,
    moment,
    number,
    text,
)
from common import __version__
from graph.record.freshness import COUNTED, lag_of, source_times
from graph.record.tokens import Scope


class ServiceStatusSchema(FreshnessSchema):
    """Which release answers, and how far its graph is behind the record."""

    version = text("Of the service.", "0.1.0")
    asked_at = moment("When an index was last asked, whether or not it answered.", null=True)
    answered_at = moment("When an index or a source of advisories last answered.", null=True)
    waiting = count("Changes of the record that the graph does not show yet.", 0)
    waiting_since = moment("When the oldest of them was written.", null=True)
    lag_s = number("How long ago that was, s; 0 if nothing waits.", 0.0)


blueprint = Resources("status", __name__, description="How far the service is.")


@blueprint.route("/status")
class StatusResource(MethodView):
    """The projection of the record into the graph."""

    @needs(Scope.READ)
    @blueprint.response(200, ServiceStatusSchema)
    def get(self) -> dict[str, Any]:
        """Say how far the graph is behind the record; only PostgreSQL is asked."""
        with reading() as (connection, progress):
            behind, sources = lag_of(connection, COUNTED), source_times(connection)
        return {
            "version": __version__,
            **members(sources),
            "waiting": behind.count,
            "waiting_since": behind.since,
            "lag_s": behind.oldest_s,
            **freshness(progress),
        }
