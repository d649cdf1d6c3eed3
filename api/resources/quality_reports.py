"""Reports on the quality of measurements: spread, repetitions, drift."""

from functools import partial
from typing import Any

from marshmallow import Schema, fields
from sqlalchemy import Connection

from adviser.answering.quality_reports import ReportSelection, read_report
from adviser.quality.job_statistics import (
    JudgedBatch,
    OrderReport,
    RepetitionAdvice,
    RepetitionSpread,
    ValueSummary,
)
from adviser.quality.reports import ReportedJob, report_document
from adviser.scoring.effects import SpreadRatio
from adviser.stack_comparison import StackGroup, StackResult, UnknownBaseline
from api.access import needs
from api.http.errors import ApiError, ProblemType, not_found
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    count,
    filter_text,
    number,
    page_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import (
    DIGEST,
    Cursor,
    Resources,
    filters,
    freshness,
    members,
    page,
    whole_digest,
)
from api.resources.stacks import BASELINE_DESCRIPTION, FLOP_PER_S, GROUP_BASELINE, HARDWARE
from api.store_access import service
from graph.record.access import Scope
from graph.record.observations import browse_series
from model.measurements.evidence import MissingMeasurement, SeriesSettings


class ReportListQuerySchema(PageQuerySchema):
    """Filters for series."""

    indicator = filter_text("Name of the indicator.", "PiMatmul")
    hardware = filter_text("Digest of the hardware class.", DIGEST)


MeasuredSeriesSchema = schema_of("MeasuredSeries", SeriesSettings, hardware=HARDWARE)
SeriesPageSchema = page_of("SeriesPage", MeasuredSeriesSchema)


class ReportQuerySchema(Schema):
    """Selects what the report compares."""

    baseline = filter_text(BASELINE_DESCRIPTION, DIGEST)
    inspection = filter_text("Digest of an inspection: only its jobs count.", DIGEST)


ValueSummarySchema = schema_of("ValueSummary", ValueSummary)


class VarianceSchema(Schema):
    """Variance within and between jobs."""

    within_sd_pct = number("Standard deviation of the repetitions of a job, %.", 4.0)
    between_sd_pct = number("Standard deviation between jobs, without repetitions, %.", 2.0)
    jobs = count("Number of jobs with repetitions.", 10)
    repetitions = number("Typical number of repetitions of a job.", 46.0)
    within_share_pct = number("Share of repetitions in the variance of a job, %.", 5.0, null=True)


RepetitionAdviceSchema = schema_of("RepetitionAdvice", RepetitionAdvice)


RepetitionSpreadSchema = schema_of("RepetitionSpread", RepetitionSpread)
SpreadRatioSchema = schema_of("SpreadRatio", SpreadRatio)
ReportedJobSchema = schema_of(
    "ReportedJob",
    ReportedJob,
    at=text("When the job ended, as ISO 8601 in UTC.", "2026-01-01T00:00:00Z", null=True),
)


class StackQualitySchema(Schema):
    """Quality of the measurements of one stack."""

    rate = fields.Nested(ValueSummarySchema, required=True, allow_none=True)
    elapsed = fields.Nested(ValueSummarySchema, required=True, allow_none=True)
    variance = fields.Nested(VarianceSchema, required=True, allow_none=True)
    advice = fields.Nested(RepetitionAdviceSchema, required=True, allow_none=True)
    spreads = fields.List(fields.Nested(RepetitionSpreadSchema), required=True)
    sufficient_repetitions = count("Smallest number that suffices.", 10, null=True)
    spread_ratio = fields.Nested(SpreadRatioSchema, required=True, allow_none=True)
    jobs = fields.List(fields.Nested(ReportedJobSchema), required=True)


ReportedStackSchema = schema_of(
    "ReportedStack",
    StackResult,
    median_flop_per_s=FLOP_PER_S,
    quality=fields.Nested(StackQualitySchema, required=True),
)
JobOrderSchema = schema_of(
    "JobOrder", OrderReport, step_times=texts("When the level changes, as ISO 8601 in UTC.", [])
)
MissingMeasurementSchema = schema_of("MissingMeasurement", MissingMeasurement)


