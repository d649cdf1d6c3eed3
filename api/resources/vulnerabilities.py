"""Vulnerabilities, and the releases that they affect."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.request_context import reading
from api.resources.base import Resources, filters, members
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    asked,
    asked_choice,
    asked_flag,
    choice,
    count,
    moment,
    number,
    text,
    texts,
)
from common.advisories import Severity
from graph.record.tokens import Scope
from graph.record.vulnerabilities import (
    VulnerabilityFilter,
    advisories_about,
    affected_count,
    browse_affected,
    browse_vulnerabilities,
    vulnerability_named,
)

_SEVERITIES = [it.value for it in Severity]


class VulnerabilityQuerySchema(PageQuerySchema):
    """Which vulnerabilities are asked for."""

    package = asked("Of which a known version is affected.", "flask")
    alias = asked("An identifier that it is known by.", "CVE-2023-30861")
    severity = asked_choice("How bad it is.", _SEVERITIES)
    withdrawn = asked_flag("Whether all of its advisories are withdrawn.")


class VulnerabilityItemSchema(Schema):
    """A vulnerability: what all advisories about it say together."""

    vulnerability_id = text("The identifier that names it.", "CVE-2023-30861")
    aliases = texts("All that it is known by.", ["CVE-2023-30861", "GHSA-m2qf-hxjv-5gpq"])
    summary = text("One line.", null=True)
    severity = choice("How bad it is; null if nobody said.", _SEVERITIES, null=True)
    score = number("CVSS base score, 0 to 10.", 7.5, null=True)
    vector = text("What the score comes from.", null=True)
    published_at = moment("When it was first published.", null=True)
    modified_at = moment("When an advisory last changed.", null=True)
    withdrawn_at = moment("Set if all of its advisories are withdrawn.", null=True)
    document_id = text("The advisory whose identifier it has.")


class VulnerabilityPageSchema(PageSchema):
    """Vulnerabilities in the order of their identifiers."""

    items = fields.List(fields.Nested(VulnerabilityItemSchema), required=True)


class AdvisoryItemSchema(Schema):
    """One advisory."""

    advisory_id = text("Its identifier.", "GHSA-m2qf-hxjv-5gpq")
    summary = text("One line.", null=True)
    modified_at = moment("When it last changed.")
    withdrawn_at = moment("When it was withdrawn.", null=True)
    document_id = text("Its document.")


class VulnerabilityDocumentSchema(FreshnessSchema, VulnerabilityItemSchema):
    """A vulnerability."""

    advisories = fields.List(fields.Nested(AdvisoryItemSchema), required=True)
    affected_versions = count("How many of the versions known here it affects.", 3)


class ReleaseNameSchema(Schema):
    """A release, named."""

    purl = text("Package URL.", "pkg:pypi/flask@2.2.2")
    name = text("Name, normalised.", "flask")
    version = text("Version, normalised.", "2.2.2")
    index = text("Name of the index that serves it.", "pypi")


class ReleaseNamePageSchema(PageSchema):
    """Releases by package URL."""

    items = fields.List(fields.Nested(ReleaseNameSchema), required=True)


blueprint = Resources("vulnerabilities", __name__, description="Vulnerabilities that are known.")

_VULNERABILITIES = Cursor("vulnerabilities", {"vulnerability_id": str})
_AFFECTED = Cursor("affected", {"purl": str})


@blueprint.route("/vulnerabilities")
class VulnerabilitiesResource(MethodView):
    """Vulnerabilities."""

    @needs(Scope.READ)
    @blueprint.arguments(VulnerabilityQuerySchema, location="query")
    @blueprint.response(200, VulnerabilityPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List vulnerabilities in the order of their identifiers."""
        wanted = VulnerabilityFilter(**filters(query))
        with reading() as (connection, progress):
            find = partial(browse_vulnerabilities, connection, wanted)
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
            found = vulnerability_named(connection, identifier)
            if found is None:
                raise not_found("vulnerability", identifier)
            return {
                **members(found),
                "advisories": advisories_about(connection, found.vulnerability_id),
                "affected_versions": affected_count(connection, found.vulnerability_id),
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
            found = vulnerability_named(connection, identifier)
            if found is None:
                raise not_found("vulnerability", identifier)
            find = partial(browse_affected, connection, found.vulnerability_id)
            return page(query, _AFFECTED, find, progress)
