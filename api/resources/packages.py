"""Packages, and what changed of them."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api.errors import not_found
from api.paging import Cursor, freshness, only, page
from api.resources.base import Resources, members, package_name, reading
from api.schemas import packages as schemas
from api.security import needs
from graph.repositories import browse_events, browse_packages
from graph.repositories.tokens import Scope

blueprint = Resources("packages", __name__, description="Packages that are known.")

_PACKAGES = Cursor("packages", (str,))
_VERSIONS = Cursor("versions", (str, str))
_EVENTS = Cursor("events", (int,))


@blueprint.route("/packages")
class Packages(MethodView):
    """Packages."""

    @needs(Scope.READ)
    @blueprint.arguments(schemas.PackageQuery, location="query")
    @blueprint.response(200, schemas.PackagePage)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List the packages that are known: those with versions, and what these require."""
        like = query.get("like")
        with reading() as (connection, progress):
            return page(
                query,
                _PACKAGES,
                lambda after, limit: browse_packages.browse_packages(
                    connection,
                    like=None if like is None else package_name(like),
                    index=query.get("index"),
                    after=only(after),
                    limit=limit,
                ),
                lambda it: (it.name,),
                progress,
            )


@blueprint.route("/packages/<string:name>")
class Package(MethodView):
    """One package."""

    @needs(Scope.READ)
    @blueprint.response(200, schemas.PackageDocument)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, name: str) -> dict[str, Any]:
        """Say what is known of a package."""
        with reading() as (connection, progress):
            found = browse_packages.package_detail(connection, package_name(name))
        if found is None:
            raise not_found("package", name)
        return {**members(found), **freshness(progress)}


@blueprint.route("/packages/<string:name>/versions")
class Versions(MethodView):
    """Releases of a package."""

    @needs(Scope.READ)
    @blueprint.arguments(schemas.VersionsQuery, location="query")
    @blueprint.response(200, schemas.VersionsPage)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], name: str) -> dict[str, Any]:
        """List the releases of a package, newest first."""
        package = package_name(name)
        with reading() as (connection, progress):
            if browse_packages.package_detail(connection, package) is None:
                raise not_found("package", name)
            return page(
                query,
                _VERSIONS,
                lambda after, limit: browse_packages.browse_versions(
                    connection,
                    package,
                    index=query.get("index"),
                    after=after and (after[0], after[1]),
                    limit=limit,
                ),
                lambda it: (it.version, it.index),
                progress,
            )


@blueprint.route("/events")
class Events(MethodView):
    """What changed in indexes."""

    @needs(Scope.READ)
    @blueprint.arguments(schemas.EventQuery, location="query")
    @blueprint.response(200, schemas.EventPage)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List what changed in indexes, newest first: releases, yanks, hashes."""
        package = query.get("package")
        with reading() as (connection, progress):
            return page(
                query,
                _EVENTS,
                lambda after, limit: browse_events.browse_events(
                    connection,
                    package=None if package is None else package_name(package),
                    index=query.get("index"),
                    kind=query.get("kind"),
                    after=only(after),
                    limit=limit,
                ),
                lambda it: (it.event_id,),
                progress,
            )
