"""Inspections as they were delivered, and what their jobs came to."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import INCLUDE, Schema, fields

from api.authentication import needs
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.request_context import reading
from api.resources.base import Resources, filters, members, whole_digest
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    asked,
    asked_choice,
    choice,
    count,
    free,
    moment,
    number,
    text,
    texts,
)
from api.service import service
from common.inspection import Outcome
from graph.record.documents import body_of
from graph.record.hardware import browse_hardware, hardware_named
from graph.record.inspections import (
    browse_inspections,
    inspection_named,
    inspection_summary,
)
from graph.record.observations import (
    ObservationFilter,
    browse_observations,
    observation_named,
)
from graph.record.tokens import Scope

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"
_OUTCOMES = [it.value for it in Outcome]


class InspectionQuerySchema(PageQuerySchema):
    """Which inspections are asked for."""

    stack = asked("Digest of the stack that was tried.", _DIGEST)
    hardware = asked("Digest of a hardware class that a job ran on.", _DIGEST)
    indicator = asked("Name of an indicator that a job ran.", "PiMatmul")


class InspectionItemSchema(Schema):
    """One stack, tried by a number of jobs."""

    document_id = text("Digest of its document.", _DIGEST)
    name = text("As it was given.", "inspection-matmul-1f2e3d4c")
    schema_version = text("Of its document.", "inspection-directory")
    stack_digest = text("Of the stack that was tried; null if it is not known.", null=True)
    stack_note = text("Why it is not, or what of its lock is left out.", null=True)
    job_count = count("Jobs that ran.", 10)
    created_at = moment("When it was made, if it says so.", null=True)
    ingested_at = moment("When it came.")


class InspectionPageSchema(PageSchema):
    """Inspections, those first that came last."""

    items = fields.List(fields.Nested(InspectionItemSchema), required=True)


class InspectionDetailSchema(FreshnessSchema, InspectionItemSchema):
    """An inspection."""

    outcomes = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "Jobs by how they ended.", "example": {"measured": 10}},
    )
    indicators = texts("Names of those that ran.", ["PiMatmul"])
    hardware = texts("Digests of the classes that they ran on.", [_DIGEST])


class RawInspectionSchema(Schema):
    """A document as it was delivered, as canonical JSON; its own schema names its members."""

    class Meta:
        """There are several generations of them."""

        unknown = INCLUDE


class ObservationQuerySchema(PageQuerySchema):
    """Which observations are asked for."""

    indicator = asked("Name of the indicator.", "PiMatmul")
    hardware = asked("Digest of the hardware class.", _DIGEST)
    stack = asked("Digest of the stack.", _DIGEST)
    package = asked("Name of a package in the stack.", "numpy")
    version = asked("Version of that package, normalised.", "2.4.6")
    outcome = asked_choice("How the job ended.", _OUTCOMES)
    inspection = asked("Digest of the inspection's document.", _DIGEST)
    comparison_key = asked("Of what was measured alike.", _DIGEST)


class ObservationItemSchema(Schema):
    """What one job was seen to do, once."""

    observation_id = text("Its identifier.", _DIGEST)
    document_id = text("The inspection it is from.", _DIGEST)
    job_id = text("The job of the inspection.", f"{_DIGEST}:0")
    outcome = choice("How the job ended.", _OUTCOMES)
    exit_code = count("Of the indicator.", 0)
    indicator = text("Its name.", "PiMatmul")
    component = text("The library that it measures.", "numpy", null=True)
    script_sha256 = text("Digest of its script.", null=True)
    stack_digest = text("The stack that was tried.", null=True)
    hardware_digest = text("The hardware class.", _DIGEST)
    python_version = text("Of the interpreter.", "3.11", null=True)
    comparison_key = text("Of what was measured alike.", _DIGEST)
    parameters = free("Of the indicator.")
    device = text("What it ran on.", "cpu", null=True)
    elapsed_s = number("Of one call of what is measured, s.", 0.0029, null=True)
    rate = number("In `unit`; null unless it was measured.", 9.4e10, null=True)
    unit = text("Of the rate.", "FLOP/s", null=True)
    repetitions_s = fields.List(
        fields.Float(),
        required=True,
        metadata={"description": "Each repetition, s.", "example": [0.0029, 0.0028]},
    )
    correction = text("How a rate that was published by a wrong definition was mended.", null=True)
    quarantine_reason = text("Why nothing may be compared with it.", null=True)
    unstable_reason = text("Why it does not count in comparisons.", null=True)
    failure_reason = text("Why it crashed: a code.", null=True)
    failure_message = text("The same, for people.", null=True)
    host = text("Digest that tells machines of one class apart.", null=True)
    block = text("Jobs of one block ran in turns.", null=True)
    turn = count("Place within the block.", 0, null=True)
    started_at = moment("When the job began.", null=True)
    ended_at = moment("When it ended.", null=True)
    memory_bytes = count("The most that it held.", 120000512, null=True)
    user_s = number("Processor time in user mode, s.", 3.1, null=True)
    system_s = number("Processor time in the kernel, s.", 0.2, null=True)


class ObservationPageSchema(PageSchema):
    """Observations in the order of their identifiers."""

    items = fields.List(fields.Nested(ObservationItemSchema), required=True)


class ObservationDetailSchema(FreshnessSchema, ObservationItemSchema):
    """An observation."""


class HardwareQuerySchema(PageQuerySchema):
    """Which hardware classes are asked for."""

    like = asked("Part of a label, in any case.", "epyc")


class HardwareItemSchema(Schema):
    """Machines whose measurements may be compared."""

    digest = text("Its digest.", _DIGEST)
    label = text("For people.", "AMD EPYC, 2 processors")
    identity = free("What the digest is made of.")
    document_id = text("The document that it was first seen in.", _DIGEST)


class HardwarePageSchema(PageSchema):
    """Hardware classes by digest."""

    items = fields.List(fields.Nested(HardwareItemSchema), required=True)


class HardwareDetailSchema(FreshnessSchema, HardwareItemSchema):
    """A hardware class."""


blueprint = Resources("inspections", __name__, description="What was tried, and on what.")

_INSPECTIONS = Cursor("inspections", {"ingested_at": datetime, "document_id": str})
_HARDWARE = Cursor("hardware", {"digest": str})


@blueprint.route("/inspections")
class InspectionsResource(MethodView):
    """Inspections."""

    @needs(Scope.READ)
    @blueprint.arguments(InspectionQuerySchema, location="query")
    @blueprint.response(200, InspectionPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List inspections, those first that came last."""
        with reading() as (connection, progress):
            find = partial(browse_inspections, connection, **filters(query))
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
            found = inspection_named(connection, whole_digest(document_id))
            if found is None:
                raise not_found("inspection", document_id)
            summary = inspection_summary(connection, found.document_id)
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
            found = inspection_named(connection, whole_digest(document_id))
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


observation_routes = Resources("observations", __name__, description="What jobs were seen to do.")

_OBSERVATIONS = Cursor("observations", {"observation_id": str})


@observation_routes.route("/observations")
class ObservationsResource(MethodView):
    """Observations."""

    @needs(Scope.READ)
    @observation_routes.arguments(ObservationQuerySchema, location="query")
    @observation_routes.response(200, ObservationPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List observations in the order of their identifiers."""
        wanted = ObservationFilter(**filters(query))
        with reading() as (connection, progress):
            find = partial(browse_observations, connection, wanted)
            return page(query, _OBSERVATIONS, find, progress)


@observation_routes.route("/observations/<string:observation_id>")
class ObservationResource(MethodView):
    """One observation."""

    @needs(Scope.READ)
    @observation_routes.response(200, ObservationDetailSchema)
    @observation_routes.alt_response(404, "NOT_FOUND")
    def get(self, observation_id: str) -> dict[str, Any]:
        """Say what a job was seen to do."""
        with reading() as (connection, progress):
            found = observation_named(connection, whole_digest(observation_id))
        if found is None:
            raise not_found("observation", observation_id)
        return {**members(found), **freshness(progress)}
