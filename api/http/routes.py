"""The blueprint of all resources; it reads requests with :mod:`api.http.request_bodies`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask_smorest import Blueprint
from marshmallow import Schema

from api.http.request_bodies import BodyParser


class _Parser(BodyParser):
    """Answers invalid requests with 400; each schema may allow or refuse unknown members."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {}  # noqa: RUF012


class Routes(Blueprint):
    """A blueprint of one subject."""

    ARGUMENTS_PARSER = _Parser()

    def arguments(
        self, schema: type[Schema] | Schema, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Pass the data that a schema loads to a view; the schema is created only once."""
        instance = schema() if isinstance(schema, type) else schema
        return super().arguments(instance, **options)  # type: ignore[no-any-return]
