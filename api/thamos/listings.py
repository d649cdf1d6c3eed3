"""Listings for the ``thamos`` client: systems, indexes, modules and images."""

import platform
from collections.abc import Sequence
from typing import Any, NoReturn

from flask import current_app
from marshmallow import Schema, fields, validate
from packaging.utils import canonicalize_name, is_normalized_name

from api.access import needs, token
from api.health.checks import refuse_writes
from api.http.errors import ApiError, ProblemType
from api.http.openapi import Routes
from api.http.project_files import public_indexes
from api.http.request_context import reading
from api.http.schema_fields import LAST_PAGE, LenientSchema
from api.jobs import request_submission
from api.store_access import service
from graph.record.access import Scope
from graph.record.analyses import AnalysisKind
from graph.record.hardware import KnownSystem, known_systems
from graph.record.modules import providers_of
from graph.record.native import ImageFilter, KnownImage, known_images
from graph.record.release_queries import VersionHead, browse_versions
from model.packages.identity import DEFAULT_INDEX
from pis.amun.hardware import runtime_environment

#: How long a client waits for a package that is fetched: less than clients wait for an answer.
_FETCH_WAIT_S = 5.0


class SystemSchema(Schema):
    """An operating system and a Python version."""

    os_name = fields.String(required=True)
    os_version = fields.String(required=True)
    python_version = fields.String(required=True)


class EnvironmentsSchema(Schema):
    """Systems that are known."""

    environment = fields.List(fields.Nested(SystemSchema), required=True)


class PackageIndexSchema(Schema):
    """A package index."""

    url = fields.String(required=True)
    verify_ssl = fields.Boolean(required=True)
    only_if_package_seen = fields.Boolean(required=True)
    warehouse_api_url = fields.String(allow_none=True, dump_default=None)


class IndexesSchema(Schema):
    """The configured package indexes."""

    indexes = fields.List(fields.Nested(PackageIndexSchema), required=True)


class ImportQuerySchema(LenientSchema):
    """Selects a module."""

    import_name = fields.String(required=True, validate=validate.Length(1, 500))


class ProviderSchema(Schema):
    """A release that provides a module."""

    package_name = fields.String(required=True)
    package_version = fields.String(required=True)
    package_import = fields.String(required=True)
    index_url = fields.String(required=True)


class ImportsSchema(Schema):
    """Releases that provide a module."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    package_names = fields.List(fields.Nested(ProviderSchema), required=True)


class ImageQuerySchema(LenientSchema):
    """Filters for container images."""

    page = fields.Integer(load_default=0, validate=validate.Range(0, LAST_PAGE))
    os_name = fields.String()
    os_version = fields.String()
    python_version = fields.String()
    cuda_version = fields.String()
    image_name = fields.String()
    library_name = fields.String()
    symbol = fields.String()
    package_name = fields.String()
    rpm_package_name = fields.String()


class ImageSchema(Schema):
    """A container image."""

    datetime = fields.String(required=True)
    environment_type = fields.String(required=True, validate=validate.OneOf(["RUNTIME"]))
    image_analysis_url = fields.String(required=True)
    package_extract_document_id = fields.String(required=True)
    quay_repo_url = fields.String(required=True)
    cuda_version = fields.String(allow_none=True)
    env_image_name = fields.String(allow_none=True)
    env_image_tag = fields.String(allow_none=True)
    environment_name = fields.String(allow_none=True)
    image_sha = fields.String(allow_none=True)
    os_name = fields.String(allow_none=True)
    os_version = fields.String(allow_none=True)
    python_version = fields.String(allow_none=True)
    thoth_image_name = fields.String(allow_none=True)
    thoth_image_version = fields.String(allow_none=True)


class ImagesSchema(Schema):
    """A page of container images; the page after the last is empty."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    container_images = fields.List(fields.Nested(ImageSchema), required=True)


blueprint = Routes(
    "listings", __name__, url_prefix="/api/v1", description="Known systems and images."
)

#: Number of images on a page.
_PAGE = 25


@blueprint.route("/python/environment")
@needs(Scope.READ)
@blueprint.response(200, EnvironmentsSchema)
def environments() -> dict[str, Any]:
    """List this service's own system, and systems with measurements."""
    runtime = runtime_environment(platform.python_version())
    system = runtime["operating_system"]
    own = KnownSystem(system["name"], system["version"], runtime["python_version"])
    with reading() as (connection, _):
        return {"environment": [own, *(it for it in known_systems(connection) if it != own)]}


@blueprint.route("/python-package-index")
@needs(Scope.READ)
@blueprint.response(200, IndexesSchema)
def indexes() -> dict[str, Any]:
    """List the package indexes that this service reads."""
    urls = public_indexes(service().settings, anonymous=token() is None).values()
    return {
        "indexes": [
            {"url": url, "verify_ssl": url.startswith("https:"), "only_if_package_seen": True}
            for url in urls
        ]
    }


