"""Results of other benchmark systems and of our own inspections."""

from typing import Any

from marshmallow import fields

from api.access import needs
from api.http.schema_fields import page_of, query_of, schema_of, text
from api.resources.base import Cursor, Resources, browse_page
from graph.record.access import Scope
from graph.record.benchmark_results import BenchmarkFilter, benchmark_results
from model.measurements.benchmark_results import (
    BenchmarkResult,
    MeasuredFile,
    Metric,
    Validity,
    result_document,
)
from pis.metrics import shared_metrics

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


blueprint = Resources("benchmarks", __name__, description="Results of benchmarks.")

_RESULTS = Cursor("benchmarks", {"own": int, "entry_id": str, "position": int})


@blueprint.route("/benchmarks")
@needs(Scope.READ)
@blueprint.arguments(BenchmarkQuerySchema, location="query")
@blueprint.response(200, BenchmarkPageSchema)
def get_benchmarks(query: dict[str, Any]) -> dict[str, Any]:
    """List results of other benchmark systems and of our own inspections.

    Results of other systems never decide advice.
    """
    selection = {it: query[it] for it in query if it not in ("limit", "after")}
    if "validity" in selection:
        selection["validity"] = Validity(selection["validity"])
    chosen = BenchmarkFilter(**selection)
    results = browse_page(query, _RESULTS, benchmark_results, chosen, shared_metrics())
    items = [
        {**result_document(it.result), "measured_at": it.result.measured_at}
        for it in results["items"]
    ]
    return {**results, "items": items}
