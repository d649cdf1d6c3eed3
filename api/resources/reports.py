"""Reports on the quality of measurements: spread, repetitions, drift, parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields
from sqlalchemy import Connection

from adviser.answering.quality_reports import ReportSelection, read_report
from adviser.quality.report_document import report_document
from adviser.stack_comparison import UnknownBaseline
from api.access.authentication import needs
from api.http.errors import ApiError, ProblemType, not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    count,
    filter_text,
    flag,
    json_object,
    number,
    text,
    texts,
)
from api.resources.base import Resources, filters, members, whole_digest
from api.resources.stacks import (
    BASELINE_DESCRIPTION,
    GroupSchema,
    GroupStackSchema,
    HardwareNameSchema,
    MeasuredAlikeSchema,
)
from api.service import service
from graph.record.job_samples import browse_series
from graph.record.tokens import Scope
from model.measurements.job_samples import SeriesSettings

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


class ReportListQuerySchema(PageQuerySchema):
    """Filters for series."""

    indicator = filter_text("Name of the indicator.", "PiMatmul")
    hardware = filter_text("Digest of the hardware class.", _DIGEST)


class MeasuredSeriesSchema(MeasuredAlikeSchema):
    """A series: measurements with one comparison key."""

    component = text("Library that the indicator measures.", "numpy", null=True)
    python_versions = texts("Versions of the Python interpreter.", ["3.11"])
    jobs = count("Number of measurements.", 60)
    stacks = count("Number of known stacks.", 6)


class SeriesPageSchema(PageSchema):
    """Series, ordered by comparison key."""

    items = fields.List(fields.Nested(MeasuredSeriesSchema), required=True)


class ReportQuerySchema(Schema):
    """Selects what the report compares."""

    baseline = filter_text(BASELINE_DESCRIPTION, _DIGEST)
    inspection = filter_text("Digest of an inspection: only its jobs count.", _DIGEST)


class ValueSummarySchema(Schema):
    """Summary of the jobs that count."""

    n = count("Number of jobs.", 10)
    median = number("Median.", 9.4e10)
    mean = number("Mean.", 9.3e10)
    sd = number("Standard deviation (n − 1).", 2e9, null=True)
    mad = number("Median absolute deviation, unscaled.", 1e9)
    lower_quartile = number("Lower quartile, by linear interpolation.", 9.2e10)
    upper_quartile = number("Upper quartile.", 9.5e10)
    minimum = number("Smallest value.", 9e10)
    maximum = number("Largest value.", 9.7e10)
    cv = number("Coefficient of variation: standard deviation / mean.", 0.02, null=True)


class VarianceSchema(Schema):
    """Variance within and between jobs."""

    within_sd_pct = number("Standard deviation of the repetitions of a job, %.", 4.0)
    between_sd_pct = number("Standard deviation between jobs, without repetitions, %.", 2.0)
    jobs = count("Number of jobs with repetitions.", 10)
    repetitions = number("Typical number of repetitions of a job.", 46.0)
    within_share_pct = number("Share of repetitions in the variance of a job, %.", 5.0, null=True)


class RepetitionAdviceSchema(Schema):
    """Repetitions of a job that make best use of a budget of time (Kalibera & Jones 2013)."""

    repetitions = count("Repetitions of a job; null if only repetitions vary.", 12, null=True)
    job_cost_s = number("Time of a job before its repetitions, s.", 1.5)
    repetition_cost_s = number("Time of a repetition, s.", 0.02)
    exact = flag("Whether this time is known; if not, `repetitions` is an upper limit.")
    jobs = count(
        "Jobs of each stack that show a difference of 5 % in 80 % of cases.", 40, null=True
    )


class RepetitionSpreadSchema(Schema):
    """Spread between jobs if only the first repetitions counted."""

    repetitions = count("Number of repetitions that count.", 10)
    jobs = count("Number of jobs.", 10)
    sd_pct = number("Standard deviation of the jobs, %.", 3.0)
    low_pct = number("Lower end of its 95 % interval, %.", 2.0)
    high_pct = number("Upper end of its 95 % interval, %.", 5.0)


class SpreadRatioSchema(Schema):
    """Standard deviation of the jobs divided by that of the baseline's jobs."""

    ratio = number("Ratio of standard deviations.", 1.2)
    low = number("Lower end of its 95 % interval.", 0.8)
    high = number("Upper end of its 95 % interval.", 1.8)


