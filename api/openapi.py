"""The OpenAPI document: what every operation has in common."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Flask
from flask_smorest import Api, Blueprint
from marshmallow import INCLUDE, Schema, fields

from api.errors import MEDIA_TYPE


class ProblemSchema(Schema):
    """A problem document (RFC 9457); what a client of thamos reads has further members."""

    class Meta:
        unknown = INCLUDE

    type = fields.String(
        required=True,
        metadata={
            "description": "Address that says what this kind of problem means; never renamed.",
            "example": "/problems/not-found",
        },
    )
    title = fields.String(
        required=True,
        metadata={"description": "The kind, for people.", "example": "Not found"},
    )
    status = fields.Raw(
        required=True,
        metadata={
            "description": "The HTTP status; below /api/v1 of an analysis, its state.",
            "type": ["integer", "object"],
            "example": 404,
        },
    )
    detail = fields.String(
        required=True,
        metadata={
            "description": "What was wrong, for people.",
            "example": "no package is called 'flaks'",
        },
    )
    request_id = fields.String(
        required=True,
        metadata={"description": "Names this request in the log.", "example": "5f0c9d2be417a863"},
    )
    analysis = fields.Dict(
        keys=fields.String(), metadata={"description": "How far the request is, below /api/v2."}
    )
    errors = fields.Dict(
        keys=fields.String(), metadata={"description": "What is wrong with each field."}
    )
    hint = fields.String(metadata={"description": "What to do about it."})
    reason = fields.String(metadata={"description": "Why a document was refused: a code."})
    field = fields.String(metadata={"description": "Which field of a document it was."})
    error = fields.String(metadata={"description": "The same as `detail`, below /api/v1."})
    parameters = fields.Dict(
        keys=fields.String(), metadata={"description": "What was asked, below /api/v1."}
    )


#: What any operation may be answered with; the component of each is named like its phrase.
_ALWAYS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
#: And what any that takes a body.
_WITH_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_DESCRIPTION = (
    "Which versions of which packages a project should run on a machine, and what is known of"
    " them. Errors are problem documents (RFC 9457). Lists are read page by page: `next` is the"
    " address of the page after."
)


class OpenApi(Api):
    """Errors are translated by :mod:`api.errors`, for every route alike, and documented here."""

    ERROR_SCHEMA = ProblemSchema

    def __init__(self, app: Flask) -> None:
        super().__init__(
            app,
            spec_kwargs={
                "info": {"description": _DESCRIPTION, "license": {"name": "Apache-2.0"}},
                # What is open to everybody is the operator's choice, so a token is optional.
                "security": [{}, {"token": []}],
            },
        )
        self.spec.components.security_scheme("token", {"type": "http", "scheme": "bearer"})

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        """Serve a blueprint, and document it with the errors of every operation."""
        callbacks = blueprint._prepare_doc_cbks
        if _with_errors not in callbacks:  # a blueprint may be served by several applications
            callbacks.append(_with_errors)
        super().register_blueprint(blueprint, **options)

    def _register_error_handlers(self) -> None:
        return

    def _register_responses(self) -> None:
        responses = self.spec.components
        for status in HTTPStatus:
            responses.response(status.name, _problem(status.phrase), lazy=True)
        responses.response("DEFAULT_ERROR", _problem("Any other error."), lazy=True)


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": ProblemSchema}}}


def _with_errors(doc: dict[str, Any], _info: dict[str, Any], **_: Any) -> dict[str, Any]:
    responses = doc.setdefault("responses", {})
    known = {str(it) for it in responses}
    for status in (*_ALWAYS, *(_WITH_BODY if "requestBody" in doc else ())):
        if str(status.value) not in known:
            responses[str(status.value)] = status.name
    return doc
