"""The nightly loop: nights, states and what is watched."""

from __future__ import annotations

from flask import Response

from api.pages.api_client import read
from api.pages.site import Pages, render

blueprint = Pages("loop", __name__)


@blueprint.get("/loop")
def loop() -> Response:
    """The state of the loop."""
    known = read("/api/v2/loop")
    return render(
        "loop.html", known, releases=known["releases"], watches=known["watches"],
        nights=known["nights"],
    )  # fmt: skip
