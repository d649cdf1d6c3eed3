"""InspectionsResource as they were delivered, and what their jobs came to."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, reading, whole_digest
from api.schemas.inspections import (
    HardwareDetailSchema,
    HardwarePageSchema,
    HardwareQuerySchema,
    InspectionDetailSchema,
    InspectionPageSchema,
    InspectionQuerySchema,
    RawInspectionSchema,
)
from api.service import service
from graph.record import inspections as record
from graph.record.documents import body_of
from graph.record.hardware import browse_hardware, hardware_named
from graph.record.tokens import Scope

blueprint = Resources("inspections", __name__, description="What was tried, and on what.")

_INSPECTIONS = Cursor("inspections", {"ingested_at": datetime, "document_id": str})
_HARDWARE = Cursor("hardware", {"digest": str})


@blueprint.route("/inspections")
class InspectionsResource(MethodView):
    """InspectionsResource."""

    @needs(Scope.READ)
    @blueprint.arguments(InspectionQuerySchema, location="query")
    @blueprint.response(200, InspectionPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List inspections, those first that came last."""
        with reading() as (connection, progress):
            find = partial(record.browse_inspections, connection, **filters(query))
            return page(query, _INSPECTIONS, find, progress)


@blueprint.route("/inspections/<string:document_id>")
class InspectionResource(MethodView):
    """One inspection."""

    @needs(Scope.READ)
    @blueprint.response(200, InspectionDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, document_id: str) -> dict[str, Any]:
        """Say what the jobs of an inspection came to."""
        with reading() as (connection, progress):
            found = record.inspection_named(connection, whole_digest(document_id))
            if found is None:
                raise not_found("inspection", document_id)
            summary = record.inspection_summary(connection, found.document_id)
        return {**members(found), **members(summary), **freshness(progress)}


@blueprint.route("/inspections/<string:document_id>/document")
class InspectionDocumentResource(MethodView):
    """The document of an inspection."""

    @needs(Scope.READ)
    @blueprint.response(200, RawInspectionSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, document_id: str) -> Response:
        """Give the document of an inspection, as canonical JSON of what was delivered."""
        with reading() as (connection, _):
            found = record.inspection_named(connection, whole_digest(document_id))
            body = found and body_of(connection, service().settings, found.document_id)
        if not body:
            raise not_found("inspection", document_id)
        return Response(body, mimetype="application/json")


@blueprint.route("/hardware")
class HardwareClassesResource(MethodView):
    """Hardware classes."""

    @needs(Scope.READ)
    @blueprint.arguments(HardwareQuerySchema, location="query")
    @blueprint.response(200, HardwarePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List the hardware classes that something ran on."""
        with reading() as (connection, progress):
            find = partial(browse_hardware, connection, **filters(query))
            return page(query, _HARDWARE, find, progress)


@blueprint.route("/hardware/<string:digest>")
class HardwareClassResource(MethodView):
    """One hardware class."""

    @needs(Scope.READ)
    @blueprint.response(200, HardwareDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, digest: str) -> dict[str, Any]:
        """Say what a hardware class is."""
        with reading() as (connection, progress):
            found = hardware_named(connection, whole_digest(digest))
        if found is None:
            raise not_found("hardware class", digest)
        return {**members(found), **freshness(progress)}
