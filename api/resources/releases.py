"""Releases: what each requires, its files, and what affects it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.request_context import reading
from api.resources.base import Resources, members, package_name
from api.resources.vulnerabilities import VulnerabilityPageSchema
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    QuerySchema,
    asked,
    choice,
    count,
    flag,
    moment,
    text,
    texts,
)
from common.environments import Environment, environment
from common.packages import DEFAULT_INDEX
from common.releases import ReleaseState, Requirement
from graph.candidate_builder import CandidateBuilder, NotACandidate
from graph.record.release_details import browse_files, purl_of, version_detail
from graph.record.tokens import Scope
from graph.record.vulnerabilities import VulnerabilityFilter, browse_vulnerabilities


class ReleaseQuerySchema(QuerySchema):
    """Which index is meant."""

    index = fields.String(
        load_default=DEFAULT_INDEX,
        validate=validate.Length(1, 500),
        metadata={"description": "Name of the index that serves it.", "example": "pypi"},
    )


class ReleasePageQuerySchema(ReleaseQuerySchema, PageQuerySchema):
    """Which index is meant, and which page."""


class VersionQuerySchema(ReleaseQuerySchema):
    """Which index is meant, and where the release is to run."""

    python_version = asked("Evaluate markers for this interpreter.", "3.11")
    platform = asked(
        "Evaluate them for this platform; `linux_x86_64` if only an interpreter is named.",
        "manylinux_2_28_x86_64",
    )
    extras = fields.List(
        fields.String(validate=validate.Length(1, 100)),
        validate=validate.Length(max=50),
        metadata={"description": "Extras that are asked of it.", "example": ["async"]},
    )


class RequirementSchema(Schema):
    """One line of what a release requires, as it was written and as it is understood."""

    raw = text("As it was written.", 'colorama; platform_system == "Windows"')
    name = text("The required package; null if the line is no requirement.", null=True)
    specifier = text("Versions of it; empty for any.", ">=3.1.2")
    marker = text("Where it holds; null for everywhere.", null=True)
    extras = texts("Extras of the required package.", [])
    for_extras = texts("Extras of this release that its marker names.", [])
    url = text("Where a direct reference points.", null=True)
    problem = text("Why the line is no requirement.", null=True)
    applies = flag(
        "Whether it holds in the environment that was named; null if none was, or if that cannot"
        " be told.",
        null=True,
    )


class VersionDocumentSchema(FreshnessSchema, Schema):
    """One release as one index serves it."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Name, normalised.", "flask")
    version = text("Version, normalised.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known.", [it.value for it in ReleaseState])
    problem = text("Why it is not solved: a code.", null=True)
    problem_message = text("The same, for people.", null=True)
    requires_python = text("The interpreters that it is for.", ">=3.9", null=True)
    extras = texts("Extras that it offers.", ["async", "dotenv"])
    license = text("As its metadata says.", "BSD-3-Clause", null=True)
    yanked = flag("Whether the index withdrew it.")
    yanked_reason = text("Why.", null=True)
    uploaded_at = moment("When it was uploaded.", null=True)
    metadata_source = text("How its requirements were read.", "metadata-file", null=True)
    metadata_file = text("The file whose metadata that is.", null=True)
    wheels = texts("Tag sets of its wheels.", ["py3-none-any"])
    has_sdist = flag("Whether there is a source distribution.", null=True)
    files_complete = flag("Whether all of its files are known.")
    document_id = text("The document that spoke last.")
    read_at = moment("When an index spoke last.", null=True)
    environment = text(
        "What markers were evaluated for.", "CPython 3.11 on manylinux_2_28_x86_64", null=True
    )
    requirements = fields.List(fields.Nested(RequirementSchema), required=True)


class FileItemSchema(Schema):
    """A file of a release; the hash that was seen first is never overwritten."""

    filename = text("Its name.", "flask-3.1.2-py3-none-any.whl")
    sha256 = text("Hexadecimal digits.", null=True)
    kind = choice("What it is.", ["wheel", "sdist", "other"])
    size_bytes = count("Its size.", 103308, null=True)
    requires_python = text("The interpreters that it is for.", null=True)
    yanked = flag("Whether the index withdrew it.")
    yanked_reason = text("Why.", null=True)
    uploaded_at = moment("When it was uploaded.", null=True)
    metadata_sha256 = text("Of the metadata beside it; empty if that has no hash.", null=True)
    attested = flag("Whether the index offers attestations.", null=True)
    listed = flag("Whether the index offers it still.")


class FilePageSchema(PageSchema):
    """Files of a release, by name."""

    items = fields.List(fields.Nested(FileItemSchema), required=True)


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
    """Files of a release."""

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
    compiler = None if where is None else CandidateBuilder(where)
    asked = ("", *map(package_name, extras))
    for it in requirements:
        yield {**members(it), "applies": compiler and _applies(it, compiler, asked)}


def _applies(it: Requirement, compiler: CandidateBuilder, extras: Iterable[str]) -> bool | None:
    """Whether a requirement holds without an extra, or with one of these."""
    if it.name is None or it.marker is None:
        return None if it.name is None else True
    try:
        return any(compiler.holds(it.marker, extra) for extra in extras)
    except NotACandidate:
        return None
