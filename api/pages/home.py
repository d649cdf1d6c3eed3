"""The first page: settled changes of the last days, counts of the record, and open work."""

from datetime import UTC, datetime, timedelta

from flask import Response

from api.pages.site import Pages, read, read_if_any, render, unknown_address
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
    """Settled changes of the last days, counts of the record, and open work."""
    since = as_json_time(datetime.now(UTC) - timedelta(days=_DAYS))
    changes = read("/api/v2/changes", since=since, limit=20)
    hardware = read("/api/v2/hardware", measured="true", limit=10)
    coverage = read("/api/v2/coverage")
    status, loop = read("/api/v2/status"), read_if_any("/api/v2/loop")
    groups = read("/api/v2/comparison-groups", newest=_SERIES, limit=_SERIES)
    questions = [(jobs, group) for group in groups["items"] for jobs in group["next_jobs"]]
    return render(
        "home.html", changes, coverage, hardware, groups, status, loop,
        days=_DAYS, changes=changes["items"],
        coverage=coverage.body, hardware=hardware["items"],
        state=status.body, loop=loop and loop.body,
        questions=sorted(questions, key=lambda it: -it[0]["chance"])[:_QUESTIONS],
    )  # fmt: skip