class ReportedJobSchema(Schema):
    """One job."""

    observation_id = text("Identifier of the observation.", _DIGEST)
    rate = number("Rate in the unit of the series.", 9.4e10)
    elapsed_s = number("Duration of one call, s.", 0.003, null=True)
    at = text("When the job ended, as ISO 8601 in UTC.", "2026-01-01T00:00:00Z", null=True)
    left_out = text("Why comparisons leave the job out; null if it counts.", null=True)
    outlier = flag("Whether it lies far from the other jobs of its stack; outliers count.")


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


class ReportedStackSchema(GroupStackSchema):
    """A stack of a report."""

    quality = fields.Nested(StackQualitySchema, required=True)


class JobOrderSchema(Schema):
    """What the order of the jobs shows, on the host with most of them."""

    jobs = count("Number of jobs.", 20)
    hours = number("Time from the first job to the last, h.", 1.5)
    autocorrelation = number("Of neighbouring jobs, relative to their stacks.", 0.1)
    correlation_limit = number("Autocorrelation that chance alone gives (95 %).", 0.44)
    drift_pct = number("Change of the rate over the batch, %.", 1.0)
    drift_low_pct = number("Lower end of its 95 % interval, %.", -1.0)
    drift_high_pct = number("Upper end of its 95 % interval, %.", 3.0)
    step_times = texts("When the level changes, as ISO 8601 in UTC.", [])


class MissingMeasurementSchema(Schema):
    """Jobs without a usable measurement."""

    comparison_key = text("Comparison key.", _DIGEST)
    stack = text("Digest of the stack.", null=True)
    outcome = text("Outcome of the jobs.", "crashed")
    reason = text("Code of the crash or of the quarantine.", null=True)
    jobs = count("Number of jobs.", 1)


class ReportedSeriesSchema(GroupSchema):
    """One series of a report."""

    stacks = fields.List(fields.Nested(ReportedStackSchema), required=True)
    unknown_stacks = fields.List(fields.Nested(ReportedStackSchema), required=True)
    order = fields.Nested(JobOrderSchema, required=True, allow_none=True)
    missing = fields.List(fields.Nested(MissingMeasurementSchema), required=True)
    findings = texts("What the series shows, in sentences.", [])


class RatePointSchema(Schema):
    """Mean rate of a stack at one value of the parameter."""

    value = number("Value of the parameter.", 512.0)
    rate = number("Mean rate (geometric).", 9.4e10)
    low = number("Lower end of its 95 % interval.", 9.2e10, null=True)
    high = number("Upper end of its 95 % interval.", 9.6e10, null=True)
    jobs = count("Number of jobs.", 10)


class DifferencePointSchema(Schema):
    """Difference of a stack to the baseline at one value of the parameter."""

    value = number("Value of the parameter.", 512.0)
    difference_pct = number("Difference of the rates, %.", -15.0)
    low_pct = number("Lower end of its 95 % interval, %.", -18.0, null=True)
    high_pct = number("Upper end of its 95 % interval, %.", -12.0, null=True)
    jobs = count("Number of jobs of the smaller arm.", 10)


class CurveCrossingSchema(Schema):
    """Where a stack and the baseline are equally fast."""

    x = number("Value of the parameter, interpolated.", 700.0)
    low = number("Lower end of its 95 % interval; null if nothing bounds it.", 500.0, null=True)
    high = number("Upper end of its 95 % interval; null if nothing bounds it.", 900.0, null=True)


class StackCurveSchema(Schema):
    """One stack over the parameter."""

    label = text("Name for people.", "numpy 2.4.6 (1f2e3d4c)")
    stack_digest = text("Digest of the stack.", _DIGEST)
    points = fields.List(fields.Nested(RatePointSchema), required=True)
    differences = fields.List(fields.Nested(DifferencePointSchema), required=True)
    crossings = fields.List(fields.Nested(CurveCrossingSchema), required=True)


class AxisKeySchema(Schema):
    """One measured value of the parameter."""

    value = number("Value of the parameter.", 512.0)
    comparison_key = text("Comparison key of its series.", _DIGEST)


