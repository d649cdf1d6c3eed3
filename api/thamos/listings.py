"""What the ``thamos`` client lists: systems, indexes, modules and images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from flask import current_app
from marshmallow import Schema, fields, validate
from packaging.utils import canonicalize_name

from api.authentication import needs
from api.errors import ApiError, ProblemType
from api.index_policy import public_indexes
from api.request_context import reading
from api.routes import Routes
from api.schema_fields import LAST_PAGE, LenientSchema
from api.service import service
from common.index.configuration import configured_indexes
from common.packages import DEFAULT_INDEX
from graph.record.hardware import known_systems
from graph.record.native import ImageFilter, KnownImage, known_images, providers_of
from graph.record.release_details import VersionHead, browse_versions
from graph.record.tokens import Scope


class SystemSchema(Schema):
    """An operating system and a Python."""

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
    """Indexes that are read."""

    indexes = fields.List(fields.Nested(PackageIndexSchema), required=True)


class ImportQuerySchema(LenientSchema):
    """Which module is asked for."""

    import_name = fields.String(required=True, validate=validate.Length(1, 500))


class ProviderSchema(Schema):
    """A release that has a module."""

    package_name = fields.String(required=True)
    package_version = fields.String(required=True)
    package_import = fields.String(required=True)
    index_url = fields.String(required=True)


class ImportsSchema(Schema):
    """Releases that have a module."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    package_names = fields.List(fields.Nested(ProviderSchema), required=True)


class ImageQuerySchema(LenientSchema):
    """Which images are asked for."""

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
    """A page of images; the one past the last is empty."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    container_images = fields.List(fields.Nested(ImageSchema), required=True)


blueprint = Routes("listings", __name__, url_prefix="/api/v1", description="What is known.")

#: Images on a page.
_PAGE = 25


@blueprint.route("/python/environment")
@needs(Scope.READ)
@blueprint.response(200, EnvironmentsSchema)
def environments() -> dict[str, Any]:
    """List the systems and Pythons that something was measured on."""
    with reading() as (connection, _):
        return {"environment": known_systems(connection)}


@blueprint.route("/python-package-index")
@needs(Scope.READ)
@blueprint.response(200, IndexesSchema)
def indexes() -> dict[str, Any]:
    """List the package indexes that this service reads."""
    known = configured_indexes(service().settings).values()
    return {
        "indexes": [
            {
                "url": it.url,
                "verify_ssl": it.url.startswith("https:"),
                "only_if_package_seen": True,
            }
            for it in known
            if not it.is_local
        ]
    }


@blueprint.route("/python/imports")
@needs(Scope.READ)
@blueprint.arguments(ImportQuerySchema, location="query")
@blueprint.response(200, ImportsSchema)
def imports(query: dict[str, str]) -> dict[str, Any]:
    """List the packages whose wheels have a module.

    Wheels are known by their top-level modules, so that all below one is asked for with it.
    """
    asked = query["import_name"]
    module = asked.partition(".")[0]
    with reading() as (connection, _):
        found = providers_of(connection, module)
        if not found:
            name = canonicalize_name(module)
            raise _no_provider(asked, browse_versions(connection, name, limit=1))
    urls = public_indexes(service().settings)
    return {
        "parameters": query,
        "package_names": [
            {
                "package_name": it.name,
                "package_version": it.version,
                "package_import": it.module,
                "index_url": urls.get(it.index, ""),
            }
            for it in found
        ],
    }


def _no_provider(asked: str, alike: Sequence[VersionHead]) -> ApiError:
    """That no wheel is known to have a module, and what would make one known.

    :param alike: the newest release of a package that is called like the module, if there is one
    """
    wanted = "NAME==VERSION"
    for it in alike:
        elsewhere = "" if it.index == DEFAULT_INDEX else f" --index {it.index}"
        wanted = f"{it.name}=={it.version}{elsewhere}"
    detail = (
        f"no wheel that was analysed has a module {asked!r}: whoever runs the service adds the "
        f"modules of a wheel by `thoth analyze wheel {wanted} --ingest`"
    )
    return ApiError(404, ProblemType.NOT_FOUND, detail)


@blueprint.route("/container-images")
@needs(Scope.READ)
@blueprint.arguments(ImageQuerySchema, location="query")
@blueprint.response(200, ImagesSchema)
def images(query: dict[str, Any]) -> dict[str, Any]:
    """List the container images that were analysed, page by page until one is empty."""
    page = query["page"]
    # What is known of images is native libraries; nothing else of them can be met.
    other = {"python_version", "cuda_version", "package_name", "rpm_package_name"}
    wanted = ImageFilter(
        query.get("os_name"),
        query.get("os_version"),
        query.get("image_name"),
        query.get("library_name"),
        query.get("symbol"),
    )
    with reading() as (connection, _):
        found = [] if other & query.keys() else known_images(
            connection, wanted, offset=page * _PAGE, limit=_PAGE
        )  # fmt: skip
    return {"parameters": query, "container_images": [_image(it) for it in found]}


def _image(it: KnownImage) -> dict[str, Any]:
    name, tag = _named(it.name)
    return {
        "datetime": it.analysed_at.isoformat(timespec="seconds"),
        "environment_type": "RUNTIME",
        "environment_name": it.name,
        "image_analysis_url": "",
        "package_extract_document_id": it.document_id,
        "quay_repo_url": "",
        "env_image_name": name,
        "env_image_tag": tag or None,
        "image_sha": it.digest,
        "os_name": it.os_name,
        "os_version": it.os_version,
        "python_version": None,
        "cuda_version": None,
        "thoth_image_name": name,
        "thoth_image_version": tag or None,
    }


def _named(image: str) -> tuple[str, str]:
    """Name and tag of an image, the latter empty without one.

    >>> _named("registry.example:5000/py:v1"), _named("registry.example:5000/py@sha256:1f")
    (('registry.example:5000/py', 'v1'), ('registry.example:5000/py', ''))
    """
    whole = image.partition("@")[0]
    place, slash, last = whole.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{place}{slash}{name}", tag


discovery_routes = Routes("discovery", __name__, url_prefix="/api/v1", description="What there is.")


@discovery_routes.route("")
@discovery_routes.response(200, description="The paths of version 1.")
def paths() -> dict[str, list[str]]:
    """List the paths of version 1; the headers say which release answers."""
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
    """Say that images are analysed by whoever runs the service."""
    detail = (
        f"no analysis is called {analysis_id!r}: images are analysed by `thoth analyze image`, "
        "and listed by /api/v1/container-images"
    )
    raise ApiError(404, ProblemType.NOT_FOUND, detail)
