"""Our own resources, one module per subject, below ``/api/v2``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/api/v2``."""
    from api.resources.advising import blueprint as advising
    from api.resources.cypher import blueprint as cypher
    from api.resources.fetches import blueprint as fetches
    from api.resources.requests import blueprint as requests
    from api.resources.uploads import blueprint as uploads

    return advising, requests, uploads, fetches, cypher
