"""How far the graph is behind the record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask.views import MethodView

from api.paging import freshness
from api.resources.base import Resources, reading
from api.schemas.status import ServiceStatus
from api.security import needs
from common import __version__
from graph.repositories.tokens import Scope

blueprint = Resources("status", __name__, description="How far the service is.")


@blueprint.route("/status")
class Status(MethodView):
    """The projection of the record into the graph."""

    @needs(Scope.READ)
    @blueprint.response(200, ServiceStatus)
    def get(self) -> dict[str, Any]:
        """Say how far the graph is behind the record; only PostgreSQL is asked."""
        with reading() as (_, progress):
            since = progress.waiting_since
        lag = 0.0 if since is None else (datetime.now(UTC) - since).total_seconds()
        return {
            "version": __version__,
            "asked_at": progress.asked_at,
            "waiting": progress.waiting,
            "waiting_since": since,
            "lag_s": max(0.0, lag),
            **freshness(progress),
        }
