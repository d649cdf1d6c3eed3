"""PackagesResource, and what changed of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, package_name, reading
from api.schemas.packages import (
    EventPageSchema,
    EventQuerySchema,
    PackageDocumentSchema,
    PackagePageSchema,
    PackageQuerySchema,
    VersionsPageSchema,
    VersionsQuerySchema,
)
from graph.record.indexes import browse_events
from graph.record.packages import browse_packages, package_detail
from graph.record.release_details import browse_versions
from graph.record.tokens import Scope

blueprint = Resources("packages", __name__, description="Packages that are known.")

_PACKAGES = Cursor("packages", {"name": str})
_VERSIONS = Cursor("versions", {"version": str, "index": str})
_EVENTS = Cursor("events", {"event_id": int})


@blueprint.route("/packages")
class PackagesResource(MethodView):
    """PackagesResource."""

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
