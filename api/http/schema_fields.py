"""Builders for the fields of schemas, and schemas that every resource shares."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from marshmallow import EXCLUDE, INCLUDE, RAISE, Schema, ValidationError, fields, validate

#: Maximum length of a text in a query; no stored name is longer.
_MAX_TEXT = 500
#: Default and maximum number of items on a page.
DEFAULT_LIMIT, MAX_LIMIT = 50, 500
#: Maximum page number. No record fills as many pages, and larger offsets overflow in PostgreSQL.
LAST_PAGE = 1_000_000


def text(description: str, example: str | None = None, *, null: bool = False) -> fields.String:
    """A string of a response."""
    return fields.String(required=True, allow_none=null, metadata=described(description, example))


def choice(description: str, values: list[str], *, null: bool = False) -> fields.String:
    """A string of a response with a fixed set of values."""
    allowed = validate.OneOf([*values, None] if null else values)
    metadata = described(description, values[0])
    return fields.String(required=True, allow_none=null, validate=allowed, metadata=metadata)


def texts(
    description: str, example: list[str] | None = None, *, null: bool = False
) -> fields.List[Any]:
    """A list of strings of a response."""
    metadata = described(description, example)
    return fields.List(fields.String(), required=True, allow_none=null, metadata=metadata)


def number(description: str, example: float | None = None, *, null: bool = False) -> fields.Float:
    """A numeric field of a response; its name or description states the unit."""
    return fields.Float(required=True, allow_none=null, metadata=described(description, example))


def count(description: str, example: int | None = None, *, null: bool = False) -> fields.Integer:
    """An integer of a response."""
    return fields.Integer(required=True, allow_none=null, metadata=described(description, example))


def flag(description: str, *, null: bool = False) -> fields.Boolean:
    """A boolean of a response."""
    return fields.Boolean(required=True, allow_none=null, metadata=described(description, False))


def moment(description: str, *, null: bool = False) -> fields.AwareDateTime:
    """A time of a response, with a time zone."""
    metadata = described(description, "2026-01-01T00:00:00+00:00")
    return fields.AwareDateTime(
        format="iso", default_timezone=UTC, required=True, allow_none=null, metadata=metadata
    )


class FilterMoment(fields.AwareDateTime):
    """A time in a query, in UTC: PostgreSQL refuses offsets of more than 15:59 hours."""

    def _deserialize(self, *arguments: Any, **more: Any) -> datetime:
        value: datetime = super()._deserialize(*arguments, **more)
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError("is outside of the years 1 to 9999 in UTC") from error


def filter_moment(description: str, example: str) -> FilterMoment:
    """A time by which a list is filtered; without an offset, it is in UTC."""
    return FilterMoment(
        format="iso", default_timezone=UTC, metadata=described(description, example)
    )


def json_object(description: str, *, null: bool = False) -> fields.Dict:
    """An object in a response; this service does not define its members."""
    metadata = {"description": description}
    return fields.Dict(keys=fields.String(), required=True, allow_none=null, metadata=metadata)


def filter_text(description: str, example: str | None = None, **more: Any) -> fields.String:
    """A filter of a query. If the client omits the filter, the loaded query lacks its key."""
    metadata = described(description, example)
    return fields.String(validate=validate.Length(1, _MAX_TEXT), metadata=metadata, **more)


def filter_choice(description: str, values: list[str]) -> fields.String:
    """A filter with a fixed set of values."""
    return fields.String(
        validate=validate.OneOf(values), metadata=described(description, values[0])
    )


def filter_flag(description: str) -> fields.Boolean:
    """A filter that is ``true`` or ``false``; other spellings are rejected."""
    metadata = {"description": description}
    return fields.Boolean(truthy={"true"}, falsy={"false"}, metadata=metadata)


def described(description: str, example: Any) -> dict[str, Any]:
    """Return the metadata of a field."""
    return {"description": description} | ({} if example is None else {"example": example})


class StrictSchema(Schema):
    """A body or query; unknown members are rejected, as a misspelt member would have no effect."""

    class Meta:
        unknown = RAISE


class LenientSchema(Schema):
    """A body or query from a client of the original service; unknown members are ignored."""

    class Meta:
        unknown = EXCLUDE


class PageQuerySchema(StrictSchema):
    """Selects a page of a list."""

    limit = fields.Integer(
        load_default=DEFAULT_LIMIT,
        validate=validate.Range(1, MAX_LIMIT),
        metadata={"description": "Maximum number of items on the page.", "example": 20},
    )
    after = fields.String(
        validate=validate.Length(1, 2000),
        metadata={"description": "Cursor of the page, from `next` of the previous page."},
    )


class FreshnessSchema(Schema):
    """How current the data of a response is."""

    as_of = moment("When the newest data was recorded; null if there is none.", null=True)
    graph_revision = count("The graph contains all changes up to this number.", 1804)


class PageSchema(FreshnessSchema):
    """A page of a list."""

    next = text(
        "URL of the next page; null on the last page.",
        "/api/v2/packages?after=WyJwYWNrYWdlcyIsImZsYXNrIl0&limit=20",
        null=True,
    )


def no_nul(value: str) -> None:
    """Refuse NUL characters, which PostgreSQL cannot store."""
    if "\0" in value:
        raise ValidationError("contains a NUL character")


class ResultDocumentSchema(Schema):
    """A report; docs/reference/report.md describes every key."""

    class Meta:
        unknown = INCLUDE

    metadata = fields.Dict(keys=fields.String(), required=True)
    result = fields.Dict(keys=fields.String(), required=True)
