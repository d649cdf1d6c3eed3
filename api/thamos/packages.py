"""Package data below ``/api/v1``, for clients of the original service other than ``thamos``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flask import redirect
from marshmallow import Schema, fields, validate
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from sqlalchemy import Connection

from api.authentication import needs
from api.errors import ApiError, ProblemType, not_found
from api.index_policy import public_indexes
from api.request_context import reading
from api.routes import Routes
from api.schema_fields import LAST_PAGE, LenientSchema
from api.service import service
from api.thamos.listings import SystemSchema
from api.thamos.request_adapter import MACHINES, environment_of
from api.thamos.requests import CapitalBoolean
from common.index.configuration import configured_indexes
from common.releases import ReleaseState, Requirement
from graph.candidate_builder import CandidateBuilder, NotACandidate
from graph.record.hardware import known_systems
from graph.record.packages import package_names
from graph.record.release_queries import (
    VersionDetail,
    browse_versions,
    purl_of,
    version_detail,
)
from graph.record.tokens import Scope

_NAME = validate.Length(1, 500)


class _Where(LenientSchema):
    os_name = fields.String(validate=_NAME)
    os_version = fields.String(validate=_NAME)
    python_version = fields.String(validate=_NAME)


class PackageNameQuerySchema(_Where):
    """Selects packages and a page; pages count from 0."""

    page = fields.Integer(load_default=0, validate=validate.Range(0, LAST_PAGE))
    per_page = fields.Integer(load_default=25, validate=validate.Range(1, 100))
    like = fields.String(validate=_NAME)


class PackageVersionsQuerySchema(_Where):
    """Selects a package."""

    name = fields.String(required=True, validate=_NAME)
    order_by = fields.String(validate=validate.OneOf(["ASC", "DESC"]))


class ReleaseQueryV1Schema(_Where):
    """Selects a release; the index is given by its URL or name."""

    name = fields.String(required=True, validate=_NAME)
    version = fields.String(required=True, validate=_NAME)
    index = fields.String(required=True, validate=_NAME)


class DependencyQuerySchema(ReleaseQueryV1Schema):
    """Selects dependencies of a release by their markers."""

    marker_evaluation_result = CapitalBoolean()


class PackageNameSchema(Schema):
    """A package."""

    package_name = fields.String(required=True)


class PackageNamesSchema(Schema):
    """A page of packages; the page after the last is empty."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    packages = fields.List(fields.Nested(PackageNameSchema), required=True)


class PackageVersionV1Schema(Schema):
    """A release."""

    package_name = fields.String(required=True)
    package_version = fields.String(required=True)
    index_url = fields.String(required=True)


class PackageVersionsV1Schema(Schema):
    """Releases of a package."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    versions = fields.List(fields.Nested(PackageVersionV1Schema), required=True)


class DependencyV1Schema(Schema):
    """One dependency of a release; `version` is a specifier."""

    name = fields.String(required=True)
    version = fields.String(required=True)
    extra = fields.String(required=True, allow_none=True)
    environment_marker = fields.String(required=True, allow_none=True)


class DependenciesV1Schema(Schema):
    """Dependencies of a release."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    dependencies = fields.List(fields.Nested(DependencyV1Schema), required=True)


class MetadataV1Schema(Schema):
    """Metadata of a release."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    metadata = fields.Dict(keys=fields.String(), required=True)


class SolvedEnvironmentsSchema(Schema):
    """Systems that can run a release."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    environments = fields.List(fields.Nested(SystemSchema), required=True)


class PlatformsSchema(Schema):
    """Platforms for which advice can be requested."""

    platform = fields.List(fields.String(), required=True)


blueprint = Routes("packages", __name__, url_prefix="/api/v1", description="Packages.")

#: More versions than any package has on all indexes together.
_ALL = 100_000


@blueprint.route("/python/package")
@needs(Scope.READ)
@blueprint.arguments(PackageNameQuerySchema, location="query")
@blueprint.response(200, PackageNamesSchema)
def list_names(query: dict[str, Any]) -> dict[str, Any]:
    """List the known packages, whatever the system; the page after the last is empty."""
    like = query.get("like")
    with reading() as (connection, _):
        names = package_names(
            connection,
            like=None if like is None else canonicalize_name(like),
            offset=query["page"] * query["per_page"],
            limit=query["per_page"],
        )
    return {"parameters": query, "packages": [{"package_name": it} for it in names]}


@blueprint.route("/python/package/versions")
@needs(Scope.READ)
@blueprint.arguments(PackageVersionsQuerySchema, location="query")
@blueprint.response(200, PackageVersionsV1Schema)
@blueprint.alt_response(404, "NOT_FOUND")
def versions(query: dict[str, Any]) -> dict[str, Any]:
    """List the versions of a package, newest first unless `order_by` is `ASC`."""
    with reading() as (connection, _):
        releases = browse_versions(connection, canonicalize_name(query["name"]), limit=_ALL)
    if not releases:
        raise not_found("package", query["name"])
    urls = public_indexes(service().settings)
    if query.get("order_by") == "ASC":
        releases.reverse()
    return {
        "parameters": query,
        "versions": [
            {
                "package_name": release.name,
                "package_version": release.version,
                "index_url": urls.get(release.index, ""),
            }
            for release in releases
        ],
    }


