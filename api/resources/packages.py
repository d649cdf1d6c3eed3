"""Packages, and what changed of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate

from api import analyses
from api.authentication import needs
from api.errors import not_found
from api.jobs.fetching import TASK
from api.jobs.queue import QueueJob, QueueName
from api.paging import Cursor, freshness, page
from api.request_context import reading
from api.resources.base import Resources, filters, members, package_name
from api.resources.requests import ForceQuerySchema, RequestSchema, accepted
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    StrictSchema,
    asked,
    asked_choice,
    choice,
    count,
    described,
    flag,
    free,
    moment,
    text,
    texts,
)
from api.service import service
from common.formats.json_documents import digest
from common.index.configuration import index_of
from common.releases import ReleaseState
from graph.record.analyses import AnalysisKind
from graph.record.indexes import KINDS, browse_events
from graph.record.packages import browse_packages, package_detail
from graph.record.release_details import browse_versions
from graph.record.tokens import Scope
from ingest.crawl.runs import roots_of

_STATES = [it.value for it in ReleaseState]


class PackageQuerySchema(PageQuerySchema):
    """Which packages are asked for."""

    like = asked("Part of a name.", "flask")
    index = asked("Name of an index that serves a version.", "pypi")


class PackageItemSchema(Schema):
    """A package in a list."""

    name = text("Name, normalised.", "flask")
    versions = count("Known versions, on all indexes together.", 6)
    indexes = texts("Indexes that serve one of them.", ["pypi"])


class PackagePageSchema(PageSchema):
    """Packages in the order of their names."""

    items = fields.List(fields.Nested(PackageItemSchema), required=True)


class IndexAnswerSchema(Schema):
    """What an index last said when it was asked for the package."""

    index = text("Name of the index.", "pypi")
    state = choice("What it said.", ["known", "missing", "failed"])
    as_of = moment("When it last answered; null if it never did.", null=True)
    problem = text("Why it failed: a code.", null=True)
    message = text("The same, for people.", null=True)


class PackageDocumentSchema(FreshnessSchema, PackageItemSchema):
    """A package."""

    revision = text("Digest of all that could change an answer about it.", null=True)
    document_id = text("The document that it was first seen in.")
    answers = fields.List(fields.Nested(IndexAnswerSchema), required=True)


class VersionsQuerySchema(PageQuerySchema):
    """Which releases are asked for."""

    index = asked("Only those that this index serves.", "pypi")


class VersionItemSchema(Schema):
    """A release in a list."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Name, normalised.", "flask")
    version = text("Version, normalised.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known; only a solved release is ever advised.", _STATES)
    yanked = flag("Whether the index withdrew it.")
    uploaded_at = moment("When it was uploaded.", null=True)
    requires_python = text("The interpreters that it is for.", ">=3.9", null=True)
    vulnerabilities = count("How many affect it.", 0)


class VersionsPageSchema(PageSchema):
    """Releases, newest first."""

    items = fields.List(fields.Nested(VersionItemSchema), required=True)


class EventQuerySchema(PageQuerySchema):
    """Which events are asked for."""

    package = asked("Name of a package.", "flask")
    index = asked("Name of an index.", "pypi")
    kind = asked_choice("What happened.", list(KINDS))


class EventItemSchema(Schema):
    """Something that changed in an index."""

    event_id = count("Grows with time.", 17)
    kind = choice("What happened.", list(KINDS))
    index = text("Name of the index.", "pypi")
    name = text("The package.", "flask")
    version = text("The version; empty where it is of the whole project.", "3.1.2")
    detail = free("What changed, by the kind of event.")
    occurred_at = moment("When it was noticed.")


class EventPageSchema(PageSchema):
    """Events, newest first."""

    items = fields.List(fields.Nested(EventItemSchema), required=True)


class FetchSchema(StrictSchema):
    """Packages that are to be read, with all that they need."""

    requirements = fields.List(
        fields.String(validate=validate.Length(1, 500)),
        required=True,
        validate=validate.Length(1, 100),
        metadata=described("Names, with extras and a specifier if need be.", ["flask>=3"]),
    )
    index = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 200),
        metadata=described("A configured index by name; else the default one.", "pypi"),
    )
    prereleases = fields.Boolean(
        load_default=False,
        metadata=described("Read pre-releases also where there are others.", False),
    )


blueprint = Resources("packages", __name__, description="Packages that are known.")

_PACKAGES = Cursor("packages", {"name": str})
_VERSIONS = Cursor("versions", {"version": str, "index": str})
_EVENTS = Cursor("events", {"event_id": int})


@blueprint.route("/packages")
class PackagesResource(MethodView):
    """Packages."""

    @needs(Scope.READ)
    @blueprint.arguments(PackageQuerySchema, location="query")
    @blueprint.response(200, PackagePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List the packages that are known: those with versions, and what these require."""
        asked = filters(query)
        if "like" in asked:
            asked["like"] = package_name(asked["like"])
        with reading() as (connection, progress):
            find = partial(browse_packages, connection, **asked)
            return page(query, _PACKAGES, find, progress)


@blueprint.route("/packages/<string:name>")
class PackageResource(MethodView):
    """One package."""

    @needs(Scope.READ)
    @blueprint.response(200, PackageDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, name: str) -> dict[str, Any]:
        """Say what is known of a package."""
        with reading() as (connection, progress):
            found = package_detail(connection, package_name(name))
        if found is None:
            raise not_found("package", name)
        return {**members(found), **freshness(progress)}


@blueprint.route("/packages/<string:name>/versions")
class VersionsResource(MethodView):
    """Releases of a package."""

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


@blueprint.route("/events")
class EventsResource(MethodView):
    """What changed in indexes."""

    @needs(Scope.READ)
    @blueprint.arguments(EventQuerySchema, location="query")
    @blueprint.response(200, EventPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List what changed in indexes, newest first: releases, yanks, hashes."""
        with reading() as (connection, progress):
            find = partial(browse_events, connection, **filters(query))
            return page(query, _EVENTS, find, progress)


fetch_routes = Resources("fetches", __name__, description="Packages asked for.")


@fetch_routes.route("/packages")
class FetchesResource(MethodView):
    """Packages asked for."""

    @needs(Scope.INGEST)
    @fetch_routes.arguments(ForceQuerySchema, location="query")
    @fetch_routes.arguments(FetchSchema)
    @fetch_routes.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask for packages, and all that they need, to be read from a configured index."""
        index = index_of(service().settings, body["index"]).name
        roots_of(body["requirements"])  # what names no package needs no worker to say so
        asked = {**body, "index": index}
        new = analyses.new_analysis(AnalysisKind.FETCH, asked, asked, digest(asked))
        job = QueueJob(TASK, QueueName.BULK, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))