class RepetitionBatchSchema(Schema):
    """Jobs with one number of repetitions."""

    label = text("Name of the batch.", "500 repetitions")
    repetitions = count("Repetitions of a job.", 500)
    jobs = count("Number of jobs.", 296)
    median = number("Median rate.", 293.7)
    mean = number("Mean rate.", 288.3)
    sd = number("Standard deviation of the rates.", 19.6)
    cv = number("Coefficient of variation.", 0.07)
    ratio = number("Standard deviation divided by the smallest one.", 1.1, null=True)
    ratio_low = number("Lower end of its 95 % interval.", 0.96)
    ratio_high = number("Upper end of its 95 % interval.", 1.21, null=True)
    fitted_sd = number("Standard deviation that repetitions explain.", 20.9)
    departs = flag("Whether the batch varies more than repetitions explain.")


class RepetitionBatchesSchema(Schema):
    """Batches of one stack that differ in their number of repetitions."""

    label = text("Name of the stack.", "numpy 2.4.6 (1f2e3d4c)")
    unit = text("Unit of the rates.", "GFLOPS")
    best_repetitions = count("Repetitions of the batch with the smallest deviation.", 2000)
    sufficient_repetitions = count("Smallest number that cannot be told from the best.", 500)
    within_sd_pct = number("Standard deviation of one repetition, %.", 71.0)
    between_sd_pct = number("Standard deviation between jobs, without repetitions, %.", 6.7)
    advice = fields.Nested(RepetitionAdviceSchema, required=True, allow_none=True)
    batches = fields.List(fields.Nested(RepetitionBatchSchema), required=True)
    findings = texts("What the batches show, in sentences.", [])


class ParameterAxisSchema(Schema):
    """Performance over one parameter, or over the number of threads."""

    name = text("Name of the parameter.", "matrix_size")
    indicator = text("Name of the indicator.", "PiMatmul")
    unit = text("Unit of the rates.", "FLOP/s")
    parameters = json_object("The other parameters.")
    device = text("Device that the indicator ran on.", "cpu", null=True)
    python_version = text("Version of the Python interpreter.", "3.11", null=True)
    hardware = fields.Nested(HardwareNameSchema, required=True)
    keys = fields.List(fields.Nested(AxisKeySchema), required=True)
    baseline = text("Digest of the stack that others are compared with.", _DIGEST, null=True)
    curves = fields.List(fields.Nested(StackCurveSchema), required=True)
    batches = fields.List(fields.Nested(RepetitionBatchesSchema), required=True)
    findings = texts("What the axis shows, in sentences.", [])


class ReportFamilySchema(Schema):
    """Comparisons that share one error rate."""

    comparisons = count("Number of comparisons.", 5)
    error_rate = number("Chance of even one false claim among them.", 0.05)


class QualityReportSchema(FreshnessSchema):
    """A report on the quality of measurements."""

    version = count("Version of this document.", 1)
    family = fields.Nested(ReportFamilySchema, required=True)
    series = fields.List(fields.Nested(ReportedSeriesSchema), required=True)
    axes = fields.List(fields.Nested(ParameterAxisSchema), required=True)


blueprint = Resources("reports", __name__, description="Quality of measurements.")

_SERIES = Cursor("reports", {"comparison_key": str})


@blueprint.route("/reports")
class ReportsResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ReportListQuerySchema, location="query")
    @blueprint.response(200, SeriesPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
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
class ReportResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ReportQuerySchema, location="query")
    @blueprint.response(200, QualityReportSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], comparison_key: str) -> dict[str, Any]:
        """Report on the quality of one series.

        The report has the distribution of the jobs by stack, variance within and between jobs,
        drift, jobs that do not count, and the number of repetitions that suffices. If other series
        differ in one numeric parameter only, it also has the performance over that parameter.
        """
        return _report(comparison_key, query)


def _kept_series(connection: Connection, **selection: Any) -> list[SeriesSettings]:
    """:func:`browse_series`, which counts all measurements, computed once for each state."""
    key = ("series", *sorted(selection.items()))
    return service().record_cache.value(
        connection, key, lambda: browse_series(connection, **selection)
    )


def _report(comparison_key: str, query: dict[str, Any]) -> dict[str, Any]:
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