@blueprint.route("/python/package/dependencies")
@needs(Scope.READ)
@blueprint.arguments(DependencyQuerySchema, location="query")
@blueprint.response(200, DependenciesV1Schema)
@blueprint.alt_response(404, "NOT_FOUND")
def list_dependencies(query: dict[str, Any]) -> dict[str, Any]:
    """List the dependencies of a release: all, or those that apply or do not apply on a system."""
    expected = query.get("marker_evaluation_result")
    if expected is not None and not {"os_name", "os_version", "python_version"} <= query.keys():
        message = "marker_evaluation_result: needs os_name, os_version and python_version"
        raise ApiError(400, ProblemType.INVALID_REQUEST, message)
    with reading() as (connection, _):
        dependencies = list(_dependencies(_release(connection, query).requirements))
    if expected is not None:
        system = {"name": query["os_name"], "version": query["os_version"]}
        described = {"python_version": query["python_version"], "operating_system": system}
        compiler = CandidateBuilder(environment_of(described))
        dependencies = [it for it in dependencies if _holds(it, compiler) is expected]
    return {"parameters": query, "dependencies": dependencies}


@blueprint.route("/python/package/version/metadata")
@needs(Scope.READ)
@blueprint.arguments(ReleaseQueryV1Schema, location="query")
@blueprint.response(200, MetadataV1Schema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_metadata(query: dict[str, Any]) -> dict[str, Any]:
    """Get the metadata of a release, keyed by the names of core metadata fields."""
    with reading() as (connection, _):
        release = _release(connection, query)
    metadata = {
        "Name": release.name,
        "Version": release.version,
        "Requires-Python": release.requires_python,
        "Requires-Dist": [it.raw for it in release.requirements],
        "Provides-Extra": list(release.extras),
        "License": release.license,
    }
    return {"parameters": query, "metadata": metadata}


@blueprint.route("/python/package/version/environments")
@needs(Scope.READ)
@blueprint.arguments(ReleaseQueryV1Schema, location="query")
@blueprint.response(200, SolvedEnvironmentsSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def environments(query: dict[str, Any]) -> dict[str, Any]:
    """List known systems whose Python a release supports; none for an unsolved release."""
    with reading() as (connection, _):
        release = _release(connection, query)
        systems = known_systems(connection) if release.state == ReleaseState.SOLVED else []
    admitted = [it for it in systems if _admits(release.requires_python, it.python_version)]
    return {"parameters": query, "environments": admitted}


@blueprint.route("/python/platform")
@needs(Scope.READ)
@blueprint.response(200, PlatformsSchema)
def platforms() -> dict[str, Any]:
    """List the platforms for which advice can be requested."""
    return {"platform": [f"linux-{it}" for it in MACHINES]}


@blueprint.route("/openapi.json")
@blueprint.response(302, description="Where the description is.")
def openapi() -> Any:
    """Redirect to the OpenAPI document."""
    return redirect("/openapi.json")


@blueprint.route("/ui/")
@blueprint.response(302, description="Where the page is.")
def pages() -> Any:
    """Redirect to the page that shows the OpenAPI document."""
    return redirect("/docs")


def _release(connection: Connection, query: dict[str, Any]) -> VersionDetail:
    """Return the requested release.

    :raises ApiError: 404 if it is unknown
    """
    name = canonicalize_name(query["name"])
    index_url = query["index"].rstrip("/")
    indexes = configured_indexes(service().settings).items()
    index = next((key for key, it in indexes if it.url.rstrip("/") == index_url), index_url)
    purl = purl_of(connection, name, query["version"], index)
    release = None if purl is None else version_detail(connection, purl)
    if release is None:
        raise not_found("release", f"{name}=={query['version']}")
    return release


def _dependencies(requirements: Iterable[Requirement]) -> Iterator[dict[str, Any]]:
    """Return dependencies; a dependency of several extras is repeated for each of them."""
    for requirement in requirements:
        if requirement.name is not None:
            for extra in requirement.for_extras or (None,):
                yield {
                    "name": requirement.name,
                    "version": requirement.specifier or "*",
                    "extra": extra,
                    "environment_marker": requirement.marker,
                }


def _holds(dependency: dict[str, Any], compiler: CandidateBuilder) -> bool:
    marker = dependency["environment_marker"]
    try:
        return marker is None or compiler.holds(marker, dependency["extra"] or "")
    except NotACandidate:
        return False


def _admits(requires_python: str | None, python: str) -> bool:
    try:
        return SpecifierSet(requires_python or "").contains(python, prereleases=True)
    except InvalidSpecifier:  # installers ignore it, too
        return True
