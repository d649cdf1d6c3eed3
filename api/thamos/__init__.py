"""Version 1 of the API, ``/api/v1``: an adapter for the unmodified ``thamos`` client.

Entry point: :func:`blueprints`. Requests become those of :mod:`api.jobs.stored_requests`.
"""

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of ``/api/v1``."""
    from api.thamos.listings import blueprint as listings
    from api.thamos.listings import discovery_routes as discovery
    from api.thamos.listings import image_routes as images
    from api.thamos.requests import advice_routes as advice
    from api.thamos.requests import provenance_routes as provenance

    return discovery, advice, provenance, listings, images
