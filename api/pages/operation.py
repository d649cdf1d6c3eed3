"""How the service works: the nightly loop, the state of its parts, and how good its advice is."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response

from api.pages.api_client import read, read_if_any
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

blueprint = Pages("operation", __name__)


@blueprint.get("/loop")
def loop() -> Response:
    """The state of the loop."""
    known = read("/api/v2/loop")
    return render(
        "loop.html", known, releases=known["releases"], watches=known["watches"],
        nights=known["nights"], steps=STEP_LABELS, budget=known["budget"],
    )  # fmt: skip


@blueprint.get("/operator")
def operator() -> Response:
    """Queues, workers, stores, disk, schedules and the last night."""
    operation = read("/api/v2/operation")
    loop = read_if_any("/api/v2/loop")
    return render(
        "operator.html", operation, loop, operation=operation.body,
        night=loop["nights"][0] if loop and loop["nights"] else None,
    )  # fmt: skip


@blueprint.get("/trust")
def trust() -> Response:
    """The ledger of past advice, what was refused, and how current the data is."""
    ledger, status = read("/api/v2/ledger"), read("/api/v2/status")
    return render("trust.html", ledger, status, months=ledger["months"], state=status.body)
