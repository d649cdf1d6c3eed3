"""Settled changes of performance."""

from typing import Any

from adviser.changes import change_title
from api.access import needs
from api.http.request_context import reading
from api.http.schema_fields import fresh, page_of, query_of, schema_of, text
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
from graph.record.access import Scope
from graph.record.changes import ChangeFilter, browse_changes, change_named
from model.changes import PerformanceChange, RecordedChange

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
    entries = browse_page(query, _CHANGES, browse_changes, ChangeFilter(**selection))
    return {**entries, "items": [_item(it) for it in entries["items"]]}


@blueprint.route("/changes/<string:change_id>")
@needs(Scope.READ)
@blueprint.response(200, ChangeDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_change(change_id: str) -> dict[str, Any]:
    """Get one entry."""
    with reading() as (connection, progress):
        change = or_404(change_named(connection, whole_digest(change_id)), "change", change_id)
    return {**_item(change), **freshness(progress)}


def _item(change: RecordedChange) -> dict[str, Any]:
    return {**members(change), "title": change_title(change)}
