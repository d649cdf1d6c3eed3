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
    choice,
    count,
    filter_text,
    flag,
    moment,
    page_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import Resources, members, package_name
from api.resources.vulnerabilities import VulnerabilityPageSchema, vulnerability_page
from graph.record.modules import ModuleProvider, module_providers
from graph.record.release_queries import (
    browse_files,
    purl_of,
    version_detail,
)
from graph.record.tokens import Scope
from graph.record.vulnerability_queries import VulnerabilityFilter
from model.packages.candidate_builder import CandidateBuilder, NotACandidate
from model.packages.environments import Environment, environment
from model.packages.identity import DEFAULT_INDEX
from model.packages.import_names import ImportSource, is_import_name
from model.packages.releases import ReleaseState, Requirement

#: Sources of the names of a release.
_SOURCES = [it.value for it in ImportSource]


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


class RequirementSchema(Schema):
    """One requirement of a release, as written and as parsed."""

    raw = text("The requirement as written.", 'colorama; platform_system == "Windows"')
    name = text("Name of the required package; null if it cannot be parsed.", null=True)
    specifier = text("Version specifier; empty for any version.", ">=3.1.2")
    marker = text("Environment marker; null if it always applies.", null=True)
    extras = texts("Extras of the required package.", [])
    for_extras = texts("Extras of this release that the marker names.", [])
    url = text("URL of a direct reference.", null=True)
    problem = text("Why it cannot be parsed.", null=True)
    applies = flag(
        "Whether it applies in the selected environment; null if none is selected or the marker"
        " cannot be evaluated.",
        null=True,
    )


class VersionDocumentSchema(FreshnessSchema, Schema):
    """One release on one index."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Normalised name.", "flask")
    version = text("Normalised version.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known about the release.", [it.value for it in ReleaseState])
    problem = text("Why it is not solved, as a code.", null=True)
    problem_message = text("Why it is not solved, for people.", null=True)
    requires_python = text("Specifier of supported Python versions.", ">=3.9", null=True)
    extras = texts("Extras that it provides.", ["async", "dotenv"])
    license = text("License in its metadata.", "BSD-3-Clause", null=True)
    yanked = flag("Whether the release is yanked.")
    yanked_reason = text("Why it is yanked.", null=True)
    uploaded_at = moment("When its first file was uploaded.", null=True)
    metadata_source = text("How its requirements were read.", "metadata-file", null=True)
    metadata_file = text("File that the metadata is from.", null=True)
    imports = texts("Names that it makes importable; null if unknown.", ["flask"], null=True)
    imports_source = choice("How these names were read.", _SOURCES, null=True)
    wheels = texts("Tag sets of its wheels.", ["py3-none-any"])
    has_sdist = flag("Whether there is a source distribution.", null=True)
    files_complete = flag("Whether all of its files are known.")
    document_id = text("Newest document about the release.")
    read_at = moment("When an index last served it.", null=True)
    environment = text(
        "Environment for which markers are evaluated.",
        "CPython 3.11 on manylinux_2_28_x86_64",
        null=True,
    )
    requirements = fields.List(fields.Nested(RequirementSchema), required=True)


ModuleProviderSchema = schema_of("ModuleProvider", ModuleProvider)


class ModuleDocumentSchema(FreshnessSchema, Schema):
    """An importable module, and the packages that provide it."""

    module = text("Dotted name.", "google.protobuf")
    providers = fields.List(fields.Nested(ModuleProviderSchema), required=True)


class FileItemSchema(Schema):
    """A file of a release; the first hash is never overwritten."""

    filename = text("Name of the file.", "flask-3.1.2-py3-none-any.whl")
    sha256 = text("SHA-256 in hexadecimal.", null=True)
    kind = choice("Kind of file.", ["wheel", "sdist", "other"])
    size_bytes = count("Size of the file.", 103308, null=True)
    requires_python = text("Specifier of supported Python versions.", null=True)
    yanked = flag("Whether the file is yanked.")
    yanked_reason = text("Why it is yanked.", null=True)
    uploaded_at = moment("When it was uploaded.", null=True)
    metadata_sha256 = text(
        "SHA-256 of the metadata file beside it; empty if that has no hash.", null=True
    )
    attested = flag("Whether the index offers attestations.", null=True)
    listed = flag("Whether the index still lists it.")


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
            "read_at": release.as_of,
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
