"""How the service runs: for the people who operate it."""

from __future__ import annotations

from flask import Response

from api.pages.api_client import read, read_if_any
from api.pages.site import Pages, render

blueprint = Pages("operator", __name__)


@blueprint.get("/operator")
def operator() -> Response:
    """Queues, workers, stores, disk, schedules and the last night."""
    operation = read("/api/v2/operation")
    loop = read_if_any("/api/v2/loop")
    return render(
        "operator.html", operation, loop, operation=operation.body,
        night=loop["nights"][0] if loop and loop["nights"] else None,
    )  # fmt: skip
