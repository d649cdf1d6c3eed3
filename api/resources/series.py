"""Histories of series: measurements in the order of time, with the steps of their machines."""

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from marshmallow import fields

from adviser.changes import HistoryJob, HistoryRun, HistoryStep, SeriesHistory, series_history
from api.access import needs
from api.http.errors import not_found
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    count,
    filter_text,
    page_limit,
    schema_of,
    texts,
)
from api.resources.base import Resources, freshness, whole_digest
from api.resources.stacks import HARDWARE
from graph.record.access import Scope
from graph.record.measurements import measured_observations
from model.declared_fields import document_of
from model.measurements.evidence import MeasuredObservation, Series


class SeriesQuerySchema(StrictSchema):
    """Selects a part of the history."""

    python = filter_text("Python version; default: the version with most observations.", "3.11")
    limit = page_limit(
        "Maximum number of observations; older inspections are left out.", 1000, 10_000
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
@needs(Scope.READ)
@blueprint.arguments(SeriesQuerySchema, location="query")
@blueprint.response(200, SeriesHistorySchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_series(query: dict[str, Any], comparison_key: str) -> dict[str, Any]:
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
