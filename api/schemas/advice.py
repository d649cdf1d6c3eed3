"""Advice that was given, on the wire."""

from __future__ import annotations

from marshmallow import Schema, fields

from adviser.scoring.criteria import RecommendationType
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    asked,
    asked_choice,
    choice,
    count,
    moment,
    number,
    text,
)

_TYPES = [it.value for it in RecommendationType]
#: How a search can end.
_STATUSES = ["optimal", "feasible", "infeasible", "unknown"]
_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


class AdviceListQuerySchema(PageQuerySchema):
    """Which advice is asked for."""

    recommendation_type = asked_choice("What it was to be good at.", _TYPES)
    status = asked_choice("How the search ended.", _STATUSES)
    python_version = asked("Of the environment that was asked about.", "3.11")
    platform = asked("Of the same, as a wheel tag names it.", "manylinux_2_28_x86_64")
    stack = asked("Digest of a stack that it recommends.", _DIGEST)


class AdviceItemSchema(Schema):
    """An advice in a list."""

    advice_id = text("Its identifier.", "adviser-260101000000-5f0c9d2be417a863")
    recommendation_type = choice("What it was to be good at.", _TYPES)
    status = choice("How the search ended.", _STATUSES)
    snapshot_revision = text("Names what was known of packages.", _DIGEST)
    result_digest = text("Of what does not depend on when it was made.", _DIGEST)
    created_at = moment("When it was given.")
    python_version = text("Of the environment that was asked about.", "3.11", null=True)
    platform = text("Of the same, as a wheel tag names it.", null=True)


class AdvicePageSchema(PageSchema):
    """Advice, newest first."""

    items = fields.List(fields.Nested(AdviceItemSchema), required=True)


class RecommendedStackSchema(Schema):
    """A stack that an advice recommends."""

    rank = count("The best is at 1.", 1)
    stack_digest = text("The stack.", _DIGEST)
    score = number("In points.", 812.5)


class AdviceDetailSchema(FreshnessSchema, AdviceItemSchema):
    """An advice."""

    stacks = fields.List(fields.Nested(RecommendedStackSchema), required=True)
    evidence = count("Observations that its claims name.", 20)
