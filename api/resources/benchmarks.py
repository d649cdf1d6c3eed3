"""Results of benchmarks: of other systems, and of our own inspections."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields

from api.access.authentication import needs
from api.http.paging import Cursor, page
from api.http.request_context import reading
from api.http.schema_fields import (
    PageQuerySchema,
    PageSchema,
    choice,
    count,
    filter_choice,
    filter_text,
    json_object,
    moment,
    number,
    text,
)
from api.resources.base import Resources
from graph.record.benchmark_list import BenchmarkFilter, benchmark_results
from graph.record.tokens import Scope
from model.measurements.benchmark_results import Aggregate, Direction, Validity, result_document
from pis.metrics import shared_metrics

_VALIDITIES = [it.value for it in Validity]


class BenchmarkQuerySchema(PageQuerySchema):
    """Filters for results."""

    system = filter_text("Key of the benchmark system; `thoth` for our own inspections.", "thoth")
    benchmark = filter_text("Name of the benchmark, in any case.", "resnet50")
    metric = filter_text("Name of the metric.", "median_rate")
    hardware = filter_text("Part of the name of a processor, an accelerator or a machine.", "V100")
    software = filter_text("Name of software that the result names.", "tensorflow")
    validity = filter_choice("Validity by the rules of the system.", _VALIDITIES)


class MeasuredFileSchema(Schema):
    """A file that a result was read from."""

    place = text("Path inside the source.", "dawnbench/CIFAR10/train/entry.json")
    sha256 = text("Digest of the content.", "1f2e3d4c5b6a7988" * 4)


class BenchmarkResultSchema(Schema):
    """One value of one metric."""

    system = text("Key of the benchmark system.", "thoth")
    source = text("Path of the file or folder; the name of one of our inspections.")
    benchmark = text("Task, model or operation.", "PiMatmul")
    parameters = json_object("Data set, phase, batch size and the like.")
    metric = text("Name of the metric.", "median_rate")
    unit = text("Unit of the value; empty for counts and fractions.", "GFLOPS")
    direction = choice("Which values are better.", [it.value for it in Direction])
    definition = text(
        "Only values with the same definition are comparable.", "mlperf-training-v0.6"
    )
    value = number("The value; null if nothing was measured.", 217.6, null=True)
    samples = fields.List(fields.Float(), required=True)
    aggregate = choice("How the value follows from its samples.", [it.value for it in Aggregate])
    validity = choice("Validity by the rules of the system.", _VALIDITIES)
    reason = text("Why the result is not valid, or which of its runs or jobs failed.", null=True)
    hardware = json_object("Names of the machine's parts.")
    accelerators = count("Number of accelerators; 0 for processors alone.", 8, null=True)
    software = json_object("Versions by name; null for an unknown version.")
    measured_at = moment("Start of the measurement.", null=True)
    files = fields.List(fields.Nested(MeasuredFileSchema), required=True)


class BenchmarkPageSchema(PageSchema):
    """Results: of other systems by entry, then our own by inspection."""

    items = fields.List(fields.Nested(BenchmarkResultSchema), required=True)


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
