"""What the ``thamos`` client sends and reads."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, Schema, fields, pre_load, validate

from adviser.scoring.criteria import RecommendationType
from api.project_files import (
    MAX_MANIFEST,
    check_constraints,
    check_lock,
)
from api.schema_fields import LenientSchema

#: Of one text within a request.
_MAX_TEXT = 3 * 1024**2
#: Of the words of a query, and of the address of a project.
_MAX_NAME, _MAX_ORIGIN = 100, 2000


class CapitalBoolean(fields.Boolean):
    """A boolean as Python writes it into a query: ``True``, ``False``."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._deserialize(
            value.lower() if isinstance(value, str) else value, *args, **kwargs
        )


class _Submitted(LenientSchema):
    """What every submit has in its query."""

    debug = CapitalBoolean(load_default=False)
    force = CapitalBoolean(load_default=False, metadata={"description": "Do not use the cache."})
    origin = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=_MAX_ORIGIN),
        metadata={"description": "Where the project is; kept of requests that show a token."},
    )

    @pre_load
    def absent(self, data: Any, **_: Any) -> dict[str, Any]:
        """``origin=None`` and an empty text are no origin."""
        return {k: v for k, v in data.items() if not (k == "origin" and v in ("", "None"))}


class AdviceQuerySchema(_Submitted):
    """The query of an advise request."""

    recommendation_type = fields.String(
        required=True, validate=validate.OneOf([it.value for it in RecommendationType])
    )
    dev = CapitalBoolean(load_default=False)
    source_type = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=_MAX_NAME),
        metadata={
            "description": "What asks; kept of requests that show a token.",
            "example": "cli",
        },
    )


class ProvenanceQuerySchema(_Submitted):
    """The query of a check of provenance."""


class ApplicationStackSchema(LenientSchema):
    """A Pipfile as TOML, and a Pipfile.lock as JSON or nothing."""

    requirements = fields.String(required=True, validate=validate.Length(1, MAX_MANIFEST))
    requirements_lock = fields.String(
        required=True,
        allow_none=True,
        validate=[validate.Length(max=_MAX_TEXT), check_lock],
    )
    requirements_format = fields.String(load_default="pipenv", validate=validate.OneOf(["pipenv"]))


class RuntimeEnvironmentSchema(Schema):
    """An entry of ``.thoth.yaml`` as it stands; what is not known is kept."""

    class Meta:
        """The user may have written more keys."""

        unknown = INCLUDE

    name = fields.String(allow_none=True)
    python_version = fields.String(allow_none=True)
    operating_system = fields.Dict(keys=fields.String(), allow_none=True)
    hardware = fields.Dict(keys=fields.String(), allow_none=True)


class LibraryUsageSchema(LenientSchema):
    """What of which modules a project uses."""

    version = fields.String(allow_none=True)
    report = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        allow_none=True,
        load_default=None,
    )


class AdviceRequestSchema(LenientSchema):
    """The body of an advise request."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    runtime_environment = fields.Nested(
        RuntimeEnvironmentSchema, allow_none=True, load_default=None
    )
    library_usage = fields.Nested(LibraryUsageSchema, allow_none=True, load_default=None)
    constraints = fields.String(
        allow_none=True,
        load_default=None,
        validate=[validate.Length(max=MAX_MANIFEST), check_constraints],
    )
    labels = fields.Dict(
        keys=fields.String(), values=fields.String(), allow_none=True, load_default=None
    )
    justification = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    stack_info = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)
    callback_info = fields.Dict(keys=fields.String(), allow_none=True)


class ProvenanceRequestSchema(LenientSchema):
    """The body of a check of provenance."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)


class AcceptedSchema(Schema):
    """That a request is accepted, and under which identifier it is found."""

    analysis_id = fields.String(required=True)
    cached = fields.Boolean(required=True)
    authenticated = fields.Boolean(required=True)
    parameters = fields.Dict(keys=fields.String(), required=True)


class StatusSchema(Schema):
    """How far an analysis is."""

    state = fields.String(
        required=True,
        validate=validate.OneOf(["pending", "running", "succeeded", "failed", "error"]),
    )
    reason = fields.String(allow_none=True)
    started_at = fields.String(allow_none=True)
    finished_at = fields.String(allow_none=True)


class StatusDocumentSchema(Schema):
    """The state of an analysis."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    status = fields.Nested(StatusSchema, required=True)


class LogDocumentSchema(Schema):
    """What people are shown of a run."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    log = fields.String(required=True, allow_none=True)
