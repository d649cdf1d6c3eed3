"""How fields are written down: always there, described, with an example."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from marshmallow import EXCLUDE, INCLUDE, RAISE, Schema, ValidationError, fields, validate

#: Characters of a text in a query; nothing that is known has a longer name.
_MAX_TEXT = 500
#: Items on a page, unless told, and at most.
DEFAULT_LIMIT, MAX_LIMIT = 50, 500
#: Numbered pages beyond hold nothing in any record; PostgreSQL counts no further either.
LAST_PAGE = 1_000_000


def text(description: str, example: str | None = None, *, null: bool = False) -> fields.String:
    """A text of an answer."""
    return fields.String(required=True, allow_none=null, metadata=described(description, example))


def choice(description: str, values: list[str], *, null: bool = False) -> fields.String:
    """One of a few words of an answer."""
    allowed = validate.OneOf([*values, None] if null else values)
    told = described(description, values[0])
    return fields.String(required=True, allow_none=null, validate=allowed, metadata=told)


def texts(description: str, example: list[str] | None = None) -> fields.List[Any]:
    """A list of texts of an answer."""
    return fields.List(fields.String(), required=True, metadata=described(description, example))


def number(description: str, example: float | None = None, *, null: bool = False) -> fields.Float:
    """A number of an answer; its unit is in the name or the description."""
    return fields.Float(required=True, allow_none=null, metadata=described(description, example))


def count(description: str, example: int | None = None, *, null: bool = False) -> fields.Integer:
    """A whole number of an answer."""
    return fields.Integer(required=True, allow_none=null, metadata=described(description, example))


def flag(description: str, *, null: bool = False) -> fields.Boolean:
    """Yes or no, in an answer."""
    return fields.Boolean(required=True, allow_none=null, metadata=described(description, False))


def moment(description: str, *, null: bool = False) -> fields.AwareDateTime:
    """A time of an answer, with its zone."""
    told = described(description, "2026-01-01T00:00:00+00:00")
    return fields.AwareDateTime(
        format="iso", default_timezone=UTC, required=True, allow_none=null, metadata=told
    )


def free(description: str, *, null: bool = False) -> fields.Dict:
    """An object of an answer whose members are not ours to name."""
    told = {"description": description}
    return fields.Dict(keys=fields.String(), required=True, allow_none=null, metadata=told)


def asked(description: str, example: str | None = None, **more: Any) -> fields.String:
    """A filter; one that is not given is not there."""
    told = described(description, example)
    return fields.String(validate=validate.Length(1, _MAX_TEXT), metadata=told, **more)


def asked_choice(description: str, values: list[str]) -> fields.String:
    """A filter that is one of a few words."""
    return fields.String(
        validate=validate.OneOf(values), metadata=described(description, values[0])
    )


def asked_flag(description: str) -> fields.Boolean:
    """A filter that is ``true`` or ``false``, and nothing else that could be meant by a slip."""
    told = {"description": description}
    return fields.Boolean(truthy={"true"}, falsy={"false"}, metadata=told)


def described(description: str, example: Any) -> dict[str, Any]:
    """The metadata of a field."""
    return {"description": description} | ({} if example is None else {"example": example})


class QuerySchema(Schema):
    """What may be asked; a filter that nobody knows is refused rather than passed over."""

    class Meta:
        """A filter that is misspelt would find too much."""

        unknown = RAISE


class LenientSchema(Schema):
    """What clients of the original service send: of all times, and more than is read here."""

    class Meta:
        """Unknown keys are passed over."""

        unknown = EXCLUDE


class PageQuerySchema(QuerySchema):
    """Which page is asked for."""

    limit = fields.Integer(
        load_default=DEFAULT_LIMIT,
        validate=validate.Range(1, MAX_LIMIT),
        metadata={"description": "Items on the page, at most.", "example": 20},
    )
    after = fields.String(
        validate=validate.Length(1, 2000),
        metadata={"description": "Where the page begins; only ever taken from `next`."},
    )


class FreshnessSchema(Schema):
    """Of when the knowledge is that an answer is made of."""

    as_of = moment("When the record last took knowledge in; null if it has none.", null=True)
    graph_revision = count("All changes up to this one are in the graph as well.", 1804)


class PageSchema(FreshnessSchema):
    """A page of a list."""

    next = text(
        "Address of the page after this one; null on the last.",
        "/api/v2/packages?after=WyJwYWNrYWdlcyIsImZsYXNrIl0&limit=20",
        null=True,
    )


def no_nul(value: str) -> None:
    """Texts are stored, and no store keeps a NUL."""
    if "\0" in value:
        raise ValidationError("holds a NUL")


class StrictSchema(Schema):
    """What is misspelt is refused rather than passed over."""

    class Meta:
        """Every member means something."""

        unknown = RAISE


class ResultDocumentSchema(Schema):
    """A report; docs/reference/report.md describes every key."""

    class Meta:
        """The report has a schema of its own."""

        unknown = INCLUDE

    metadata = fields.Dict(keys=fields.String(), required=True)
    result = fields.Dict(keys=fields.String(), required=True)
