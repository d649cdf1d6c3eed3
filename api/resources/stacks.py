"""Stacks, and comparisons of two stacks."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from adviser.scoring.comparisons import Comparison
from adviser.scoring.next_jobs import FurtherJobs
from adviser.stack_comparison import (
    DifferingPackage,
    RecentHistory,
    StackGroup,
    StackResult,
    stack_label,
)
from api.access import needs, token
from api.http.comparison_cache import SeriesFilter
from api.http.request_context import reading
from api.http.schema_fields import (
    PageQuerySchema,
    filter_text,
    fresh,
    number,
    page_limit,
    page_of,
    query_of,
    schema_of,
    text,
)
from api.resources.base import (
    DIGEST,
    Cursor,
    Resources,
    filters,
    freshness,
    members,
    or_404,
    page,
    whole_digest,
)
from api.resources.packages import ReleaseNameSchema
from api.store_access import service
from graph.record import stacks as record
from graph.record.access import Scope
from graph.record.measurements import components_of
from graph.record.observations import common_keys, newest_series
from graph.record.stacks import StackFilter, StackHead
from model.measurements.evidence import HardwareName, Series

#: What the parameter `baseline` of groups and reports selects.
BASELINE_DESCRIPTION = (
    "Digest of the stack to compare with, or `newest` for the newest release of the component. By"
    " default, and in series without that stack, it is the stack with the most jobs; ties go to"
    " the newest release."
)


StackQuerySchema = query_of("StackQuery", StackFilter)
StackItemSchema = schema_of(
    "StackItem",
    StackHead,
    label=text("Name for people: the package that it was inspected for.", "numpy 2.4.6 (1f2e3d4c)"),
)
StackPageSchema = page_of("StackPage", StackItemSchema)
StackDocumentSchema = fresh(
    "StackDocument",
    StackItemSchema,
    packages=fields.List(fields.Nested(ReleaseNameSchema), required=True),
)


class ComparisonQuerySchema(PageQuerySchema):
    """Selects the two stacks."""

    limit = page_limit("Maximum number of comparison keys on the page.", 10, 50)
    baseline = filter_text("Digest of the baseline stack.", DIGEST, required=True)
    candidate = filter_text("Digest of the candidate stack.", DIGEST, required=True)
    indicator = filter_text("Name of the indicator.", "PiMatmul")
    hardware = filter_text("Digest of the hardware class.", DIGEST)


HardwareNameSchema = schema_of("HardwareName", HardwareName)
DifferingPackageSchema = schema_of("DifferingPackage", DifferingPackage)
EffectSchema = schema_of("Effect", Comparison)
FLOP_PER_S = number("Median rate in FLOP/s, if that is the unit.", 9.4e10, null=True)
GroupStackSchema = schema_of("GroupStack", StackResult, median_flop_per_s=FLOP_PER_S)
ComparedStackSchema = Schema.from_dict(
    {it: field for it, field in GroupStackSchema._declared_fields.items() if it != "comparison"},
    name="ComparedStackSchema",
)


HARDWARE = fields.Nested(HardwareNameSchema, required=True)
ComparisonItemSchema = schema_of(
    "ComparisonItem",
    Series,
    hardware=HARDWARE,
    delta_pct=number("Differences up to this count as equivalent, %.", 2.0),
    baseline=fields.Nested(ComparedStackSchema, required=True),
    candidate=fields.Nested(ComparedStackSchema, required=True),
    effect=fields.Nested(EffectSchema, required=True),
)
ComparisonPageSchema = page_of("ComparisonPage", ComparisonItemSchema)


class GroupQuerySchema(PageQuerySchema):
    """Filters for groups of comparable stacks."""

    limit = page_limit("Maximum number of groups on the page.", 10, 50)
    indicator = filter_text("Name of the indicator.", "PiMatmul")
    hardware = filter_text("Digest of the hardware class.", DIGEST)
    package = filter_text("Package that the indicator measures.", "numpy")
    stack = filter_text(
        "Digest of a stack: compare only the series in which it was measured. These comparisons"
        " share one error rate, so a verdict may differ from the verdict without this filter.",
        DIGEST,
    )
    baseline = filter_text(BASELINE_DESCRIPTION, "newest")
    newest = fields.Integer(
        validate=validate.Range(1, 50),
        metadata={
            "description": "Compare only the series that were measured last, up to this number and"
            " with at most 2,000 measurements together. Larger series are left out. These"
            " comparisons share one error rate, so a verdict may differ from the verdict without"
            " this filter.",
            "example": 10,
        },
    )


class GroupBaselineSchema(Schema):
    """The stack that other stacks of its group are compared with."""

    stack_digest = text("Digest of the stack.", DIGEST)
    reason = text(
        "Why this stack is the baseline.", "the reference, because it has the most jobs (50)"
    )


NextJobsSchema = schema_of("NextJobs", FurtherJobs)
RecentHistorySchema = schema_of("RecentHistory", RecentHistory)
GROUP_BASELINE = fields.Nested(GroupBaselineSchema, required=True, allow_none=True)
GroupSchema = schema_of("Group", StackGroup, hardware=HARDWARE, baseline=GROUP_BASELINE)
GroupPageSchema = page_of("GroupPage", GroupSchema)


blueprint = Resources("stacks", __name__, description="Measured and recommended stacks.")

#: Maximum number of measurements of the newest series; comparing them takes some 0.05 s.
_MOST_OF_NEWEST = 2_000
_STACKS = Cursor("stacks", {"digest": str})
_COMPARISONS = Cursor("comparisons", {"comparison_key": str})
_GROUPS = Cursor("comparison-groups", {"place": int})


@blueprint.route("/stacks")
@needs(Scope.READ)
@blueprint.arguments(StackQuerySchema, location="query")
@blueprint.response(200, StackPageSchema)
def get_stacks(query: dict[str, Any]) -> dict[str, Any]:
    """List measured stacks and stacks recommended to this token, ordered by digest.

    A token with the scope `admin` sees all recommended stacks.
    """
    wanted = record.StackFilter(**filters(query))
    with reading() as (connection, progress):
        client = token()
        everything = client is not None and client.may(Scope.ADMIN)
        seen_by = record.StackVisibility(client.token_id if client else None, everything)
        find = partial(record.browse_stacks, connection, wanted, seen_by=seen_by)
        listed = page(query, _STACKS, find, progress)
        labels = stack_labels(connection, [it.digest for it in listed["items"]])
    items = [{**members(it), "label": labels[it.digest]} for it in listed["items"]]
    return {**listed, "items": items}


@blueprint.route("/stacks/<string:digest>")
@needs(Scope.READ)
@blueprint.response(200, StackDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_stack(digest: str) -> dict[str, Any]:
    """Get one stack with its packages."""
    with reading() as (connection, progress):
        stack = or_404(record.stack_named(connection, whole_digest(digest)), "stack", digest)
        packages = record.packages_in(connection, stack.digest)
        labels = stack_labels(connection, [stack.digest])
    return {
        **members(stack), "label": labels[stack.digest], "packages": packages,
        **freshness(progress),
    }  # fmt: skip


@blueprint.route("/comparisons")
@needs(Scope.READ)
@blueprint.arguments(ComparisonQuerySchema, location="query")
@blueprint.response(200, ComparisonPageSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_comparisons(query: dict[str, Any]) -> dict[str, Any]:
    """Compare two stacks by every comparison key that both were measured with.

    The comparisons are those of `thoth stacks` with the same baseline, indicator and hardware.
    P-values are adjusted over all of these, so a verdict depends neither on the candidate nor
    on the page. To compare by one indicator only, set the filter `indicator`.
    """
    selection = filters(query)
    stacks = whole_digest(selection.pop("baseline")), whole_digest(selection.pop("candidate"))
    with reading() as (connection, progress):
        for digest in stacks:
            or_404(record.stack_named(connection, digest), "stack", digest)
        find = partial(common_keys, connection, stacks, **selection)
        keys = page(query, _COMPARISONS, find, progress, lambda key: (key,))
        wanted = SeriesFilter(**selection)
        compared = _compared(connection, stacks, keys["items"], wanted)
        return {**keys, "items": list(compared)}


@blueprint.route("/comparison-groups")
@needs(Scope.READ)
@blueprint.arguments(GroupQuerySchema, location="query")
@blueprint.response(200, GroupPageSchema)
def get_comparison_groups(query: dict[str, Any]) -> dict[str, Any]:
    """List measured stacks by comparison key, each compared with the baseline of its group.

    The comparisons are those of `thoth stacks` with the same filters. All groups that the
    filters admit share an error rate, so a verdict does not depend on the page.
    """
    selection = filters(query)
    baseline = selection.pop("baseline", None)
    with reading() as (connection, progress):
        keys = None
        if (newest := selection.pop("newest", None)) is not None:
            keys = service().record_value(
                connection,
                ("newest series", newest),
                lambda: newest_series(connection, newest, _MOST_OF_NEWEST),
            )
        elif "stack" in selection:
            keys = tuple(common_keys(connection, [selection["stack"]], limit=None))
        wanted = SeriesFilter(**selection)
        family = service().comparisons.family(connection, baseline, keys, wanted)

        def find(after: int | None, limit: int) -> range:
            first = 0 if after is None else after + 1
            return range(len(family.series))[first : first + limit]

        places = page(query, _GROUPS, find, progress, lambda it: (it,))
    return {**places, "items": family.groups(places["items"])}


def stack_labels(connection: Connection, digests: Collection[str]) -> dict[str, str]:
    """Name of each stack for people, by digest."""
    components = components_of(connection, digests)
    return {it: stack_label(*components.get(it, (None, None)), it) for it in digests}


def _compared(
    connection: Connection, stacks: tuple[str, str], keys: Sequence[str], wanted: SeriesFilter
) -> Iterator[dict[str, Any]]:
    """The comparisons of a page.

    All comparisons with the baseline that the filter admits form one family of tests: the size of a
    page must not change a verdict.
    """
    if not keys or stacks[0] == stacks[1]:
        return
    family = service().comparisons.family(connection, stacks[0], wanted=wanted)
    # A key may cover several Python versions, and a stack may lack some of them.
    places = [
        place
        for place, it in enumerate(family.series)
        if it.series.comparison_key in keys and all(map(it.has, stacks))
    ]
    for group in sorted(family.groups(places), key=lambda it: it["comparison_key"]):
        by_digest = {it["stack_digest"]: it for it in group["stacks"]}
        baseline, candidate = (by_digest[it] for it in stacks)
        effect = candidate["comparison"]
        yield {**group, "baseline": baseline, "candidate": candidate, "effect": effect}
