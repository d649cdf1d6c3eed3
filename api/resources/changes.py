"""Settled changes of performance, and series in the order of time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import fields, validate

from adviser.changes import change_title
from adviser.series_history import (
    HistoryJob,
    HistoryRun,
    HistoryStep,
    SeriesHistory,
    series_history,
)
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import Cursor, freshness, page
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    count,
    described,
    filter_text,
    fresh,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import Resources, filters, members, whole_digest
from api.resources.stacks import HARDWARE
from graph.record import changes as record
from graph.record.access import Scope
from graph.record.changes import ChangeFilter
from graph.record.measurements import measured_observations
from model.changes import PerformanceChange, RecordedChange
from model.declared_fields import document_of
from model.measurements.evidence import MeasuredObservation, Series

ChangeQuerySchema = query_of("ChangeQuery", ChangeFilter)


ChangeSchema = schema_of(
    "Change",
    PerformanceChange,
    RecordedChange,
    title=text("The change in one line.", "numpy 2.0.2 → 2.3.5: 25 % faster in PiConv2D"),
)
ChangePageSchema = page_of("ChangePage", ChangeSchema)
ChangeDocumentSchema = fresh("ChangeDocument", ChangeSchema)

blueprint = Resources("changes", __name__, description="Settled changes of performance.")

_CHANGES = Cursor("changes", {"number": int})


@blueprint.route("/changes")
class ChangesResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(ChangeQuerySchema, location="query")
    @blueprint.response(200, ChangePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List settled changes of performance, newest first.

        An entry is never edited: later evidence makes a new entry that refers to the announcement.
        """
        selection = filters(query)
        if "refers_to" in selection:
            selection["refers_to"] = whole_digest(selection["refers_to"])
        with reading() as (connection, progress):
            find = partial(record.browse_changes, connection, record.ChangeFilter(**selection))
            entries = page(query, _CHANGES, find, progress)
            return {**entries, "items": [_item(it) for it in entries["items"]]}


@blueprint.route("/changes/<string:change_id>")
class ChangeResource(MethodView):
    @needs(Scope.READ)
    @blueprint.response(200, ChangeDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, change_id: str) -> dict[str, Any]:
        """Get one entry."""
        with reading() as (connection, progress):
            change = record.change_named(connection, whole_digest(change_id))
        if change is None:
            raise not_found("change", change_id)
        return {**_item(change), **freshness(progress)}


def _item(change: RecordedChange) -> dict[str, Any]:
    return {**members(change), "title": change_title(change)}


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

series_routes = Resources("series", __name__, description="Measurements in the order of time.")


@series_routes.route("/series/<string:comparison_key>")
class SeriesResource(MethodView):
    @needs(Scope.READ)
    @series_routes.arguments(SeriesQuerySchema, location="query")
    @series_routes.response(200, SeriesHistorySchema)
    @series_routes.alt_response(404, "NOT_FOUND")
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
