"""Packages, their releases and events, and requests to fetch packages."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate

from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    StrictSchema,
    choice,
    count,
    described,
    filter_choice,
    filter_text,
    flag,
    json_object,
    moment,
    text,
    texts,
)
from api.resources.accepted_requests import (
    ForceQuerySchema,
    RequestSchema,
    submit_request,
)
from api.resources.base import Resources, filters, members, package_name
from api.service import service
from common.index.configuration import index_of
from graph.record.analyses import AnalysisKind
from graph.record.indexes import KINDS, browse_events
from graph.record.modules import PackageModule, modules_of, releases_without_names
from graph.record.packages import browse_packages, package_detail
from graph.record.release_queries import browse_versions
from graph.record.tokens import Scope
from ingest.crawl.runs import wanted_packages
from model.packages.project_pages import ProjectState
from model.packages.releases import ReleaseState

_STATES = [it.value for it in ReleaseState]


class PackageQuerySchema(PageQuerySchema):
    """Filters for packages."""

    like = filter_text("Part of the name.", "flask")
    index = filter_text("Name of an index that serves the package.", "pypi")


class PackageItemSchema(Schema):
    """A package in a list."""

    name = text("Normalised name.", "flask")
    versions = count("Number of known versions on all indexes.", 6)
    indexes = texts("Indexes that serve the package.", ["pypi"])


class PackagePageSchema(PageSchema):
    """Packages, ordered by name."""

    items = fields.List(fields.Nested(PackageItemSchema), required=True)


class IndexAnswerSchema(Schema):
    """The last answer of an index about the package."""

    index = text("Name of the index.", "pypi")
    state = choice("Whether the index has the package.", ["known", "missing", "failed"])
    as_of = moment("When the index last answered; null if it never did.", null=True)
    problem = text("Why the request failed, as a code.", null=True)
    message = text("Why the request failed, for people.", null=True)
    status = choice(
        "State of the project on the index (PEP 792); null if unknown.",
        [it.value for it in ProjectState],
        null=True,
    )
    status_reason = text("Reason for that state, from the index.", null=True)


class PackageDocumentSchema(FreshnessSchema, PackageItemSchema):
    """One package."""

    revision = text("Digest of the package data that advice depends on.", null=True)
    document_id = text("First document that names the package.")
    answers = fields.List(fields.Nested(IndexAnswerSchema), required=True)


class VersionsQuerySchema(PageQuerySchema):
    """Filters for the releases of a package."""

    index = filter_text("Name of the index that serves the release.", "pypi")


class VersionItemSchema(Schema):
    """A release in a list."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Normalised name.", "flask")
    version = text("Normalised version.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known about it; only solved releases are recommended.", _STATES)
    yanked = flag("Whether the release is yanked.")
    uploaded_at = moment("When its first file was uploaded.", null=True)
    requires_python = text("Specifier of supported Python versions.", ">=3.9", null=True)
    vulnerabilities = count(
        "Number of vulnerabilities that affect it; null if no advisories were read.", 0, null=True
    )


class VersionsPageSchema(PageSchema):
    """Releases, newest first."""

    items = fields.List(fields.Nested(VersionItemSchema), required=True)


class ModuleItemSchema(Schema):
    """An importable module of a package."""

    module = text("Dotted name of the module.", "google.protobuf")
    releases = count("Number of releases that provide it.", 6)
    oldest = text("The oldest version that provides it.", "3.20.0")
    newest = text("The newest version that provides it.", "6.33.0")


class ModulesPageSchema(PageSchema):
    """Importable modules, ordered by name."""

    items = fields.List(fields.Nested(ModuleItemSchema), required=True)
    releases = count("Number of releases whose modules are known.", 6)
    unknown_releases = count("Number of releases that were read, but whose modules are not known.")


class EventQuerySchema(PageQuerySchema):
    """Filters for events."""

    package = filter_text("Name of a package.", "flask")
    index = filter_text("Name of an index.", "pypi")
    kind = filter_choice("AnalysisKind of event.", list(KINDS))


class EventItemSchema(Schema):
    """A change in a package index."""

    event_id = count("Identifier; later events have larger ones.", 17)
    kind = choice("AnalysisKind of event.", list(KINDS))
    index = text("Name of the index.", "pypi")
    name = text("Name of the package.", "flask")
    version = text("Version; empty if the event concerns the whole project.", "3.1.2")
    detail = json_object("Details, depending on the kind.")
    occurred_at = moment("When the change was noticed.")


