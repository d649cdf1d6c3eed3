"""Settled changes of performance, searches of ``thoth bisect``, and histories of series."""

from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from typing import Any

from marshmallow import Schema, fields

from adviser.bisect.search import SearchState, StopReason
from adviser.changes import (
    HistoryJob,
    HistoryRun,
    HistoryStep,
    SeriesHistory,
    change_title,
    series_history,
)
from api.access import needs
from api.http.errors import not_found
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    choice,
    count,
    filter_choice,
    filter_text,
    flag,
    fresh,
    moment,
    number,
    page_limit,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import (
    Cursor,
    Resources,
    browse_page,
    filters,
    freshness,
    members,
    or_404,
    whole_digest,
)
from api.resources.stacks import HARDWARE
from graph.record import changes as record
from graph.record.access import Scope
from graph.record.changes import Bisect, BisectFilter, ChangeFilter
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
@needs(Scope.READ)
@blueprint.arguments(ChangeQuerySchema, location="query")
@blueprint.response(200, ChangePageSchema)
def get_changes(query: dict[str, Any]) -> dict[str, Any]:
    """List settled changes of performance, newest first.

    An entry is never edited: later evidence makes a new entry that refers to the announcement.
    """
    selection = filters(query)
    if "refers_to" in selection:
        selection["refers_to"] = whole_digest(selection["refers_to"])
    entries = browse_page(query, _CHANGES, record.browse_changes, record.ChangeFilter(**selection))
    return {**entries, "items": [_item(it) for it in entries["items"]]}


