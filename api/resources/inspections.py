"""Inspections, their observations, and hardware classes with their coverage."""

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from marshmallow import INCLUDE, Schema, fields

from adviser.answering.target_hardware import near_classes
from api.access import needs
from api.http.errors import not_found
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    count,
    filter_flag,
    filter_text,
    flag,
    fresh,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import (
    DIGEST,
    Cursor,
    Resources,
    browse_page,
    filters,
    freshness,
    members,
    or_404,
    page,
    whole_digest,
)
from api.resources.stacks import stack_labels
from api.store_access import service
from graph.record.access import Scope
from graph.record.documents import body_of
from graph.record.hardware import (
    HardwareHead,
    browse_hardware,
    hardware_named,
    measurements_on,
    recorded_hardware,
)
from graph.record.inspections import (
    InspectionHead,
    InspectionSummary,
    browse_inspections,
    inspection_named,
    inspection_summary,
)
from graph.record.observations import (
    IndicatorCoverage,
    MeasuredTotals,
    ObservationFilter,
    RecordedObservation,
    browse_observations,
    coverage_of,
    measured_totals,
    observation_named,
)
from graph.record.stacks import inspected_stacks

#: Other classes that are named.
_NEAREST = 5
#: Their measurements are counted up to this number.
_COUNTED = 1_000


class InspectionQuerySchema(PageQuerySchema):
    """Filters for inspections."""

    stack = filter_text("Digest of the inspected stack.", DIGEST)
    hardware = filter_text("Digest of a hardware class that a job ran on.", DIGEST)
    indicator = filter_text("Name of an indicator that a job ran.", "PiMatmul")


_STACK_LABEL = text("Name of the stack for people.", "numpy 2.4.6 (1f2e3d4c)", null=True)
InspectionItemSchema = schema_of("InspectionItem", InspectionHead, stack_label=_STACK_LABEL)
InspectionPageSchema = page_of("InspectionPage", InspectionItemSchema)
InspectionDetailSchema = schema_of(
    "InspectionDetail",
    InspectionHead,
    InspectionSummary,
    base=FreshnessSchema,
    stack_label=_STACK_LABEL,
)


class RawInspectionSchema(Schema):
    """An inspection document; its members depend on its schema version."""

    class Meta:
        unknown = INCLUDE


ObservationQuerySchema = query_of("ObservationQuery", ObservationFilter)
ObservationItemSchema = schema_of("ObservationItem", RecordedObservation)
ObservationPageSchema = page_of("ObservationPage", ObservationItemSchema)
ObservationDetailSchema = fresh("ObservationDetail", ObservationItemSchema)


class HardwareQuerySchema(PageQuerySchema):
    """Filters for hardware classes."""

    like = filter_text("Part of the label; case does not matter.", "epyc")
    measured = filter_flag("Whether a measurement on it can be compared.")


HardwareItemSchema = schema_of("HardwareItem", HardwareHead)
HardwarePageSchema = page_of("HardwarePage", HardwareItemSchema)
HardwareDetailSchema = fresh("HardwareDetail", HardwareItemSchema)
IndicatorCoverageSchema = schema_of("IndicatorCoverage", IndicatorCoverage)


class NearHardwareSchema(Schema):
    """Another hardware class that is like this one."""

    digest = text("Digest of the hardware class.", DIGEST)
    label = text("Name for people.", "AMD EPYC, 2 processors")
    same_processor = flag("Whether processor, number of CPUs and GPUs are the same.")
    differs = texts("Properties in which the two classes differ.", ["flags"])
    measurements = count("Number of measurements, counted up to 1,000.", 60)


class HardwareCoverageSchema(FreshnessSchema):
    """The measurements on a hardware class, and similar classes."""

    indicators = fields.List(fields.Nested(IndicatorCoverageSchema), required=True)
    stacks = count("Number of known stacks that were inspected, on any hardware.", 12)
    nearest = fields.List(fields.Nested(NearHardwareSchema), required=True)


CoverageSchema = schema_of("Coverage", MeasuredTotals, base=FreshnessSchema)


blueprint = Resources("inspections", __name__, description="Inspections and hardware classes.")

_INSPECTIONS = Cursor("inspections", {"ingested_at": datetime, "document_id": str})
_HARDWARE = Cursor("hardware", {"digest": str})


@blueprint.route("/inspections")
@needs(Scope.READ)
@blueprint.arguments(InspectionQuerySchema, location="query")
@blueprint.response(200, InspectionPageSchema)
def get_inspections(query: dict[str, Any]) -> dict[str, Any]:
    """List inspections, last ingested first."""
    with reading() as (connection, progress):
        find = partial(browse_inspections, connection, **filters(query))
        listed = page(query, _INSPECTIONS, find, progress)
        digests = {it.stack_digest for it in listed["items"] if it.stack_digest}
        labels = stack_labels(connection, digests)
    items = [{**members(it), "stack_label": labels.get(it.stack_digest)} for it in listed["items"]]
    return {**listed, "items": items}


