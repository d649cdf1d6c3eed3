"""The inspection service, ``/amun/api/v1``: runs submitted specifications on this machine.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of ``/amun/api/v1``."""
    from api.amun.inspections import blueprint as inspections
    from api.amun.inspections import result_routes as results

    return inspections, results
