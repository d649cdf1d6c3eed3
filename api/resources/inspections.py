"""Inspections, their observations and hardware classes, and results of benchmarks."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import INCLUDE, Schema, fields

from adviser.answering.target_hardware import near_classes
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
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
from api.resources.base import Resources, filters, members, whole_digest
from api.resources.stacks import stack_labels
from api.service import service
from graph.record.access import Scope
from graph.record.benchmark_results import BenchmarkFilter, benchmark_results
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
from model.measurements.benchmark_results import (
    BenchmarkResult,
    MeasuredFile,
    Metric,
    Validity,
    result_document,
)
from pis.metrics import shared_metrics

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"
#: Other classes that are named.
_NEAREST = 5
#: Their measurements are counted up to this number.
_COUNTED = 1_000


class InspectionQuerySchema(PageQuerySchema):
    """Filters for inspections."""

    stack = filter_text("Digest of the inspected stack.", _DIGEST)
    hardware = filter_text("Digest of a hardware class that a job ran on.", _DIGEST)
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

    digest = text("Digest of the hardware class.", _DIGEST)
    label = text("Name for people.", "AMD EPYC, 2 processors")
    same_processor = flag("Whether processor, number of CPUs and GPUs are the same.")
    differs = texts("Properties in which the two classes differ.", ["flags"])
    measurements = count("Number of measurements, counted up to 1,000.", 60)


class HardwareCoverageSchema(FreshnessSchema):
    """What was measured on a hardware class, and which classes are like it."""

    indicators = fields.List(fields.Nested(IndicatorCoverageSchema), required=True)
    stacks = count("Number of known stacks that were inspected, on any hardware.", 12)
    nearest = fields.List(fields.Nested(NearHardwareSchema), required=True)


CoverageSchema = schema_of("Coverage", MeasuredTotals, base=FreshnessSchema)


blueprint = Resources("inspections", __name__, description="Inspections and hardware classes.")

_INSPECTIONS = Cursor("inspections", {"ingested_at": datetime, "document_id": str})
_HARDWARE = Cursor("hardware", {"digest": str})


@blueprint.route("/inspections")
class InspectionsResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(InspectionQuerySchema, location="query")
    @blueprint.response(200, InspectionPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List inspections, last ingested first."""
        with reading() as (connection, progress):
            find = partial(browse_inspections, connection, **filters(query))
            listed = page(query, _INSPECTIONS, find, progress)
            digests = {it.stack_digest for it in listed["items"] if it.stack_digest}
            labels = stack_labels(connection, digests)
        items = [
            {**members(it), "stack_label": labels.get(it.stack_digest)} for it in listed["items"]
        ]
        return {**listed, "items": items}


@blueprint.route("/inspections/<string:document_id>")
class InspectionResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, InspectionDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, document_id: str) -> dict[str, Any]:
        """Get one inspection with a summary of its jobs."""
        with reading() as (connection, progress):
            inspection = inspection_named(connection, whole_digest(document_id))
            if inspection is None:
                raise not_found("inspection", document_id)
            summary = inspection_summary(connection, inspection.document_id)
            stack = inspection.stack_digest
            label = stack_labels(connection, [stack])[stack] if stack else None
        return {
            **members(inspection), "stack_label": label, **members(summary), **freshness(progress),
        }  # fmt: skip


@blueprint.route("/inspections/<string:document_id>/document")
class InspectionDocumentResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, RawInspectionSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, document_id: str) -> Response:
        """Get the document of an inspection as canonical JSON."""
        with reading() as (connection, _):
            inspection = inspection_named(connection, whole_digest(document_id))
            body = inspection and body_of(connection, service().settings, inspection.document_id)
        if not body:
            raise not_found("inspection", document_id)
        return Response(body, mimetype="application/json")


