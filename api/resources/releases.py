"""Releases: what each requires, its files, and what affects it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from flask.views import MethodView
from sqlalchemy import Connection

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, members, package_name, reading
from api.schemas.packages import (
    FilePageSchema,
    ReleasePageQuerySchema,
    VersionDocumentSchema,
    VersionQuerySchema,
)
from api.schemas.vulnerabilities import VulnerabilityPageSchema
from common.environments import Environment, environment
from common.releases import Requirement
from graph.compilation import Compiler, Refused
from graph.record.release_details import browse_files, purl_of, version_detail
from graph.record.tokens import Scope
from graph.record.vulnerabilities import VulnerabilityFilter, browse_vulnerabilities

blueprint = Resources("releases", __name__, description="Releases of packages.")

_FILES = Cursor("files", {"file.filename": str})
_HARMS = Cursor("release-vulnerabilities", {"vulnerability_id": str})
#: What an interpreter without a platform is taken to run on.
_PLATFORM = "linux_x86_64"


@blueprint.route("/packages/<string:name>/versions/<string:version>")
class ReleaseResource(MethodView):
    """One release."""

    @needs(Scope.READ)
    @blueprint.arguments(VersionQuerySchema, location="query")
    @blueprint.response(200, VersionDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """Say what is known of a release, and which of its requirements hold somewhere."""
        where = _environment(query)
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            found = version_detail(connection, purl)
        if found is None:
            raise not_found("release", f"{name}=={version}")
        return {
            **members(found),
            "read_at": found.as_of,
            "environment": None if where is None else where.label,
            "requirements": list(_evaluated(found.requirements, where, query.get("extras", ()))),
            **freshness(progress),
        }


@blueprint.route("/packages/<string:name>/versions/<string:version>/files")
class FilesResource(MethodView):
    """FilesResource of a release."""

    @needs(Scope.READ)
    @blueprint.arguments(ReleasePageQuerySchema, location="query")
    @blueprint.response(200, FilePageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """List the files of a release by name, with those that are offered no more."""
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            find = partial(browse_files, connection, purl)
            found = page(query, _FILES, find, progress)
        files = [{**members(it.file), "listed": it.listed} for it in found["items"]]
        return {**found, "items": files}


@blueprint.route("/packages/<string:name>/versions/<string:version>/vulnerabilities")
class HarmsResource(MethodView):
    """Vulnerabilities of a release."""

    @needs(Scope.READ)
    @blueprint.arguments(ReleasePageQuerySchema, location="query")
    @blueprint.response(200, VulnerabilityPageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """List the vulnerabilities that affect a release."""
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            find = partial(browse_vulnerabilities, connection, VulnerabilityFilter(purl=purl))
            return page(query, _HARMS, find, progress)


def _purl(connection: Connection, name: str, version: str, index: str) -> str:
    purl = purl_of(connection, package_name(name), version, index)
    if purl is None:
        raise not_found("release", f"{name}=={version}", index=index)
    return purl


def _environment(query: dict[str, Any]) -> Environment | None:
    if not {"python_version", "platform", "extras"} & query.keys():
        return None
    return environment(query.get("python_version"), query.get("platform", _PLATFORM))


def _evaluated(
    requirements: Iterable[Requirement], where: Environment | None, extras: Iterable[str]
) -> Iterable[dict[str, Any]]:
    compiler = None if where is None else Compiler(where)
    asked = ("", *map(package_name, extras))
    for it in requirements:
        yield {**members(it), "applies": compiler and _applies(it, compiler, asked)}


def _applies(it: Requirement, compiler: Compiler, extras: Iterable[str]) -> bool | None:
    """Whether a requirement holds without an extra, or with one of these."""
    if it.name is None or it.marker is None:
        return None if it.name is None else True
    try:
        return any(compiler.holds(it.marker, extra) for extra in extras)
    except Refused:
        return None
