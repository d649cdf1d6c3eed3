"""Searches of ``thoth bisect``."""

from datetime import datetime
from typing import Any

from marshmallow import Schema, fields

from adviser.bisect.search import SearchState, StopReason
from api.access import needs
from api.http.request_context import reading
from api.http.schema_fields import (
    choice,
    count,
    filter_choice,
    flag,
    fresh,
    moment,
    number,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.resources.base import Cursor, Resources, browse_page, filters, freshness, members, or_404
from graph.record.access import Scope
from graph.record.bisects import (
    Bisect,
    BisectFilter,
    RecordedBisect,
    bisect_named,
    browse_bisects,
)

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


blueprint = Resources("bisects", __name__, description="Searches for the release of a change.")

_BISECTS = Cursor("bisects", {"started_at": datetime, "bisect_id": str})


@blueprint.route("/bisects")
@needs(Scope.READ)
@blueprint.arguments(BisectQuerySchema, location="query")
@blueprint.response(200, BisectPageSchema)
def get_bisects(query: dict[str, Any]) -> dict[str, Any]:
    """List the searches of `thoth bisect`, last started first."""
    wanted = BisectFilter(**filters(query))
    entries = browse_page(query, _BISECTS, browse_bisects, wanted)
    return {**entries, "items": [_item(it) for it in entries["items"]]}


@blueprint.route("/bisects/<string:bisect_id>")
@needs(Scope.READ)
@blueprint.response(200, BisectDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_bisect(bisect_id: str) -> dict[str, Any]:
    """Get one search with its posterior."""
    with reading() as (connection, progress):
        bisect = or_404(bisect_named(connection, bisect_id), "search", bisect_id)
    return {**_item(bisect), **freshness(progress)}


def _item(bisect: RecordedBisect) -> dict[str, Any]:
    last = bisect.searches[-1]["sentence"] if bisect.searches else None
    return {**members(bisect), "sentence": last}
