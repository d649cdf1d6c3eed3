"""Observations: what single jobs were seen to do."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api.errors import ApiError, Problem, not_found
from api.paging import Cursor, freshness, only, page
from api.resources.base import Resources, members, package_name, reading, whole_digest
from api.schemas import inspections as schemas
from api.security import needs
from graph.repositories import browse_observations as record
from graph.repositories.tokens import Scope

blueprint = Resources("observations", __name__, description="What jobs were seen to do.")

_OBSERVATIONS = Cursor("observations", (str,))
_DIGESTS = ("hardware", "stack", "inspection", "comparison_key")


@blueprint.route("/observations")
class Observations(MethodView):
    """Observations."""

    @needs(Scope.READ)
    @blueprint.arguments(schemas.ObservationQuery, location="query")
    @blueprint.response(200, schemas.ObservationPage)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List observations in the order of their identifiers."""
        wanted = _filter(query)
        with reading() as (connection, progress):
            return page(
                query,
                _OBSERVATIONS,
                lambda after, limit: record.browse_observations(
                    connection, wanted, after=only(after), limit=limit
                ),
                lambda it: (it.observation_id,),
                progress,
            )


@blueprint.route("/observations/<string:observation_id>")
class Observation(MethodView):
    """One observation."""

    @needs(Scope.READ)
    @blueprint.response(200, schemas.ObservationDetail)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, observation_id: str) -> dict[str, Any]:
        """Say what a job was seen to do."""
        with reading() as (connection, progress):
            found = record.observation_named(connection, whole_digest(observation_id))
        if found is None:
            raise not_found("observation", observation_id)
        return {**members(found), **freshness(progress)}


def _filter(query: dict[str, Any]) -> record.ObservationFilter:
    asked = {name: it for name, it in query.items() if name not in ("limit", "after")}
    if "version" in asked and "package" not in asked:
        message = "only with `package`, whose version it is"
        raise ApiError(
            400, Problem.INVALID_REQUEST, f"version: {message}",
            errors={"query": {"version": [message]}},
        )  # fmt: skip
    if "package" in asked:
        asked["package"] = package_name(asked["package"])
    return record.ObservationFilter(
        **{name: whole_digest(it) if name in _DIGESTS else it for name, it in asked.items()}
    )
