"""Series: everything measured with one comparison key, in the order of time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from flask.views import MethodView
from marshmallow import fields, validate

from adviser.series_history import (
    HistoryJob,
    HistoryRun,
    HistoryStep,
    SeriesHistory,
    series_history,
)
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    count,
    described,
    filter_text,
    schema_of,
    texts,
)
from api.resources.base import Resources, whole_digest
from api.resources.stacks import HARDWARE
from graph.record.measurements import measured_observations
from graph.record.tokens import Scope
from model.declared_documents import document_of
from model.measurements.evidence import MeasuredObservation, Series

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


class SeriesQuerySchema(StrictSchema):
    """Selects a part of the history."""

    python = filter_text("Python version; default: the one with most observations.", "3.11")
    limit = fields.Integer(
        load_default=1000,
        validate=validate.Range(1, 10_000),
        metadata=described("Maximum number of observations; older inspections are left out.", 1000),
    )


HistoryJobSchema = schema_of("HistoryJob", HistoryJob)
HistoryRunSchema = schema_of("HistoryRun", HistoryRun)
HistoryStepSchema = schema_of("HistoryStep", HistoryStep)


SeriesHistorySchema = schema_of(
    "SeriesHistory",
    Series,
    base=FreshnessSchema,
    hardware=HARDWARE,
    python_versions=texts("All Python versions with this comparison key.", ["3.11"]),
    observations=count("Number of all observations of the series.", 40),
    runs=fields.List(fields.Nested(HistoryRunSchema), required=True),
    steps=fields.List(fields.Nested(HistoryStepSchema), required=True),
)

blueprint = Resources("series", __name__, description="Measurements in the order of time.")


@blueprint.route("/series/<string:comparison_key>")
class SeriesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(SeriesQuerySchema, location="query")
    @blueprint.response(200, SeriesHistorySchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], comparison_key: str) -> dict[str, Any]:
        """Get the history of a series, with the steps in the speed of its machines."""
        key = whole_digest(comparison_key)
        with reading() as (connection, progress):
            by_python: dict[str | None, list[MeasuredObservation]] = defaultdict(list)
            for it in measured_observations(connection, keys=[key]):
                by_python[it.series.python_version].append(it)
        python = query.get("python") or max(
            by_python, key=lambda it: (len(by_python[it]), it or ""), default=None
        )
        if not by_python.get(python):
            raise not_found("series", comparison_key)
        document = _document(series_history(by_python[python]), query["limit"])
        names = sorted(it for it in by_python if it is not None)
        return {**document, "python_versions": names, **freshness(progress)}


def _document(history: SeriesHistory, limit: int) -> dict[str, Any]:
    series = history.series
    kept: list[HistoryRun] = []
    observations = 0
    for run in reversed(history.runs):
        observations += len(run.jobs)
        if kept and observations > limit:
            break
        kept.append(run)
    return {
        **document_of(series),
        "hardware": {"digest": series.hardware_digest, "label": history.hardware_label},
        "observations": sum(len(it.jobs) for it in history.runs),
        "runs": [asdict(it) for it in reversed(kept)],
        "steps": [asdict(it) for it in history.steps],
    }
