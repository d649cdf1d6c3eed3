"""How far the graph is behind the record."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api.authentication import needs
from api.paging import freshness
from api.resources.base import Resources, members, reading
from api.schemas.status import ServiceStatusSchema
from common import __version__
from graph.record.freshness import backlog
from graph.record.tokens import Scope

blueprint = Resources("status", __name__, description="How far the service is.")


@blueprint.route("/status")
class StatusResource(MethodView):
    """The projection of the record into the graph."""

    @needs(Scope.READ)
    @blueprint.response(200, ServiceStatusSchema)
    def get(self) -> dict[str, Any]:
        """Say how far the graph is behind the record; only PostgreSQL is asked."""
        with reading() as (connection, progress):
            behind = backlog(connection)
        return {
            "version": __version__,
            **members(behind),
            "lag_s": behind.lag_s,
            **freshness(progress),
        }
