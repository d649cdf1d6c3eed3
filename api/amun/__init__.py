"""The inspection service, below ``/amun/api/v1``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/amun/api/v1``."""
    from api.amun.inspections import blueprint as inspections
    from api.amun.results import blueprint as results

    return inspections, results
