"""A server writes only to the schema of its own or a later release, and still answers reads."""

from __future__ import annotations

import math
import time

from flask import Flask, current_app, request

from api.http.errors import ApiError, ProblemType
from api.http.request_context import READS
from api.service import EXTENSION, ServiceStores
from graph.migrate import relational_state
from model.errors import SchemaMismatch

#: What operators see on ``/readyz`` and clients in refused writes.
READ_ONLY = "read-only until `thoth migrate`"
FOREIGN = "its schema is not this release's"
#: How long a successful check counts, s.
_KEPT_S = 5.0
_STATE = "thoth-schema"


class SchemaCheck:
    """Checks the schema before a write, unless a recent check was successful."""

    def __init__(self, service: ServiceStores) -> None:
        self._service = service
        self._good_until = -math.inf

    def problem(self) -> str | None:
        """Why nothing may be written: PostgreSQL lacks steps, or another program migrated it.

        :raises StoreUnavailable: if PostgreSQL does not answer
        """
        if time.monotonic() < self._good_until:
            return None
        with self._service.glancing() as connection:
            try:
                problem = READ_ONLY if relational_state(connection).pending else None
            except SchemaMismatch as error:
                problem = None if error.newer else FOREIGN
        if problem is None:
            self._good_until = time.monotonic() + _KEPT_S
        return problem


def register(app: Flask) -> None:
    """Let ``app`` refuse writes on a schema that it cannot write to."""
    app.extensions[_STATE] = SchemaCheck(app.extensions[EXTENSION])


def refuse_writes() -> None:
    """:raises ApiError: 503 if this request may write, and the schema is older or a foreign one"""
    check: SchemaCheck = current_app.extensions[_STATE]
    if request.method in READS or (problem := check.problem()) is None:
        return
    detail = f"the service is {READ_ONLY}" if problem == READ_ONLY else f"PostgreSQL: {problem}"
    raise ApiError(503, ProblemType.UNAVAILABLE, detail, headers={"Retry-After": "60"})
