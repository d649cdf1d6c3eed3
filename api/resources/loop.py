"""The nightly loop: its state, and releases that clients report."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from api.access.audit import wrote, wrote_nothing
from api.access.authentication import needs
from api.http.errors import ApiError, ProblemType
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import FreshnessSchema, count, described, json_object, number, texts
from api.resources.base import Resources
from api.service import service
from common.index.configuration import index_of
from graph.record.access import Scope
from graph.record.loop import ReleaseKey, ReleaseSource, add_releases_seen
from graph.record.watches import watched_names
from loop.status import status_document

_MOST = 100


class NightBudgetSchema(Schema):
    """What a night may spend at most."""

    jobs = count("Number of jobs.", 400)
    minutes = number("Time for measuring, minutes.", 240.0)


class LoopStatusSchema(FreshnessSchema):
    """The state of the loop; docs/guides/loop.md describes the fields."""

    budget = fields.Nested(NightBudgetSchema, required=True)
    releases = fields.List(
        json_object("State of a release."), metadata=described("Newest first.", [])
    )
    watches = fields.List(
        json_object("State of a watch."), metadata=described("Heaviest first.", [])
    )
    nights = fields.List(
        json_object("A night with its steps."), metadata=described("Newest first.", [])
    )


class ReportedReleaseSchema(Schema):
    """A release that came out."""

    name = fields.String(
        required=True, validate=validate.Length(1, 200),
        metadata=described("Name of the package.", "numpy"),
    )  # fmt: skip
    version = fields.String(
        required=True, validate=validate.Length(1, 100),
        metadata=described("Version of the release.", "2.4.0"),
    )  # fmt: skip
    index = fields.String(
        load_default=None, allow_none=True, validate=validate.Length(1, 200),
        metadata=described("Name of a configured index; default: the default index.", "pypi"),
    )  # fmt: skip


class ReportedReleasesSchema(Schema):
    """Releases that came out."""

    releases = fields.List(
        fields.Nested(ReportedReleaseSchema), required=True, validate=validate.Length(1, _MOST),
        metadata=described("Releases, oldest first.", [{"name": "numpy", "version": "2.4.0"}]),
    )  # fmt: skip


class NoticedReleasesSchema(Schema):
    """What the loop does with reported releases."""

    noticed = texts("Releases that the next night works on.", ["numpy==2.4.0"])
    ignored = count("Releases that are known, not watched, or beyond the backlog.", 0)


blueprint = Resources("loop", __name__, description="The nightly loop.")


@blueprint.route("/loop")
class LoopResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, LoopStatusSchema)
    def get(self) -> dict[str, Any]:
        """Get the states of releases and watched packages, and the last nights."""
        with reading() as (connection, progress):
            document = status_document(connection, limit=200)
        # Requests of others are private: a watched project is named to nobody here.
        packages = [it for it in document["watches"] if it["kind"] == "package"]
        settings = service().settings
        budget = {"jobs": settings.loop_jobs, "minutes": settings.loop_minutes}
        return {**document, "watches": packages, "budget": budget, **freshness(progress)}


@blueprint.route("/loop/releases")
class LoopReleasesResource(MethodView):
    @needs(Scope.RELEASES)
    @blueprint.arguments(ReportedReleasesSchema)
    @blueprint.response(202, NoticedReleasesSchema)
    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Report releases that came out, so that the next night works on them."""
        stores = service()
        keys = [_key(number, it) for number, it in enumerate(body["releases"])]
        with stores.writing() as connection:
            names = watched_names(connection)
            new = add_releases_seen(
                connection, [it for it in keys if it.name in names], ReleaseSource.REQUEST,
                backlog=stores.settings.loop_backlog,
            )  # fmt: skip
        if new:
            wrote(new[0].subject if len(new) == 1 else f"{new[0].subject} and {len(new) - 1} more")
        else:
            wrote_nothing()
        return {"noticed": [it.subject for it in new], "ignored": len(keys) - len(new)}


def _key(number: int, release: dict[str, Any]) -> ReleaseKey:
    """:raises ApiError: 422 for an invalid version"""
    index = index_of(service().settings, release["index"]).name
    try:
        version = str(Version(release["version"]))
    except InvalidVersion as error:
        message = "not a version (PEP 440)"
        raise ApiError(
            422, ProblemType.INVALID_REQUEST, f"releases.{number}.version: {message}",
            errors={"json": {f"releases.{number}.version": [message]}},
        ) from error  # fmt: skip
    return ReleaseKey(index, str(canonicalize_name(release["name"])), version)
