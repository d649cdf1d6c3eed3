"""How the service runs: its nightly loop, queues and stores, refused documents, age of the data."""

from collections.abc import Mapping

from flask import Response

from api.pages.site import Pages, read, read_if_any, render

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
    """Refused documents, and the age of the data."""
    status = read("/api/v2/status")
    return render("trust.html", status, state=status.body)
