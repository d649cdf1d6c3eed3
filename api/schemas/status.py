"""How far the graph is, on the wire."""

from __future__ import annotations

from api.schema_fields import (
    FreshnessSchema,
    count,
    moment,
    number,
    text,
)


class ServiceStatusSchema(FreshnessSchema):
    """Which release answers, and how far its graph is behind the record."""

    version = text("Of the service.", "0.1.0")
    asked_at = moment("When an index was last asked, whether or not it answered.", null=True)
    answered_at = moment("When an index or a source of advisories last answered.", null=True)
    waiting = count("Changes of the record that the graph does not show yet.", 0)
    waiting_since = moment("When the oldest of them was written.", null=True)
    lag_s = number("How long ago that was, s; 0 if nothing waits.", 0.0)
