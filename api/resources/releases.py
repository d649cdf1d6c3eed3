"""Releases: their requirements, files and vulnerabilities."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    StrictSchema,
    filter_text,
    flag,
    page_of,
    schema_of,
    text,
)
from api.resources.base import Resources, members, package_name
from api.resources.vulnerabilities import VulnerabilityPageSchema, vulnerability_page
from graph.record.modules import ModuleProvider, module_providers
from graph.record.release_queries import VersionDetail, browse_files, purl_of, version_detail
from graph.record.tokens import Scope
from graph.record.vulnerability_queries import VulnerabilityFilter
from model.packages.candidate_builder import CandidateBuilder, NotACandidate
from model.packages.environments import Environment, environment
from model.packages.identity import DEFAULT_INDEX
from model.packages.import_names import is_import_name
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


class VersionQuerySchema(ReleaseQuerySchema):
    """Selects the index, and an environment for which markers are evaluated."""

    python_version = filter_text("Python version of the environment.", "3.11")
    platform = filter_text(
        "Platform of the environment; default `linux_x86_64`.", "manylinux_2_28_x86_64"
    )
    extras = fields.List(
        fields.String(validate=validate.Length(1, 100)),
        validate=validate.Length(max=50),
        metadata={"description": "Requested extras of the release.", "example": ["async"]},
    )


RequirementSchema = schema_of(
    "Requirement",
    Requirement,
    applies=flag(
        "Whether it applies in the selected environment; null if none is selected or the marker"
        " cannot be evaluated.",
        null=True,
    ),
)
VersionDocumentSchema = schema_of(
    "VersionDocument",
    VersionDetail,
    base=FreshnessSchema,
    environment=text(
        "Environment for which markers are evaluated.",
        "CPython 3.11 on manylinux_2_28_x86_64",
        null=True,
    ),
)
ModuleProviderSchema = schema_of("ModuleProvider", ModuleProvider)


class ModuleDocumentSchema(FreshnessSchema, Schema):
    """An importable module, and the packages that provide it."""

    module = text("Dotted name.", "google.protobuf")
    providers = fields.List(fields.Nested(ModuleProviderSchema), required=True)


FileItemSchema = schema_of(
    "FileItem", ReleaseFile, listed=flag("Whether the index still lists it.")
)
FilePageSchema = page_of("FilePage", FileItemSchema)


blueprint = Resources("releases", __name__, description="Releases of packages.")

_FILES = Cursor("files", {"file.filename": str})
_VULNERABILITIES = Cursor("release-vulnerabilities", {"vulnerability_id": str})
#: Platform of an environment that names none.
_PLATFORM = "linux_x86_64"


@blueprint.route("/packages/<string:name>/versions/<string:version>")
class ReleaseResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(VersionQuerySchema, location="query")
    @blueprint.response(200, VersionDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
        """Get one release, and which of its requirements apply in an environment."""
        where = _environment(query)
        with reading() as (connection, progress):
            purl = _purl(connection, name, version, query["index"])
            release = version_detail(connection, purl)
        if release is None:
            raise not_found("release", f"{name}=={version}")
        extras = query.get("extras", ())
        return {
            **members(release),
            "environment": None if where is None else where.label,
            "requirements": list(_evaluated(release.requirements, where, extras)),
            **freshness(progress),
        }


@blueprint.route("/modules/<string:module>")
class ModuleResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, ModuleDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, module: str) -> dict[str, Any]:
        """Get the packages that provide an importable module, such as `google.protobuf`."""
        if not is_import_name(module):
            raise not_found("module", module)
        with reading() as (connection, progress):
            providers = module_providers(connection, module)
        if not providers:
            raise not_found("module", module)
        return {
            "module": module,
            "providers": [members(it) for it in providers],
            **freshness(progress),
        }


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


def _environment(query: dict[str, Any]) -> Environment | None:
    if not {"python_version", "platform", "extras"} & query.keys():
        return None
    return environment(query.get("python_version"), query.get("platform", _PLATFORM))


def _evaluated(
    requirements: Iterable[Requirement], where: Environment | None, extras: Iterable[str]
) -> Iterable[dict[str, Any]]:
    compiler = None if where is None else CandidateBuilder(where)
    requested = ("", *map(package_name, extras))
    for requirement in requirements:
        applies = compiler and _applies(requirement, compiler, requested)
        yield {**members(requirement), "applies": applies}


def _applies(
    requirement: Requirement, compiler: CandidateBuilder, extras: Iterable[str]
) -> bool | None:
    """Whether a requirement applies with one of these extras; ``""`` means no extra."""
    if requirement.name is None or requirement.marker is None:
        return None if requirement.name is None else True
    try:
        return any(compiler.holds(requirement.marker, extra) for extra in extras)
    except NotACandidate:
        return None
