"""Releases: their requirements, files and vulnerabilities."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import fields, validate
from sqlalchemy import Connection

from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    StrictSchema,
    flag,
    page_of,
    schema_of,
)
from api.resources.base import Resources, members, package_name
from api.resources.vulnerabilities import VulnerabilityPageSchema, vulnerability_page
from graph.record.access import Scope
from graph.record.release_queries import VersionDetail, browse_files, purl_of, version_detail
from graph.record.vulnerability_queries import VulnerabilityFilter
from model.packages.identity import DEFAULT_INDEX
from model.packages.releases import ReleaseFile, Requirement


class ReleaseQuerySchema(StrictSchema):
    """Selects the index that serves a release."""

    index = fields.String(
        load_default=DEFAULT_INDEX,
        validate=validate.Length(1, 500),
        metadata={"description": "Name of the index that serves it.", "example": "pypi"},
    )


class ReleasePageQuerySchema(ReleaseQuerySchema, PageQuerySchema):
    """Selects the index that serves a release, and a page of a list."""


RequirementSchema = schema_of("Requirement", Requirement)
VersionDocumentSchema = schema_of("VersionDocument", VersionDetail, base=FreshnessSchema)
FileItemSchema = schema_of(
    "FileItem", ReleaseFile, listed=flag("Whether the index still lists it.")
)
FilePageSchema = page_of("FilePage", FileItemSchema)


blueprint = Resources("releases", __name__, description="Releases of packages.")

_FILES = Cursor("files", {"file.filename": str})
_VULNERABILITIES = Cursor("release-vulnerabilities", {"vulnerability_id": str})


@blueprint.route("/packages/<string:name>/versions/<string:version>")
class ReleaseResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ReleaseQuerySchema, location="query")
    @blueprint.response(200, VersionDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """Get one release."""
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            release = version_detail(connection, purl)
        if release is None:
            raise not_found("release", f"{name}=={version}")
        return {**members(release), **freshness(progress)}


@blueprint.route("/packages/<string:name>/versions/<string:version>/files")
class FilesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ReleasePageQuerySchema, location="query")
    @blueprint.response(200, FilePageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """List the files of a release by name, including those no longer listed by the index."""
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            find = partial(browse_files, connection, purl)
            files = page(query, _FILES, find, progress)
        items = [{**members(it.file), "listed": it.listed} for it in files["items"]]
        return {**files, "items": items}


@blueprint.route("/packages/<string:name>/versions/<string:version>/vulnerabilities")
class ReleaseVulnerabilitiesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ReleasePageQuerySchema, location="query")
    @blueprint.response(200, VulnerabilityPageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """List the vulnerabilities that affect a release."""
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            selection = VulnerabilityFilter(purl=purl)
            return vulnerability_page(query, _VULNERABILITIES, connection, selection, progress)


def _purl(connection: Connection, name: str, version: str, index: str) -> str:
    purl = purl_of(connection, package_name(name), version, index)
    if purl is None:
        raise not_found("release", f"{name}=={version}", index=index)
    return purl
