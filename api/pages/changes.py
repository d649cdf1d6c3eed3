"""Settled changes of performance."""

from __future__ import annotations

from flask import Response, request

from adviser.plots.effects import DrawnEffect, effects_plot
from api.pages.api_client import read
from api.pages.site import Pages, next_page, plot, render

blueprint = Pages("changes", __name__)


@blueprint.get("/changes")
def changes() -> Response:
    """All settled changes, newest first."""
    listed = read("/api/v2/changes", **request.args)
    return render(
        "changes.html", listed, changes=listed["items"], following=next_page(listed),
        selected=request.args,
    )  # fmt: skip


@blueprint.get("/changes/<change_id>")
def change(change_id: str) -> Response:
    """One change, and the entries that refer to it."""
    entry = read(f"/api/v2/changes/{change_id}")
    later = read("/api/v2/changes", refers_to=entry["change_id"])
    effect = DrawnEffect(
        entry["title"], entry["observed_pct"], entry["interval_low_pct"],
        entry["interval_high_pct"], entry["verdict"], entry["delta_pct"],
    )  # fmt: skip
    return render(
        "change.html", entry, later, change=entry.body, later=later["items"],
        drawing=plot(effects_plot([effect], "The difference with its 95 % interval")),
    )  # fmt: skip
