"""The nightly loop: nights, states and what is watched."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response

from api.pages.api_client import read
from api.pages.site import Pages, render

#: What each step of a night does, in order; by the name of :data:`loop.night.STEPS`.
STEP_LABELS: Mapping[str, str] = {
    "watch": "Watch the projects of requests",
    "refresh": "Read the indexes",
    "notice": "Notice releases",
    "resolve": "Find stacks",
    "plan": "Plan jobs",
    "measure": "Measure",
    "ingest": "Store the results",
    "settle": "Judge releases",
    "changes": "Record changes",
    "advise": "Advise again",
    "ledger": "Score past advice",
    "announce": "Announce",
    "notify": "Send notices",
}

blueprint = Pages("loop", __name__)


@blueprint.get("/loop")
def loop() -> Response:
    """The state of the loop."""
    known = read("/api/v2/loop")
    return render(
        "loop.html", known, releases=known["releases"], watches=known["watches"],
        nights=known["nights"], steps=STEP_LABELS, budget=known["budget"],
    )  # fmt: skip
