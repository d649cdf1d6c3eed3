"""VulnerabilitiesResource, and the releases that they affect."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, reading
from api.schema_fields import PageQuerySchema
from api.schemas.vulnerabilities import (
    ReleaseNamePageSchema,
    VulnerabilityDocumentSchema,
    VulnerabilityPageSchema,
    VulnerabilityQuerySchema,
)
from graph.record import vulnerabilities as record
from graph.record.tokens import Scope

blueprint = Resources("vulnerabilities", __name__, description="Vulnerabilities that are known.")

_VULNERABILITIES = Cursor("vulnerabilities", {"vulnerability_id": str})
_AFFECTED = Cursor("affected", {"purl": str})


@blueprint.route("/vulnerabilities")
class VulnerabilitiesResource(MethodView):
    """VulnerabilitiesResource."""

    @needs(Scope.READ)
    @blueprint.arguments(VulnerabilityQuerySchema, location="query")
    @blueprint.response(200, VulnerabilityPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List vulnerabilities in the order of their identifiers."""
        wanted = record.VulnerabilityFilter(**filters(query))
        with reading() as (connection, progress):
            find = partial(record.browse_vulnerabilities, connection, wanted)
            return page(query, _VULNERABILITIES, find, progress)


@blueprint.route("/vulnerabilities/<string:identifier>")
class VulnerabilityResource(MethodView):
    """One vulnerability."""

    @needs(Scope.READ)
    @blueprint.response(200, VulnerabilityDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, identifier: str) -> dict[str, Any]:
        """Say what is known of a vulnerability; any of its aliases finds it."""
        with reading() as (connection, progress):
            found = record.vulnerability_named(connection, identifier)
            if found is None:
                raise not_found("vulnerability", identifier)
            return {
                **members(found),
                "advisories": record.advisories_about(connection, found.vulnerability_id),
                "affected_versions": record.affected_count(connection, found.vulnerability_id),
                **freshness(progress),
            }


@blueprint.route("/vulnerabilities/<string:identifier>/versions")
class AffectedResource(MethodView):
    """What a vulnerability affects."""

    @needs(Scope.READ)
    @blueprint.arguments(PageQuerySchema, location="query")
    @blueprint.response(200, ReleaseNamePageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], identifier: str) -> dict[str, Any]:
        """List the releases that a vulnerability affects, of those that are known."""
        with reading() as (connection, progress):
            found = record.vulnerability_named(connection, identifier)
            if found is None:
                raise not_found("vulnerability", identifier)
            find = partial(record.browse_affected, connection, found.vulnerability_id)
            return page(query, _AFFECTED, find, progress)
