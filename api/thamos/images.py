"""Analyses of images, which clients of the original service ask for and this one does not make."""

from __future__ import annotations

from typing import NoReturn

from api.authentication import needs
from api.errors import ApiError, Problem
from api.routes import Routes
from graph.record.tokens import Scope

blueprint = Routes(
    "images", __name__, url_prefix="/api/v1/analyze", description="Analyses of images."
)


@blueprint.route("/<string:analysis_id>")
@blueprint.route("/<string:analysis_id>/status")
@blueprint.route("/<string:analysis_id>/log")
@needs(Scope.READ)
@blueprint.alt_response(404, "NOT_FOUND")
def image_analysis(analysis_id: str) -> NoReturn:
    """Say that images are analysed by whoever runs the service."""
    detail = (
        f"no analysis is called {analysis_id!r}: images are analysed by `thoth analyze image`, "
        "and listed by /api/v1/container-images"
    )
    raise ApiError(404, Problem.NOT_FOUND, detail)
