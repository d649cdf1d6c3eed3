"""Settled changes of performance with their feeds, and series in the order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import orjson
from flask import Response, request, url_for
from flask.views import MethodView
from marshmallow import fields, validate

from adviser.changes.documents import change_text, change_title
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
from api.resources.base import Resources, filters, members, package_name, whole_digest
from api.resources.stacks import HARDWARE
from graph.record import changes as record
from graph.record.changes import ChangeFilter
from graph.record.measurements import measured_observations
from graph.record.tokens import Scope
from model.changes import PerformanceChange, RecordedChange
from model.declared_documents import document_of
from model.json_documents import as_json_time
from model.measurements.evidence import MeasuredObservation, Series

#: Namespace of the identifiers in feeds; the digest of an entry follows.
_URN = "urn:thoth:change:"
_ATOM = "http://www.w3.org/2005/Atom"
_TITLE = "Thoth: changes of performance"
#: Media types of the two feeds (RFC 4287; JSON Feed 1.1).
ATOM_TYPE, JSON_FEED_TYPE = "application/atom+xml", "application/feed+json"

ChangeQuerySchema = query_of("ChangeQuery", ChangeFilter)


class FeedQuerySchema(StrictSchema):
    """Filters for feeds."""

    package = filter_text("Name of the package.", "numpy")
    limit = fields.Integer(
        load_default=50,
        validate=validate.Range(1, 500),
        metadata={"description": "Maximum number of entries.", "example": 50},
    )


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


@blueprint.route("/changes/feed.atom")
class ChangesAtomResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(FeedQuerySchema, location="query")
    @blueprint.response(200, content_type=ATOM_TYPE)
    def get(self, query: dict[str, Any]) -> Response:
        """Get the newest changes as an Atom feed (RFC 4287)."""
        return _feed(query, _atom, ATOM_TYPE)


@blueprint.route("/changes/feed.json")
class ChangesJsonFeedResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(FeedQuerySchema, location="query")
    @blueprint.response(200, content_type=JSON_FEED_TYPE)
    def get(self, query: dict[str, Any]) -> Response:
        """Get the newest changes as a JSON Feed (version 1.1)."""
        return _feed(query, _json_feed, JSON_FEED_TYPE)


def _item(change: RecordedChange) -> dict[str, Any]:
    return {**members(change), "title": change_title(change)}


def _feed(query: dict[str, Any], written: Any, media_type: str) -> Response:
    package = query.get("package")
    name = None if package is None else package_name(package)
    with reading() as (connection, _):
        wanted = record.ChangeFilter(package=name)
        listed = record.browse_changes(connection, wanted, limit=query["limit"])
    response = Response(written(listed), content_type=f"{media_type}; charset=utf-8")
    response.last_modified = _updated(listed)
    return response


def _updated(listed: Sequence[RecordedChange]) -> datetime:
    """Time of the newest entry; without entries, the beginning of time, so that tags are stable."""
    return max((it.recorded_at for it in listed), default=datetime.fromtimestamp(0, UTC))


def _page_url(change: RecordedChange) -> str:
    return url_for("v2-changes.ChangeResource", change_id=change.change_id, _external=True)


def _clean(value: str) -> str:
    """Text without the control characters that XML 1.0 forbids."""
    return "".join(it for it in value if it in "\t\n" or (it >= " " and it not in "\ufffe\uffff"))


def _atom(listed: Sequence[RecordedChange]) -> bytes:
    feed = Element("feed", xmlns=_ATOM)
    SubElement(feed, "id").text = request.base_url
    SubElement(feed, "title").text = _TITLE
    SubElement(feed, "updated").text = as_json_time(_updated(listed))
    SubElement(SubElement(feed, "author"), "name").text = "Thoth"
    SubElement(feed, "link", rel="self", type=ATOM_TYPE, href=request.url)
    for change in listed:
        recorded = as_json_time(change.recorded_at)
        entry = SubElement(feed, "entry")
        SubElement(entry, "id").text = _URN + change.change_id
        SubElement(entry, "title").text = _clean(change_title(change))
        SubElement(entry, "published").text = recorded
        SubElement(entry, "updated").text = recorded
        SubElement(entry, "link", rel="alternate", href=_page_url(change))
        if change.refers_to is not None:
            SubElement(entry, "link", rel="related", href=_URN + change.refers_to)
        SubElement(entry, "category", term=change.event.value)
        SubElement(entry, "content", type="text").text = _clean(change_text(change))
    document: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return document


def _json_feed(listed: Sequence[RecordedChange]) -> bytes:
    items = [
        {
            "id": _URN + change.change_id,
            "url": _page_url(change),
            "title": change_title(change),
            "content_text": change_text(change),
            "date_published": as_json_time(change.recorded_at),
            "tags": [change.kind.value, change.event.value],
        }
        for change in listed
    ]
    return orjson.dumps(
        {
            "version": "https://jsonfeed.org/version/1.1",
            "title": _TITLE,
            "feed_url": request.url,
            "items": items,
        }
    )


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