@blueprint.route("/inspections/<string:document_id>")
@needs(Scope.READ)
@blueprint.response(200, InspectionDetailSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_inspection(document_id: str) -> dict[str, Any]:
    """Get one inspection with a summary of its jobs."""
    with reading() as (connection, progress):
        inspection = or_404(
            inspection_named(connection, whole_digest(document_id)), "inspection", document_id
        )
        summary = inspection_summary(connection, inspection.document_id)
        stack = inspection.stack_digest
        label = stack_labels(connection, [stack])[stack] if stack else None
    return {**members(inspection), "stack_label": label, **members(summary), **freshness(progress)}


@blueprint.route("/inspections/<string:document_id>/document")
@needs(Scope.READ)
@blueprint.response(200, RawInspectionSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_inspection_document(document_id: str) -> Response:
    """Get the document of an inspection as canonical JSON."""
    with reading() as (connection, _):
        inspection = inspection_named(connection, whole_digest(document_id))
        body = inspection and body_of(connection, service().settings, inspection.document_id)
    if not body:
        raise not_found("inspection", document_id)
    return Response(body, mimetype="application/json")


@blueprint.route("/hardware")
@needs(Scope.READ)
@blueprint.arguments(HardwareQuerySchema, location="query")
@blueprint.response(200, HardwarePageSchema)
def get_hardware_classes(query: dict[str, Any]) -> dict[str, Any]:
    """List the hardware classes that jobs ran on."""
    return browse_page(query, _HARDWARE, browse_hardware, **filters(query))


@blueprint.route("/hardware/<string:digest>")
@needs(Scope.READ)
@blueprint.response(200, HardwareDetailSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_hardware_class(digest: str) -> dict[str, Any]:
    """Get one hardware class."""
    with reading() as (connection, progress):
        hardware = or_404(
            hardware_named(connection, whole_digest(digest)), "hardware class", digest
        )
    return {**members(hardware), **freshness(progress)}


@blueprint.route("/hardware/<string:digest>/coverage")
@needs(Scope.READ)
@blueprint.response(200, HardwareCoverageSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_hardware_coverage(digest: str) -> dict[str, Any]:
    """Get the measurements on a hardware class, by indicator and package.

    `nearest` has up to five other classes: those with the same processor first, then by the
    number of properties that differ. Measurements of one class say nothing certain about
    another one.
    """
    with reading() as (connection, progress):
        hardware = or_404(
            hardware_named(connection, whole_digest(digest)), "hardware class", digest
        )
        nearest = near_classes(hardware.identity, recorded_hardware(connection))[:_NEAREST]
        digests = [it.hardware.digest for it in nearest]
        measurements = measurements_on(connection, digests, _COUNTED)
        coverage = service().record_value(
            connection,
            ("coverage", hardware.digest),
            lambda: coverage_of(connection, hardware.digest),
        )
        return {
            "indicators": coverage,
            "stacks": inspected_stacks(connection),
            "nearest": [
                {
                    "digest": near.hardware.digest, "label": near.hardware.label,
                    "same_processor": near.same_processor, "differs": near.differs,
                    "measurements": measurements[near.hardware.digest],
                }
                for near in nearest
            ],
            **freshness(progress),
        }  # fmt: skip


@blueprint.route("/coverage")
@needs(Scope.READ)
@blueprint.response(200, CoverageSchema)
def get_coverage() -> dict[str, Any]:
    """Get how many packages, versions, stacks and hardware classes were measured."""
    with reading() as (connection, progress):
        totals = service().record_value(
            connection, ("coverage",), lambda: measured_totals(connection)
        )
        return {**members(totals), **freshness(progress)}


observation_routes = Resources("observations", __name__, description="Observations of jobs.")

_OBSERVATIONS = Cursor("observations", {"observation_id": str})


@observation_routes.route("/observations")
@needs(Scope.READ)
@observation_routes.arguments(ObservationQuerySchema, location="query")
@observation_routes.response(200, ObservationPageSchema)
def get_observations(query: dict[str, Any]) -> dict[str, Any]:
    """List observations in the order of their identifiers."""
    return browse_page(
        query, _OBSERVATIONS, browse_observations, ObservationFilter(**filters(query))
    )


@observation_routes.route("/observations/<string:observation_id>")
@needs(Scope.READ)
@observation_routes.response(200, ObservationDetailSchema)
@observation_routes.alt_response(404, "NOT_FOUND")
def get_observation(observation_id: str) -> dict[str, Any]:
    """Get one observation."""
    with reading() as (connection, progress):
        observation = or_404(
            observation_named(connection, whole_digest(observation_id)),
            "observation",
            observation_id,
        )
    return {**members(observation), **freshness(progress)}
