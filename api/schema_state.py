"""A server on the schema of an earlier release answers reads until the schema is migrated."""

from __future__ import annotations

from flask import Flask, current_app, request

from api.errors import ApiError, ProblemType
from api.request_context import READS
from api.service import EXTENSION, ServiceStores
from common.errors import SchemaMismatch
from graph.migrate import relational_state

#: What operators see on ``/readyz`` and clients in refused writes.
READ_ONLY = "read-only until `thoth migrate`"
_STATE = "thoth-schema"


class SchemaCheck:
    """Asks for the schema before each write until it is not older than this release."""

    def __init__(self, service: ServiceStores) -> None:
        self._service = service
        self._is_current = False

    def is_older(self) -> bool:
        """Whether PostgreSQL lacks steps of this release.

        :raises StoreUnavailable: if PostgreSQL does not answer
        """
        if not self._is_current:
            with self._service.glancing() as connection:
                try:
                    self._is_current = not relational_state(connection).pending
                except SchemaMismatch:
                    self._is_current = True  # A later release migrated it.
        return not self._is_current


def register(app: Flask) -> None:
    """Let ``app`` refuse writes on the schema of an earlier release."""
    app.extensions[_STATE] = SchemaCheck(app.extensions[EXTENSION])


def refuse_writes() -> None:
    """:raises ApiError: 503 if this request may write, and the schema is older"""
    check: SchemaCheck = current_app.extensions[_STATE]
    if request.method not in READS and check.is_older():
        raise ApiError(
            503, ProblemType.UNAVAILABLE, f"the service is {READ_ONLY}",
            headers={"Retry-After": "60"},
        )  # fmt: skip
