"""Errors on the wire."""

from __future__ import annotations

from marshmallow import INCLUDE, Schema, fields


class ProblemSchema(Schema):
    """A problem document (RFC 9457); what a client of thamos reads has further members."""

    class Meta:
        """Each type of problem may say more."""

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
