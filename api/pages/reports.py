"""Reports on the quality of measurements."""

from __future__ import annotations

from flask import Response, request, url_for

from adviser.group_titles import TitledSeries, short_titles
from api.pages.api_client import read
from api.pages.report_view import report_view
from api.pages.site import Pages, next_page, render

blueprint = Pages("reports", __name__)


@blueprint.get("/reports")
def reports() -> Response:
    """All series that a report can be made of."""
    listed = read("/api/v2/reports", **request.args)
    titles = short_titles(
        [
            TitledSeries(
                it["indicator"], it["component"], it["hardware"]["label"], it["parameters"]
            )
            for it in listed["items"]
        ]
    )
    return render(
        "reports.html", listed, series=list(zip(titles, listed["items"], strict=True)),
        following=next_page(listed), selected=request.args,
    )  # fmt: skip


@blueprint.get("/reports/<comparison_key>")
def report(comparison_key: str) -> Response:
    """The report on one series."""
    known = read(f"/api/v2/reports/{comparison_key}", **request.args)
    view = report_view(known.body)
    return render("report.html", known, view=view, job_link=_job_url)


def _job_url(observation_id: str) -> str:
    return url_for("pages-inspections.job", observation_id=observation_id)
