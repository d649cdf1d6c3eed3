"""Results of benchmarks: of other systems, and of our own inspections."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import fields

from api.access.authentication import needs
from api.http.paging import Cursor, page
from api.http.request_context import reading
from api.http.schema_fields import page_of, query_of, schema_of, text
from api.resources.base import Resources
from graph.record.access import Scope
from graph.record.benchmark_list import benchmark_results
from graph.record.benchmark_results import BenchmarkFilter
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
class BenchmarksResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(BenchmarkQuerySchema, location="query")
    @blueprint.response(200, BenchmarkPageSchema)
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
