"""What the ``thamos`` client asks for, below ``/api/v1``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/api/v1``."""
    from api.thamos.listings import blueprint as listings
    from api.thamos.listings import discovery_routes as discovery
    from api.thamos.listings import image_routes as images
    from api.thamos.packages import blueprint as packages
    from api.thamos.requests import advice_routes as advice
    from api.thamos.requests import provenance_routes as provenance

    return discovery, advice, provenance, listings, images, packages
