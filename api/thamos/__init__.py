"""What the ``thamos`` client asks for, below ``/api/v1``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/api/v1``."""
    from api.thamos.advice import blueprint as advice
    from api.thamos.discovery import blueprint as discovery
    from api.thamos.images import blueprint as images
    from api.thamos.listings import blueprint as listings
    from api.thamos.packages import blueprint as packages
    from api.thamos.provenance import blueprint as provenance

    return discovery, advice, provenance, listings, images, packages
