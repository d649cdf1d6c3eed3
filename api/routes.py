"""Blueprints of every family of paths: how their requests are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask_smorest import Blueprint
from marshmallow import Schema

from api.request_bodies import BodyParser


class _Parser(BodyParser):
    """A request that cannot be used is a bad one, and schemas say what they know."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {}  # noqa: RUF012


class Routes(Blueprint):
    """Resources of one subject."""

    ARGUMENTS_PARSER = _Parser()

    def arguments(
        self, schema: type[Schema] | Schema, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Have a view called with what a schema reads; it is made once, and not each time."""
        made = schema() if isinstance(schema, type) else schema
        return super().arguments(made, **options)  # type: ignore[no-any-return]