@blueprint.route("/changes/<string:change_id>")
@needs(Scope.READ)
@blueprint.response(200, ChangeDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_change(change_id: str) -> dict[str, Any]:
    """Get one entry."""
    with reading() as (connection, progress):
        change = or_404(
            record.change_named(connection, whole_digest(change_id)), "change", change_id
        )
    return {**_item(change), **freshness(progress)}


def _item(change: RecordedChange) -> dict[str, Any]:
    return {**members(change), "title": change_title(change)}


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

series_routes = Resources("series", __name__, description="Measurements in the order of time.")


@series_routes.route("/series/<string:comparison_key>")
@needs(Scope.READ)
@series_routes.arguments(SeriesQuerySchema, location="query")
@series_routes.response(200, SeriesHistorySchema)
@series_routes.alt_response(404, "NOT_FOUND")
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


_STATES = [it.value for it in SearchState]


BisectQuerySchema = query_of(
    "BisectQuery", BisectFilter, state=filter_choice("State of the search.", _STATES)
)


class SearchStoppedSchema(Schema):
    """Why a search ended without an answer."""

    reason = choice("The reason.", [it.value for it in StopReason])
    message = text("The reason for people.", "the limit of 200 jobs was reached")


class StepConfirmationSchema(Schema):
    """The comparison of the two stacks around the step, on jobs measured after it was located."""

    verdict = text("The verdict on the stack after the step.", "slower")
    difference_pct = number("Difference of the stack after, %; null if unknown.", -8.1, null=True)
    interval_low_pct = number("Lower end of its 95 % interval, %.", -9.5, null=True)
    interval_high_pct = number("Upper end of its 95 % interval, %.", -6.8, null=True)


class SkippedStackSchema(Schema):
    """A stack that could not be measured."""

    stack = text("The stack.", "numpy 1.24.0")
    reason = text("Why it could not be measured.", "no wheel for Python 3.12")


class RemainderSchema(Schema):
    """A further difference that one step does not explain."""

    noticed = flag("Whether the rest is probably not flat.")
    chance = number("The chance that there is a further difference.", 0.02)
    first = text("First stack of the most probable stretch that differs.", "numpy 1.25.0")
    last = text("Last stack of this stretch.", "numpy 1.26.0")
    difference_pct = number("Difference of this stretch, %; not confirmed.", 3.0)


class PossibleStepSchema(Schema):
    """A possible step."""

    after = text("The first stack after the step.", "numpy 1.26.0")
    chance = number("Its chance, given the jobs so far.", 0.93)
    difference_pct = number("Mean difference if the step is here, %.", -8.0)


class PosteriorSchema(Schema):
    """The distribution of the step, given the jobs so far."""

    none = number("The chance that there is no step of 3 % or more.", 0.01)
    noise_pct = number("Expected standard deviation of the jobs of a block, %.", 1.8)
    steps = fields.List(fields.Nested(PossibleStepSchema), required=True)


class DipSchema(Schema):
    """A stretch of stacks with another rate, which a later stack reverted."""

    difference_pct = number("Smallest difference of the stretch, %.", 10.0)
    width = count("Smallest number of stacks in the stretch.", 9)


class DipStatementSchema(Schema):
    """Which dips a search that found no step would have seen."""

    chance = number("The chance with which the search would have found each of these dips.", 0.95)
    visible = fields.List(fields.Nested(DipSchema), required=True)


class StepSearchSchema(Schema):
    """The search in one series of stacks."""

    series = choice("What differs between the stacks.", ["releases", "packages"])
    package = text("The package whose releases differ; null between locks.", "numpy", null=True)
    stacks = texts("The stacks, in order.", ["numpy 1.24.0", "numpy 1.25.0"])
    state = choice("State of this search.", _STATES)
    sentence = text("The answer, or the state so far, in one sentence.")
    stopped = fields.Nested(SearchStoppedSchema, required=True, allow_none=True)
    step = text("The step; null if there is none.", "numpy 1.25.2 → numpy 1.26.0", null=True)
    before = text("The stack before the step.", "numpy 1.25.2", null=True)
    after = text("The stack after the step.", "numpy 1.26.0", null=True)
    confirmation = fields.Nested(StepConfirmationSchema, required=True, allow_none=True)
    jobs = count("Number of measured jobs.", 44)
    search_jobs = count("Jobs that located the step.", 20)
    confirming_jobs = count("Fresh jobs that confirmed it.", 24)
    unusable_jobs = count("Jobs that failed or were unstable.", 0)
    skipped = fields.List(fields.Nested(SkippedStackSchema), required=True)
    remainder = fields.Nested(RemainderSchema, required=True, allow_none=True)
    #: Searches of earlier versions have none.
    dips = fields.Nested(DipStatementSchema, allow_none=True)
    posterior = fields.Nested(PosteriorSchema, required=True, allow_none=True)


BisectSummarySchema = schema_of(
    "BisectSummary",
    Bisect,
    state=choice("State of the last search.", _STATES),
    sentence=text("The answer, or the state so far, in one sentence.", null=True),
    updated_at=moment("When the state was last stored."),
)
BisectPageSchema = page_of("BisectPage", BisectSummarySchema)
BisectDocumentSchema = fresh(
    "BisectDocument",
    BisectSummarySchema,
    others=texts("Further requirements of every stack.", ["scipy"]),
    python_version=text("Python version; null for the command's version.", "3.11", null=True),
    index_name=text("Name of the package index.", "pypi"),
    command=text("Continues the search.", "thoth bisect 'numpy>=1.24,<2.4' --pi matmul"),
    searches=fields.List(fields.Nested(StepSearchSchema), required=True),
)


bisect_routes = Resources("bisects", __name__, description="Searches for the release of a change.")

_BISECTS = Cursor("bisects", {"started_at": datetime, "bisect_id": str})


@bisect_routes.route("/bisects")
@needs(Scope.READ)
@bisect_routes.arguments(BisectQuerySchema, location="query")
@bisect_routes.response(200, BisectPageSchema)
def get_bisects(query: dict[str, Any]) -> dict[str, Any]:
    """List the searches of `thoth bisect`, last started first."""
    wanted = record.BisectFilter(**filters(query))
    entries = browse_page(query, _BISECTS, record.browse_bisects, wanted)
    return {**entries, "items": [_bisect_item(it) for it in entries["items"]]}


@bisect_routes.route("/bisects/<string:bisect_id>")
@needs(Scope.READ)
@bisect_routes.response(200, BisectDocumentSchema)
@bisect_routes.alt_response(404, "NOT_FOUND")
def get_bisect(bisect_id: str) -> dict[str, Any]:
    """Get one search with its posterior."""
    with reading() as (connection, progress):
        bisect = or_404(record.bisect_named(connection, bisect_id), "search", bisect_id)
    return {**_bisect_item(bisect), **freshness(progress)}


def _bisect_item(bisect: record.RecordedBisect) -> dict[str, Any]:
    last = bisect.searches[-1]["sentence"] if bisect.searches else None
    return {**members(bisect), "sentence": last}
