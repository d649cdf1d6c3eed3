"""The inspection service, below ``/amun/api/v1``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/amun/api/v1``."""
    from api.amun.inspections import blueprint as inspections
    from api.amun.inspections import result_routes as results

    return inspections, results
