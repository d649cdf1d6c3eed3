"""Builders for the fields of schemas, and schemas that every resource shares."""

from __future__ import annotations

from datetime import UTC
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
    """A string of a response that has one of a few values."""
    allowed = validate.OneOf([*values, None] if null else values)
    metadata = described(description, values[0])
    return fields.String(required=True, allow_none=null, validate=allowed, metadata=metadata)


def texts(description: str, example: list[str] | None = None) -> fields.List[Any]:
    """A list of strings of a response."""
    return fields.List(fields.String(), required=True, metadata=described(description, example))


def number(description: str, example: float | None = None, *, null: bool = False) -> fields.Float:
    """A number of a response; the name or the description has its unit."""
    return fields.Float(required=True, allow_none=null, metadata=described(description, example))


def count(description: str, example: int | None = None, *, null: bool = False) -> fields.Integer:
    """An integer of a response."""
    return fields.Integer(required=True, allow_none=null, metadata=described(description, example))


def flag(description: str, *, null: bool = False) -> fields.Boolean:
    """A boolean of a response."""
    return fields.Boolean(required=True, allow_none=null, metadata=described(description, False))


def moment(description: str, *, null: bool = False) -> fields.AwareDateTime:
    """A time of a response, with its zone."""
    metadata = described(description, "2026-01-01T00:00:00+00:00")
    return fields.AwareDateTime(
        format="iso", default_timezone=UTC, required=True, allow_none=null, metadata=metadata
    )


def json_object(description: str, *, null: bool = False) -> fields.Dict:
    """An object of a response with members that this service does not define."""
    metadata = {"description": description}
    return fields.Dict(keys=fields.String(), required=True, allow_none=null, metadata=metadata)


def filter_text(description: str, example: str | None = None, **more: Any) -> fields.String:
    """A filter of a query; the loaded query has no key for a filter that is not sent."""
    metadata = described(description, example)
    return fields.String(validate=validate.Length(1, _MAX_TEXT), metadata=metadata, **more)


def filter_choice(description: str, values: list[str]) -> fields.String:
    """A filter that has one of a few values."""
    return fields.String(
        validate=validate.OneOf(values), metadata=described(description, values[0])
    )


def filter_flag(description: str) -> fields.Boolean:
    """A filter that is ``true`` or ``false``; other spellings are refused."""
    metadata = {"description": description}
    return fields.Boolean(truthy={"true"}, falsy={"false"}, metadata=metadata)


def described(description: str, example: Any) -> dict[str, Any]:
    """The metadata of a field."""
    return {"description": description} | ({} if example is None else {"example": example})


class QuerySchema(Schema):
    """A query; unknown parameters are refused, because a misspelt filter would match too much."""

    class Meta:
        unknown = RAISE


class LenientSchema(Schema):
    """Input of clients of the original service, old and new; unknown members are ignored."""

    class Meta:
        unknown = EXCLUDE


class PageQuerySchema(QuerySchema):
    """Selects a page of a list."""

    limit = fields.Integer(
        load_default=DEFAULT_LIMIT,
        validate=validate.Range(1, MAX_LIMIT),
        metadata={"description": "Maximum number of items on the page.", "example": 20},
    )
    after = fields.String(
        validate=validate.Length(1, 2000),
        metadata={"description": "Cursor of the page, as `next` gives it."},
    )


class FreshnessSchema(Schema):
    """How current the data of a response is."""

    as_of = moment("When the newest data was recorded; null if there is none.", null=True)
    graph_revision = count("The graph contains all changes up to this number.", 1804)


class PageSchema(FreshnessSchema):
    """A page of a list."""

    next = text(
        "Address of the next page; null on the last page.",
        "/api/v2/packages?after=WyJwYWNrYWdlcyIsImZsYXNrIl0&limit=20",
        null=True,
    )


def no_nul(value: str) -> None:
    """Refuse NUL characters, which PostgreSQL cannot store."""
    if "\0" in value:
        raise ValidationError("contains a NUL character")


class StrictSchema(Schema):
    """A body; unknown members are refused, so that a misspelt one is noticed."""

    class Meta:
        unknown = RAISE


class ResultDocumentSchema(Schema):
    """A report; docs/reference/report.md describes every key."""

    class Meta:
        unknown = INCLUDE

    metadata = fields.Dict(keys=fields.String(), required=True)
    result = fields.Dict(keys=fields.String(), required=True)