class EventPageSchema(PageSchema):
    """Events, newest first."""

    items = fields.List(fields.Nested(EventItemSchema), required=True)


class FetchSchema(StrictSchema):
    """Packages to fetch, with their dependencies."""

    requirements = fields.List(
        fields.String(validate=validate.Length(1, 500)),
        required=True,
        validate=validate.Length(1, 100),
        metadata=described("Names, optionally with extras and a specifier.", ["flask>=3"]),
    )
    index = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 200),
        metadata=described("Name of a configured index; default: the default index.", "pypi"),
    )
    prereleases = fields.Boolean(
        load_default=False,
        metadata=described("Fetch pre-releases even if there are other releases.", False),
    )


blueprint = Resources(
    "packages", __name__, description="Known packages, their releases and events."
)

_PACKAGES = Cursor("packages", {"name": str})
_VERSIONS = Cursor("versions", {"version": str, "index": str})
_MODULES = Cursor("modules", {"module": str})
_EVENTS = Cursor("events", {"event_id": int})


@blueprint.route("/packages")
class PackagesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(PackageQuerySchema, location="query")
    @blueprint.response(200, PackagePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List known packages: those with releases, and those that releases require."""
        parameters = filters(query)
        if "like" in parameters:
            parameters["like"] = package_name(parameters["like"])
        with reading() as (connection, progress):
            find = partial(browse_packages, connection, **parameters)
            return page(query, _PACKAGES, find, progress)


@blueprint.route("/packages/<string:name>")
class PackageResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, PackageDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, name: str) -> dict[str, Any]:
        """Get one package."""
        with reading() as (connection, progress):
            package = package_detail(connection, package_name(name))
        if package is None:
            raise not_found("package", name)
        return {**members(package), **freshness(progress)}


@blueprint.route("/packages/<string:name>/versions")
class VersionsResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(VersionsQuerySchema, location="query")
    @blueprint.response(200, VersionsPageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str) -> dict[str, Any]:
        """List the releases of a package, newest first."""
        package = package_name(name)
        with reading() as (connection, progress):
            if package_detail(connection, package) is None:
                raise not_found("package", name)
            find = partial(browse_versions, connection, package, **filters(query))
            return page(query, _VERSIONS, find, progress)


@blueprint.route("/packages/<string:name>/modules")
class ModulesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(PageQuerySchema, location="query")
    @blueprint.response(200, ModulesPageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str) -> dict[str, Any]:
        """List the importable modules of a package, such as `yaml` of `pyyaml`, by name.

        A namespace above other modules, such as `google`, is left out.
        """
        package = package_name(name)
        with reading() as (connection, progress):
            if package_detail(connection, package) is None:
                raise not_found("package", name)
            known = modules_of(connection, package)
            unknown = releases_without_names(connection, package)

            def find(after: str | None, limit: int) -> list[PackageModule]:
                following = (it for it in known.modules if after is None or it.module > after)
                return list(islice(following, limit))

            listed = page(query, _MODULES, find, progress)
        return {**listed, "releases": known.releases, "unknown_releases": unknown}


@blueprint.route("/events")
class EventsResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(EventQuerySchema, location="query")
    @blueprint.response(200, EventPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List changes in indexes, such as new or yanked releases; newest first."""
        with reading() as (connection, progress):
            find = partial(browse_events, connection, **filters(query))
            return page(query, _EVENTS, find, progress)


fetch_routes = Resources("fetches", __name__, description="Requests to fetch packages.")


@fetch_routes.route("/packages")
class FetchesResource(MethodView):
    @needs(Scope.INGEST)
    @fetch_routes.arguments(ForceQuerySchema, location="query")
    @fetch_routes.arguments(FetchSchema)
    @fetch_routes.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Request that packages and their dependencies are fetched from a configured index."""
        index = index_of(service().settings, body["index"]).name
        wanted_packages(
            body["requirements"]
        )  # rejects invalid requirements before anything is stored
        request = {**body, "index": index}
        return submit_request(AnalysisKind.FETCH, request, force=query.get("force", False))