_REPORTED_STACKS = fields.List(fields.Nested(ReportedStackSchema), required=True)
ReportedSeriesSchema = schema_of(
    "ReportedSeries",
    StackGroup,
    hardware=HARDWARE,
    baseline=GROUP_BASELINE,
    stacks=_REPORTED_STACKS,
    unknown_stacks=_REPORTED_STACKS,
    order=fields.Nested(JobOrderSchema, required=True, allow_none=True),
    missing=fields.List(fields.Nested(MissingMeasurementSchema), required=True),
    findings=texts("What the series shows, in sentences.", []),
)


RepetitionBatchSchema = schema_of("RepetitionBatch", JudgedBatch)


class RepetitionBatchesSchema(Schema):
    """Batches of one stack that differ in their number of repetitions."""

    label = text("Indicator and stack.", "PiMatmul, numpy 2.4.6 (1f2e3d4c)")
    unit = text("Unit of the rates.", "GFLOPS")
    best_repetitions = count("Repetitions of the batch with the smallest deviation.", 2000)
    sufficient_repetitions = count("Smallest number indistinguishable from the best.", 500)
    within_sd_pct = number("Standard deviation of one repetition, %.", 71.0)
    between_sd_pct = number("Standard deviation between jobs, without repetitions, %.", 6.7)
    advice = fields.Nested(RepetitionAdviceSchema, required=True, allow_none=True)
    batches = fields.List(fields.Nested(RepetitionBatchSchema), required=True)
    findings = texts("What the batches show, in sentences.", [])


class ReportFamilySchema(Schema):
    """Comparisons that share one error rate."""

    comparisons = count("Number of comparisons.", 5)
    error_rate = number("Chance that at least one claim is false.", 0.05)


class QualityReportSchema(FreshnessSchema):
    """A report on the quality of measurements."""

    version = count("Version of this document.", 1)
    family = fields.Nested(ReportFamilySchema, required=True)
    series = fields.List(fields.Nested(ReportedSeriesSchema), required=True)
    batches = fields.List(fields.Nested(RepetitionBatchesSchema), required=True)


blueprint = Resources("reports", __name__, description="Quality of measurements.")

_SERIES = Cursor("reports", {"comparison_key": str})


@blueprint.route("/reports")
@needs(Scope.READ)
@blueprint.arguments(ReportListQuerySchema, location="query")
@blueprint.response(200, SeriesPageSchema)
def get_reports(query: dict[str, Any]) -> dict[str, Any]:
    """List the series that a report can be made of, ordered by comparison key."""
    with reading() as (connection, progress):
        find = partial(_kept_series, connection, **filters(query))
        listed = page(query, _SERIES, find, progress, lambda it: (it.comparison_key,))
    items = [
        {
            **members(series),
            "hardware": {"digest": series.hardware_digest, "label": series.hardware_label},
        }
        for series in listed["items"]
    ]
    return {**listed, "items": items}


@blueprint.route("/reports/<string:comparison_key>")
@needs(Scope.READ)
@blueprint.arguments(ReportQuerySchema, location="query")
@blueprint.response(200, QualityReportSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_report(query: dict[str, Any], comparison_key: str) -> dict[str, Any]:
    """Report on the quality of one series.

    The report has the distribution of the jobs by stack, variance within and between jobs,
    drift, jobs that do not count, and the number of repetitions that suffices, also of series
    that differ in that number only.
    """
    selection = filters(query)
    inspections = (selection["inspection"],) if "inspection" in selection else None
    wanted = ReportSelection((whole_digest(comparison_key),), inspections)
    with reading() as (connection, progress):
        if not browse_series(connection, keys=wanted.keys):
            raise not_found("series", comparison_key)
        try:
            report = read_report(connection, wanted, baseline=selection.get("baseline"))
        except UnknownBaseline as error:
            raise ApiError(
                400, ProblemType.INVALID_REQUEST, f"baseline: {error}",
                errors={"query": {"baseline": [str(error)]}},
            ) from error  # fmt: skip
        return {**report_document(report), **freshness(progress)}


def _kept_series(connection: Connection, **selection: Any) -> list[SeriesSettings]:
    """:func:`browse_series`, which counts all measurements, computed once for each state."""
    key = ("series", *sorted(selection.items()))
    return service().record_value(connection, key, lambda: browse_series(connection, **selection))