@blueprint.route("/python/imports")
@needs(Scope.READ)
@blueprint.arguments(ImportQuerySchema, location="query")
@blueprint.response(200, ImportsSchema)
def imports(query: dict[str, str]) -> dict[str, Any]:
    """List the releases that provide a module, according to the file names in their wheels.

    A release that contains the module `a` also provides `a.b`, unless `a` is a namespace of
    several projects. If none provides it and the client may have packages fetched, the package with
    its name is fetched first, for up to five seconds.
    """
    import_name = query["import_name"]
    module = canonicalize_name(import_name.partition(".")[0])
    with reading() as (connection, _):
        providers = providers_of(connection, import_name)
    if not providers and is_normalized_name(module) and request_submission.may_fetch():
        refuse_writes()
        wanted = {"index": DEFAULT_INDEX, "requirements": [module], "prereleases": False}
        analysis, _ = request_submission.submit(AnalysisKind.FETCH, wanted)
        request_submission.wait_for(analysis, _FETCH_WAIT_S)
    with reading() as (connection, _):
        providers = providers or providers_of(connection, import_name)
        if not providers:
            namesakes = browse_versions(connection, module, limit=1)
            raise _no_provider(import_name, namesakes)
    urls = public_indexes(service().settings, anonymous=token() is None)
    return {
        "parameters": query,
        "package_names": [
            {
                "package_name": provider.name,
                "package_version": provider.version,
                "package_import": provider.module,
                "index_url": urls.get(provider.index, ""),
            }
            for provider in providers
        ],
    }


def _no_provider(import_name: str, namesakes: Sequence[VersionHead]) -> ApiError:
    """Return the error for an unknown module, with the command that adds it.

    :param namesakes: newest release of the package with the module's name, if there is one
    """
    release = "NAME==VERSION"
    for namesake in namesakes:
        option = "" if namesake.index == DEFAULT_INDEX else f" --index {namesake.index}"
        release = f"{namesake.name}=={namesake.version}{option}"
    detail = (
        f"no release that was read provides the module {import_name!r}: the operator of the"
        f" service adds the modules of a wheel with `thoth analyze wheel {release} --ingest`"
    )
    return ApiError(404, ProblemType.NOT_FOUND, detail)


@blueprint.route("/container-images")
@needs(Scope.READ)
@blueprint.arguments(ImageQuerySchema, location="query")
@blueprint.response(200, ImagesSchema)
def images(query: dict[str, Any]) -> dict[str, Any]:
    """List analysed container images; pages count from 0, and the page after the last is empty."""
    page = query["page"]
    # Only native libraries of images are recorded, so these filters match nothing.
    unsupported = {"python_version", "cuda_version", "package_name", "rpm_package_name"}
    names = ("os_name", "os_version", "image_name", "library_name", "symbol")
    selection = ImageFilter(*map(query.get, names))
    with reading() as (connection, _):
        images = [] if unsupported & query.keys() else known_images(
            connection, selection, offset=page * _PAGE, limit=_PAGE
        )  # fmt: skip
    return {"parameters": query, "container_images": [_image_document(it) for it in images]}


def _image_document(image: KnownImage) -> dict[str, Any]:
    name, tag = _name_and_tag(image.name)
    return {
        "datetime": image.analysed_at.isoformat(timespec="seconds"),
        "environment_type": "RUNTIME",
        "environment_name": image.name,
        "image_analysis_url": "",
        "package_extract_document_id": image.document_id,
        "quay_repo_url": "",
        "env_image_name": name,
        "env_image_tag": tag or None,
        "image_sha": image.digest,
        "os_name": image.os_name,
        "os_version": image.os_version,
        "python_version": None,
        "cuda_version": None,
        "thoth_image_name": name,
        "thoth_image_version": tag or None,
    }


def _name_and_tag(image: str) -> tuple[str, str]:
    """Split an image reference into name and tag; a missing tag becomes an empty string.

    >>> _name_and_tag("registry.example:5000/py:v1"), _name_and_tag("host:5000/py@sha256:1f")
    (('registry.example:5000/py', 'v1'), ('host:5000/py', ''))
    """
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag


discovery_routes = Routes("discovery", __name__, url_prefix="/api/v1", description="Paths.")


@discovery_routes.route("")
@discovery_routes.response(200, description="The paths of version 1.")
def paths() -> dict[str, list[str]]:
    """List the paths of version 1; headers name the release of the service."""
    rules = {str(it.rule) for it in current_app.url_map.iter_rules()}
    return {"paths": sorted(it for it in rules if it.startswith("/api/v1/"))}


image_routes = Routes(
    "images", __name__, url_prefix="/api/v1/analyze", description="Analyses of images."
)


@image_routes.route("/<string:analysis_id>")
@image_routes.route("/<string:analysis_id>/status")
@image_routes.route("/<string:analysis_id>/log")
@needs(Scope.READ)
@image_routes.alt_response(404, "NOT_FOUND")
def image_analysis(analysis_id: str) -> NoReturn:
    """Answer 404: this service does not analyse images on request."""
    detail = (
        f"no analysis is called {analysis_id!r}: the operator analyses images with "
        "`thoth analyze image`, and /api/v1/container-images lists them"
    )
    raise ApiError(404, ProblemType.NOT_FOUND, detail)
