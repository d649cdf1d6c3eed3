"""Builders for the fields of schemas, and schemas that every resource shares."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args, get_origin

from marshmallow import EXCLUDE, INCLUDE, RAISE, Schema, ValidationError, fields, validate

from model.declared_fields import DeclaredField, declared_fields, is_declared

#: Maximum length of a text in a query; no stored name is longer.
_MAX_TEXT = 500
#: Default and maximum number of items on a page.
DEFAULT_LIMIT, MAX_LIMIT = 50, 500
#: A member of a body that may be null, and is by default.
NULL_BY_DEFAULT: Mapping[str, Any] = {"load_default": None, "allow_none": True}
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


def bounded_text(description: str, example: str, longest: int, **more: Any) -> fields.String:
    """A string of a body or query with 1 to ``longest`` characters."""
    metadata = described(description, example)
    return fields.String(validate=validate.Length(1, longest), metadata=metadata, **more)


def filter_text(description: str, example: str | None = None, **more: Any) -> fields.String:
    """A filter of a query. If the client omits the filter, the loaded query lacks its key."""
    metadata = described(description, example)
    return fields.String(validate=validate.Length(1, _MAX_TEXT), metadata=metadata, **more)


def page_limit(description: str, default: int, most: int) -> fields.Integer:
    """The number of items that a page may have."""
    metadata = described(description, default)
    return fields.Integer(load_default=default, validate=validate.Range(1, most), metadata=metadata)


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


def schema_of(
    name: str, /, *views: type, base: type[Schema] = Schema, **more: fields.Field[Any]
) -> type[Schema]:
    """The schema of the declared fields of dataclasses, and of ``more`` fields.

    Fields of the type of a dataclass use the first schema that was made of it alone.

    :param name: of the component in the OpenAPI document
    """
    declared = {it.name: _field(it) for view in views for it in declared_fields(view)}
    schema = base.from_dict(declared | more, name=f"{name}Schema")
    if len(views) > 1 or base is not Schema:
        return schema
    first = _SCHEMAS.setdefault(views[0], schema)
    return schema if more else first


def query_of(name: str, view: type, **more: fields.Field[Any]) -> type[Schema]:
    """The schema of a page's query: the declared fields of a filter, and ``more``."""
    declared = {it.name: _filter(it) for it in declared_fields(view)}
    return PageQuerySchema.from_dict(declared | more, name=f"{name}Schema")


def page_of(name: str, item: type[Schema], **more: fields.Field[Any]) -> type[Schema]:
    """The schema of a page of a list."""
    items = fields.List(fields.Nested(item), required=True)
    return PageSchema.from_dict({"items": items, **more}, name=f"{name}Schema")


def fresh(name: str, item: type[Schema], **more: fields.Field[Any]) -> type[Schema]:
    """The schema of one item, with ``more`` fields and how current its data is."""
    return FreshnessSchema.from_dict({**item._declared_fields, **more}, name=f"{name}Schema")


_SCHEMAS: dict[type, type[Schema]] = {}
#: Fields of simple types with an example.
_TYPES: dict[Any, tuple[Callable[..., fields.Field[Any]], Any]] = {
    str: (fields.String, None),
    int: (fields.Integer, None),
    float: (fields.Float, None),
    bool: (fields.Boolean, False),
    datetime: (
        partial(fields.AwareDateTime, format="iso", default_timezone=UTC),
        "2026-01-01T00:00:00+00:00",
    ),
    Any: (fields.Raw, None),
}


def _field(field: DeclaredField) -> fields.Field[Any]:
    declared, kind = field.declared, getattr(field.type, "__supertype__", field.type)
    null = field.optional or declared.unbounded
    options: dict[str, Any] = {"required": True, "allow_none": null}
    example = declared.example
    if values := field.choices:
        options["validate"] = validate.OneOf([*values, None] if null else values)
        kind, example = str, values[0]
    elif example is None and kind in _TYPES:
        example = _TYPES[kind][1]
    if declared.description:
        options["metadata"] = described(declared.sentence, example)
    return _typed(kind, **options)


def _filter(field: DeclaredField) -> fields.Field[Any]:
    description, example = field.declared.description, field.declared.example
    if field.choices:
        return filter_choice(description, field.choices)
    if field.type is bool:
        return filter_flag(description)
    if field.type is datetime:
        return filter_moment(description, example)
    return filter_text(description, example)


def _typed(kind: Any, **options: Any) -> fields.Field[Any]:
    if is_declared(kind):
        return fields.Nested(_SCHEMAS.get(kind) or schema_of(kind.__name__, kind), **options)
    if kind in _TYPES:
        return _TYPES[kind][0](**options)
    items = get_args(kind)
    if issubclass(get_origin(kind) or kind, Mapping):
        values = _typed(items[1]) if items and items[1] in (int, str, float) else None
        return fields.Dict(keys=fields.String(), values=values, **options)
    return fields.List(_typed(items[0]), **options)
