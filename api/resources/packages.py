"""Packages, their releases with files, vulnerabilities, events, and requests to fetch packages."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from api.access import needs
from api.http.errors import not_found
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    StrictSchema,
    count,
    described,
    filter_choice,
    filter_text,
    flag,
    fresh,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.accepted_requests import ForceQuerySchema, RequestSchema, submit_request
from api.resources.base import (
    INDEX_NAME,
    Cursor,
    Resources,
    browse_page,
    filters,
    freshness,
    members,
    or_404,
    package_name,
    page,
)
from api.store_access import service
from common.index.configuration import index_of
from graph.record.access import Scope
from graph.record.analyses import AnalysisKind
from graph.record.freshness import KnowledgeState, knows_advisories
from graph.record.indexes import KINDS, IndexAnswer, RecordedEvent, browse_events
from graph.record.modules import PackageModule, modules_of, releases_without_names
from graph.record.packages import PackageDetail, PackageHead, browse_packages, package_detail
from graph.record.release_queries import (
    VersionDetail,
    VersionHead,
    browse_files,
    browse_versions,
    purl_of,
    version_detail,
)
from graph.record.vulnerabilities import (
    AdvisorySummary,
    KnownVersion,
    VulnerabilityFilter,
    VulnerabilityHead,
    advisories_about,
    affected_count,
    browse_affected,
    browse_vulnerabilities,
    packages_affected_by,
    vulnerability_named,
)
from ingest.crawl.runs import wanted_packages
from model.advisories import range_text
from model.packages.identity import DEFAULT_INDEX
from model.packages.releases import ReleaseFile, Requirement

VulnerabilityQuerySchema = query_of("VulnerabilityQuery", VulnerabilityFilter)
VulnerabilityItemSchema = schema_of("VulnerabilityItem", VulnerabilityHead)


class VulnerabilityPageSchema(PageSchema):
    """Vulnerabilities, ordered by identifier."""

    items = fields.List(
        fields.Nested(VulnerabilityItemSchema), required=True, allow_none=True,
        metadata={"description": "Null if no advisories were read: vulnerabilities are unknown."},
    )  # fmt: skip


AdvisoryItemSchema = schema_of("AdvisoryItem", AdvisorySummary)


class AffectedPackageSchema(Schema):
    """A package that the advisories name."""

    name = text("Normalised name.", "flask")
    ranges = texts("Affected ranges.", [">=2.3.0, <2.3.2"])
    versions = texts("Affected versions that advisories list, oldest first.", ["2.3.0", "2.3.1"])


VulnerabilityDocumentSchema = fresh(
    "VulnerabilityDocument",
    VulnerabilityItemSchema,
    advisories=fields.List(fields.Nested(AdvisoryItemSchema), required=True),
    packages=fields.List(fields.Nested(AffectedPackageSchema), required=True),
    affected_versions=count("Number of known releases that it affects.", 3),
)
ReleaseNameSchema = schema_of("ReleaseName", KnownVersion)
ReleaseNamePageSchema = page_of("ReleaseNamePage", ReleaseNameSchema)


vulnerability_routes = Resources("vulnerabilities", __name__, description="Known vulnerabilities.")

_ALL_VULNERABILITIES = Cursor("vulnerabilities", {"vulnerability_id": str})
_AFFECTED = Cursor("affected", {"purl": str})


def vulnerability_page(
    query: Mapping[str, Any],
    cursor: Cursor,
    connection: Connection,
    selection: VulnerabilityFilter,
    progress: KnowledgeState,
) -> dict[str, Any]:
    """A page of vulnerabilities; without items if no advisories were read."""
    listed = page(query, cursor, partial(browse_vulnerabilities, connection, selection), progress)
    return listed if knows_advisories(connection) else {**listed, "items": None}


@vulnerability_routes.route("/vulnerabilities")
@needs(Scope.READ)
@vulnerability_routes.arguments(VulnerabilityQuerySchema, location="query")
@vulnerability_routes.response(200, VulnerabilityPageSchema)
def get_vulnerabilities(query: dict[str, Any]) -> dict[str, Any]:
    """List vulnerabilities, ordered by identifier."""
    selection = VulnerabilityFilter(**filters(query))
    with reading() as (connection, progress):
        return vulnerability_page(query, _ALL_VULNERABILITIES, connection, selection, progress)


@vulnerability_routes.route("/vulnerabilities/<string:identifier>")
@needs(Scope.READ)
@vulnerability_routes.response(200, VulnerabilityDocumentSchema)
@vulnerability_routes.alt_response(404, "NOT_FOUND")
def get_vulnerability(identifier: str) -> dict[str, Any]:
    """Get one vulnerability by any of its identifiers."""
    with reading() as (connection, progress):
        vulnerability = or_404(
            vulnerability_named(connection, identifier), "vulnerability", identifier
        )
        return {
            **members(vulnerability),
            "advisories": advisories_about(connection, vulnerability.vulnerability_id),
            "packages": [
                {**members(it), "ranges": [range_text(events) for events in it.ranges]}
                for it in packages_affected_by(connection, vulnerability.vulnerability_id)
            ],
            "affected_versions": affected_count(connection, vulnerability.vulnerability_id),
            **freshness(progress),
        }


@vulnerability_routes.route("/vulnerabilities/<string:identifier>/versions")
@needs(Scope.READ)
@vulnerability_routes.arguments(PageQuerySchema, location="query")
@vulnerability_routes.response(200, ReleaseNamePageSchema)
@vulnerability_routes.alt_response(404, "NOT_FOUND")
def get_affected(query: dict[str, Any], identifier: str) -> dict[str, Any]:
    """List the known releases that a vulnerability affects."""
    with reading() as (connection, progress):
        vulnerability = or_404(
            vulnerability_named(connection, identifier), "vulnerability", identifier
        )
        find = partial(browse_affected, connection, vulnerability.vulnerability_id)
        return page(query, _AFFECTED, find, progress)


class PackageQuerySchema(PageQuerySchema):
    """Filters for packages."""

    like = filter_text("Part of the name.", "flask")
    index = filter_text("Name of an index that serves the package.", "pypi")


PackageItemSchema = schema_of("PackageItem", PackageHead)
PackagePageSchema = page_of("PackagePage", PackageItemSchema)
IndexAnswerSchema = schema_of("IndexAnswer", IndexAnswer)
PackageDocumentSchema = schema_of(
    "PackageDocument", PackageHead, PackageDetail, base=FreshnessSchema
)


class VersionsQuerySchema(PageQuerySchema):
    """Filters for the releases of a package."""

    index = filter_text("Name of the index that serves the release.", "pypi")


VersionItemSchema = schema_of("VersionItem", VersionHead)
VersionsPageSchema = page_of("VersionsPage", VersionItemSchema)
ModuleItemSchema = schema_of("ModuleItem", PackageModule)
ModulesPageSchema = page_of(
    "ModulesPage",
    ModuleItemSchema,
    releases=count("Number of releases whose modules are known.", 6),
    unknown_releases=count("Number of releases that were read, but whose modules are not known."),
)


class EventQuerySchema(PageQuerySchema):
    """Filters for events."""

    package = filter_text("Name of a package.", "flask")
    index = filter_text("Name of an index.", "pypi")
    kind = filter_choice("Kind of event.", list(KINDS))


EventItemSchema = schema_of("EventItem", RecordedEvent)
EventPageSchema = page_of("EventPage", EventItemSchema)


class FetchSchema(StrictSchema):
    """Packages to fetch, with their dependencies."""

    requirements = fields.List(
        fields.String(validate=validate.Length(1, 500)),
        required=True,
        validate=validate.Length(1, 100),
        metadata=described("Names, optionally with extras and a specifier.", ["flask>=3"]),
    )
    index = INDEX_NAME
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
@needs(Scope.READ)
@blueprint.arguments(PackageQuerySchema, location="query")
@blueprint.response(200, PackagePageSchema)
def get_packages(query: dict[str, Any]) -> dict[str, Any]:
    """List known packages: packages with releases, and packages that releases require."""
    parameters = filters(query)
    if "like" in parameters:
        parameters["like"] = package_name(parameters["like"])
    return browse_page(query, _PACKAGES, browse_packages, **parameters)


@blueprint.route("/packages/<string:name>")
@needs(Scope.READ)
@blueprint.response(200, PackageDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_package(name: str) -> dict[str, Any]:
    """Get one package."""
    with reading() as (connection, progress):
        package = or_404(package_detail(connection, package_name(name)), "package", name)
    return {**members(package), **freshness(progress)}


@blueprint.route("/packages/<string:name>/versions")
@needs(Scope.READ)
@blueprint.arguments(VersionsQuerySchema, location="query")
@blueprint.response(200, VersionsPageSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_versions(query: dict[str, Any], name: str) -> dict[str, Any]:
    """List the releases of a package, newest first."""
    package = package_name(name)
    with reading() as (connection, progress):
        or_404(package_detail(connection, package), "package", name)
        find = partial(browse_versions, connection, package, **filters(query))
        return page(query, _VERSIONS, find, progress)


@blueprint.route("/packages/<string:name>/modules")
@needs(Scope.READ)
@blueprint.arguments(PageQuerySchema, location="query")
@blueprint.response(200, ModulesPageSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_modules(query: dict[str, Any], name: str) -> dict[str, Any]:
    """List the importable modules of a package, such as `yaml` of `pyyaml`, by name.

    A namespace above other modules, such as `google`, is left out.
    """
    package = package_name(name)
    with reading() as (connection, progress):
        or_404(package_detail(connection, package), "package", name)
        known = modules_of(connection, package)
        unknown = releases_without_names(connection, package)

        def find(after: str | None, limit: int) -> list[PackageModule]:
            following = (it for it in known.modules if after is None or it.module > after)
            return list(islice(following, limit))

        listed = page(query, _MODULES, find, progress)
    return {**listed, "releases": known.releases, "unknown_releases": unknown}


@blueprint.route("/events")
@needs(Scope.READ)
@blueprint.arguments(EventQuerySchema, location="query")
@blueprint.response(200, EventPageSchema)
def get_events(query: dict[str, Any]) -> dict[str, Any]:
    """List changes in indexes, such as new or yanked releases; newest first."""
    return browse_page(query, _EVENTS, browse_events, **filters(query))


fetch_routes = Resources("fetches", __name__, description="Requests to fetch packages.")


@fetch_routes.route("/packages", methods=["POST"])
@needs(Scope.INGEST)
@fetch_routes.arguments(ForceQuerySchema, location="query")
@fetch_routes.arguments(FetchSchema)
@fetch_routes.response(202, RequestSchema)
def post_fetches(query: dict[str, Any], body: dict[str, Any]) -> Any:
    """Request that packages and their dependencies are fetched from a configured index."""
    index = index_of(service().settings, body["index"]).name
    # Rejects invalid requirements before anything is stored.
    wanted_packages(body["requirements"])
    request = {**body, "index": index}
    return submit_request(AnalysisKind.FETCH, request, force=query.get("force", False))


class ReleaseQuerySchema(StrictSchema):
    """Selects the index that serves a release."""

    index = filter_text("Name of the index that serves it.", "pypi", load_default=DEFAULT_INDEX)


class ReleasePageQuerySchema(ReleaseQuerySchema, PageQuerySchema):
    """Selects the index that serves a release, and a page of a list."""


RequirementSchema = schema_of("Requirement", Requirement)
VersionDocumentSchema = schema_of("VersionDocument", VersionDetail, base=FreshnessSchema)
FileItemSchema = schema_of(
    "FileItem", ReleaseFile, listed=flag("Whether the index still lists it.")
)
FilePageSchema = page_of("FilePage", FileItemSchema)


release_routes = Resources("releases", __name__, description="Releases of packages.")

_FILES = Cursor("files", {"file.filename": str})
_VULNERABILITIES = Cursor("release-vulnerabilities", {"vulnerability_id": str})


@release_routes.route("/packages/<string:name>/versions/<string:version>")
@needs(Scope.READ)
@release_routes.arguments(ReleaseQuerySchema, location="query")
@release_routes.response(200, VersionDocumentSchema)
@release_routes.alt_response(404, "NOT_FOUND")
def get_release(query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
    """Get one release."""
    with reading() as (connection, progress):
        purl = _purl(connection, name, version, query["index"])
        release = or_404(version_detail(connection, purl), "release", f"{name}=={version}")
    return {**members(release), **freshness(progress)}


@release_routes.route("/packages/<string:name>/versions/<string:version>/files")
@needs(Scope.READ)
@release_routes.arguments(ReleasePageQuerySchema, location="query")
@release_routes.response(200, FilePageSchema)
@release_routes.alt_response(404, "NOT_FOUND")
def get_files(query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
    """List the files of a release by name, including files that the index no longer lists."""
    with reading() as (connection, progress):
        purl = _purl(connection, name, version, query["index"])
        find = partial(browse_files, connection, purl)
        files = page(query, _FILES, find, progress)
    items = [{**members(it.file), "listed": it.listed} for it in files["items"]]
    return {**files, "items": items}


@release_routes.route("/packages/<string:name>/versions/<string:version>/vulnerabilities")
@needs(Scope.READ)
@release_routes.arguments(ReleasePageQuerySchema, location="query")
@release_routes.response(200, VulnerabilityPageSchema)
@release_routes.alt_response(404, "NOT_FOUND")
def get_release_vulnerabilities(query: dict[str, Any], name: str, version: str) -> dict[str, Any]:
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
