"""ObservationsResource: what single jobs were seen to do."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, reading, whole_digest
from api.schemas.inspections import (
    ObservationDetailSchema,
    ObservationPageSchema,
    ObservationQuerySchema,
)
from graph.record import observations as record
from graph.record.tokens import Scope

blueprint = Resources("observations", __name__, description="What jobs were seen to do.")

_OBSERVATIONS = Cursor("observations", {"observation_id": str})


@blueprint.route("/observations")
class ObservationsResource(MethodView):
    """ObservationsResource."""

    @needs(Scope.READ)
    @blueprint.arguments(ObservationQuerySchema, location="query")
    @blueprint.response(200, ObservationPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List observations in the order of their identifiers."""
        wanted = record.ObservationFilter(**filters(query))
        with reading() as (connection, progress):
            find = partial(record.browse_observations, connection, wanted)
            return page(query, _OBSERVATIONS, find, progress)


@blueprint.route("/observations/<string:observation_id>")
class ObservationResource(MethodView):
    """One observation."""

    @needs(Scope.READ)
    @blueprint.response(200, ObservationDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, observation_id: str) -> dict[str, Any]:
        """Say what a job was seen to do."""
        with reading() as (connection, progress):
            found = record.observation_named(connection, whole_digest(observation_id))
        if found is None:
            raise not_found("observation", observation_id)
        return {**members(found), **freshness(progress)}
