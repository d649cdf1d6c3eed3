"""Vulnerabilities and the releases they affect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields
from sqlalchemy import Connection

from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    PageQuerySchema,
    PageSchema,
    count,
    fresh,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import Resources, filters, members
from graph.record.access import Scope
from graph.record.freshness import KnowledgeState, knows_advisories
from graph.record.vulnerability_queries import (
    AdvisorySummary,
    KnownVersion,
    VulnerabilityFilter,
    VulnerabilityHead,
    advisories_about,
    affected_count,
    browse_affected,
    browse_vulnerabilities,
    packages_affected_by,
    vulnerability_named,
)
from model.advisories import range_text

VulnerabilityQuerySchema = query_of("VulnerabilityQuery", VulnerabilityFilter)
VulnerabilityItemSchema = schema_of("VulnerabilityItem", VulnerabilityHead)


class VulnerabilityPageSchema(PageSchema):
    """Vulnerabilities, ordered by identifier."""

    items = fields.List(
        fields.Nested(VulnerabilityItemSchema), required=True, allow_none=True,
        metadata={"description": "Null if no advisories were read: vulnerabilities are unknown."},
    )  # fmt: skip


AdvisoryItemSchema = schema_of("AdvisoryItem", AdvisorySummary)


class AffectedPackageSchema(Schema):
    """A package that the advisories name."""

    name = text("Normalised name.", "flask")
    ranges = texts("Affected ranges.", [">=2.3.0, <2.3.2"])
    versions = texts("Affected versions that advisories list, oldest first.", ["2.3.0", "2.3.1"])


VulnerabilityDocumentSchema = fresh(
    "VulnerabilityDocument",
    VulnerabilityItemSchema,
    advisories=fields.List(fields.Nested(AdvisoryItemSchema), required=True),
    packages=fields.List(fields.Nested(AffectedPackageSchema), required=True),
    affected_versions=count("Number of known releases that it affects.", 3),
)
ReleaseNameSchema = schema_of("ReleaseName", KnownVersion)
ReleaseNamePageSchema = page_of("ReleaseNamePage", ReleaseNameSchema)


blueprint = Resources("vulnerabilities", __name__, description="Known vulnerabilities.")

_VULNERABILITIES = Cursor("vulnerabilities", {"vulnerability_id": str})
_AFFECTED = Cursor("affected", {"purl": str})


def vulnerability_page(
    query: Mapping[str, Any],
    cursor: Cursor,
    connection: Connection,
    selection: VulnerabilityFilter,
    progress: KnowledgeState,
) -> dict[str, Any]:
    """A page of vulnerabilities; without items if no advisories were read."""
    listed = page(query, cursor, partial(browse_vulnerabilities, connection, selection), progress)
    return listed if knows_advisories(connection) else {**listed, "items": None}


@blueprint.route("/vulnerabilities")
class VulnerabilitiesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(VulnerabilityQuerySchema, location="query")
    @blueprint.response(200, VulnerabilityPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List vulnerabilities, ordered by identifier."""
        selection = VulnerabilityFilter(**filters(query))
        with reading() as (connection, progress):
            return vulnerability_page(query, _VULNERABILITIES, connection, selection, progress)


@blueprint.route("/vulnerabilities/<string:identifier>")
class VulnerabilityResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, VulnerabilityDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, identifier: str) -> dict[str, Any]:
        """Get one vulnerability by any of its identifiers."""
        with reading() as (connection, progress):
            vulnerability = vulnerability_named(connection, identifier)
            if vulnerability is None:
                raise not_found("vulnerability", identifier)
            return {
                **members(vulnerability),
                "advisories": advisories_about(connection, vulnerability.vulnerability_id),
                "packages": [
                    {**members(it), "ranges": [range_text(events) for events in it.ranges]}
                    for it in packages_affected_by(connection, vulnerability.vulnerability_id)
                ],
                "affected_versions": affected_count(connection, vulnerability.vulnerability_id),
                **freshness(progress),
            }


@blueprint.route("/vulnerabilities/<string:identifier>/versions")
class AffectedResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(PageQuerySchema, location="query")
    @blueprint.response(200, ReleaseNamePageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], identifier: str) -> dict[str, Any]:
        """List the known releases that a vulnerability affects."""
        with reading() as (connection, progress):
            vulnerability = vulnerability_named(connection, identifier)
            if vulnerability is None:
                raise not_found("vulnerability", identifier)
            find = partial(browse_affected, connection, vulnerability.vulnerability_id)
            return page(query, _AFFECTED, find, progress)
