"""What clients ask first: whether this service speaks version 1, and which one it is."""

from __future__ import annotations

from flask import current_app

from api.routes import Routes

blueprint = Routes("discovery", __name__, url_prefix="/api/v1", description="What there is.")


@blueprint.route("")
@blueprint.response(200, description="The paths of version 1.")
def paths() -> dict[str, list[str]]:
    """List the paths of version 1; the headers say which release answers."""
    rules = {str(it.rule) for it in current_app.url_map.iter_rules()}
    return {"paths": sorted(it for it in rules if it.startswith("/api/v1/"))}