@blueprint.route("/hardware")
class HardwareClassesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(HardwareQuerySchema, location="query")
    @blueprint.response(200, HardwarePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List the hardware classes that jobs ran on."""
        with reading() as (connection, progress):
            find = partial(browse_hardware, connection, **filters(query))
            return page(query, _HARDWARE, find, progress)


@blueprint.route("/hardware/<string:digest>")
class HardwareClassResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, HardwareDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, digest: str) -> dict[str, Any]:
        """Get one hardware class."""
        with reading() as (connection, progress):
            hardware = hardware_named(connection, whole_digest(digest))
        if hardware is None:
            raise not_found("hardware class", digest)
        return {**members(hardware), **freshness(progress)}


@blueprint.route("/hardware/<string:digest>/coverage")
class HardwareCoverageResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, HardwareCoverageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, digest: str) -> dict[str, Any]:
        """Get what was measured on a hardware class, by indicator and package.

        `nearest` has up to five other classes: those with the same processor first, then by the
        number of properties that differ. Measurements of one class say nothing certain about
        another one.
        """
        with reading() as (connection, progress):
            hardware = hardware_named(connection, whole_digest(digest))
            if hardware is None:
                raise not_found("hardware class", digest)
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
class CoverageResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, CoverageSchema)
    def get(self) -> dict[str, Any]:
        """Get how many packages, versions, stacks and hardware classes were measured."""
        with reading() as (connection, progress):
            totals = service().record_value(
                connection, ("coverage",), lambda: measured_totals(connection)
            )
            return {**members(totals), **freshness(progress)}


observation_routes = Resources("observations", __name__, description="Observations of jobs.")

_OBSERVATIONS = Cursor("observations", {"observation_id": str})


@observation_routes.route("/observations")
class ObservationsResource(MethodView):
    @needs(Scope.READ)
    @observation_routes.arguments(ObservationQuerySchema, location="query")
    @observation_routes.response(200, ObservationPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List observations in the order of their identifiers."""
        selection = ObservationFilter(**filters(query))
        with reading() as (connection, progress):
            find = partial(browse_observations, connection, selection)
            return page(query, _OBSERVATIONS, find, progress)


@observation_routes.route("/observations/<string:observation_id>")
class ObservationResource(MethodView):
    @needs(Scope.READ)
    @observation_routes.response(200, ObservationDetailSchema)
    @observation_routes.alt_response(404, "NOT_FOUND")
    def get(self, observation_id: str) -> dict[str, Any]:
        """Get one observation."""
        with reading() as (connection, progress):
            observation = observation_named(connection, whole_digest(observation_id))
        if observation is None:
            raise not_found("observation", observation_id)
        return {**members(observation), **freshness(progress)}


BenchmarkQuerySchema = query_of("BenchmarkQuery", BenchmarkFilter)
MeasuredFileSchema = schema_of("MeasuredFile", MeasuredFile)
BenchmarkResultSchema = schema_of(
    "BenchmarkResult",
    BenchmarkResult,
    Metric,
    metric=text("Name of the metric.", "median_rate"),
    samples=fields.List(fields.Float(), required=True),
)
BenchmarkPageSchema = page_of("BenchmarkPage", BenchmarkResultSchema)


benchmark_routes = Resources("benchmarks", __name__, description="Results of benchmarks.")

_RESULTS = Cursor("benchmarks", {"own": int, "entry_id": str, "position": int})


@benchmark_routes.route("/benchmarks")
class BenchmarksResource(MethodView):
    @needs(Scope.READ)
    @benchmark_routes.arguments(BenchmarkQuerySchema, location="query")
    @benchmark_routes.response(200, BenchmarkPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List results of other benchmark systems and of our own inspections.

        Results of other systems never decide advice.
        """
        selection = {it: query[it] for it in query if it not in ("limit", "after")}
        if "validity" in selection:
            selection["validity"] = Validity(selection["validity"])
        with reading() as (connection, progress):
            chosen = BenchmarkFilter(**selection)
            find = partial(benchmark_results, connection, chosen, shared_metrics())
            results = page(query, _RESULTS, find, progress)
        items = []
        for listed in results["items"]:
            document = result_document(listed.result)
            items.append({**document, "measured_at": listed.result.measured_at})
        return {**results, "items": items}
