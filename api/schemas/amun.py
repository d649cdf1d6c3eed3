"""What clients of the inspection service send and read."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schema_fields import (
    LAST_PAGE,
    LenientSchema,
    count,
    flag,
    free,
    text,
    texts,
)


class AmunPageQuerySchema(LenientSchema):
    """Which page is asked for; pages count from 1."""

    page = fields.Integer(load_default=1, validate=validate.Range(1, LAST_PAGE))
    limit = fields.Integer(load_default=25, validate=validate.Range(1, 100))


class _Answer(Schema):
    """Every answer repeats what was asked."""

    parameters = free("What was asked.")


class VersionSchema(Schema):
    """Which service this is."""

    version = text("Of the interface.", "1.0.0")
    service_version = text("Of the service.", "1.0.0")


class SubmittedSchema(_Answer):
    """Under which identifier an inspection is found."""

    inspection_id = text("The inspection.", "inspection-matmul-1f2e3d4c")


class InspectionsSchema(_Answer):
    """Identifiers of inspections."""

    inspections = texts("In the order of their submission.", ["inspection-matmul-1f2e3d4c"])


class AmunStatusSchema(Schema):
    """How far an inspection is."""

    build = free("How the build went; null while there is none.", null=True)
    workflow = free("How far its run is.", null=True)
    data_stored = flag("Whether its results were taken in.")


class AmunStatusDocumentSchema(_Answer):
    """The state of an inspection."""

    status = fields.Nested(AmunStatusSchema, required=True)


class SpecificationDocumentSchema(_Answer):
    """What was asked for."""

    specification = free("docs/reference/specification.md describes every field.")


class AmunLogDocumentSchema(_Answer):
    """What was said."""

    log = text("Lines for people.", null=True)


class BatchSizeDocumentSchema(_Answer):
    """How many results there are."""

    batch_size = count("Results that are stored.", 3)


class JobResultDocumentSchema(_Answer):
    """What one job measured."""

    result = free("docs/reference/inspection-result.md describes every field.")


class DockerfileSchema(_Answer):
    """The recipe of an image."""

    dockerfile = text("The recipe.", "FROM registry.example/python:3.12")
