"""The first page, and how the service works: the loop, its parts, and what it refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Response

from api.pages.api_client import ApiDocument, read, read_if_any
from api.pages.site import Pages, render, unknown_address
from model.json_documents import as_json_time

#: Open questions that are shown.
_QUESTIONS = 5
#: Open questions are those of so many series, which were measured last.
_SERIES = 20
#: Changes of the last so many days are shown.
_DAYS = 30

blueprint = Pages("home", __name__)
blueprint.app_errorhandler(404)(unknown_address)


@blueprint.get("/")
def home() -> Response:
    """Settled changes of the last days, numbers of what is recorded, and open work."""
    since = as_json_time(datetime.now(UTC) - timedelta(days=_DAYS))
    changes = read("/api/v2/changes", since=since, limit=20)
    hardware = read("/api/v2/hardware", measured="true", limit=10)
    coverage = read("/api/v2/coverage")
    status, loop = read("/api/v2/status"), read_if_any("/api/v2/loop")
    groups = read("/api/v2/comparison-groups", newest=_SERIES, limit=_SERIES)
    return render(
        "home.html", changes, coverage, hardware, groups, status, loop,
        days=_DAYS, changes=changes["items"],
        coverage=coverage.body, hardware=hardware["items"],
        state=status.body, loop=loop and loop.body,
        questions=_open_questions(groups)[:_QUESTIONS],
    )  # fmt: skip


def _open_questions(groups: ApiDocument) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The jobs that would settle most, with their groups; the most promising first."""
    questions = [(jobs, group) for group in groups["items"] for jobs in group["next_jobs"]]
    return sorted(questions, key=lambda it: -it[0]["chance"])


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

operation_pages = Pages("operation", __name__)


@operation_pages.get("/loop")
def loop() -> Response:
    """The state of the loop."""
    known = read("/api/v2/loop")
    return render(
        "loop.html", known, releases=known["releases"], watches=known["watches"],
        nights=known["nights"], steps=STEP_LABELS, budget=known["budget"],
    )  # fmt: skip


@operation_pages.get("/operator")
def operator() -> Response:
    """Queues, workers, stores, disk, schedules and the last night."""
    operation = read("/api/v2/operation")
    loop = read_if_any("/api/v2/loop")
    return render(
        "operator.html", operation, loop, operation=operation.body,
        night=loop["nights"][0] if loop and loop["nights"] else None,
    )  # fmt: skip


@operation_pages.get("/trust")
def trust() -> Response:
    """What was refused, and how current the data is."""
    status = read("/api/v2/status")
    return render("trust.html", status, state=status.body)
