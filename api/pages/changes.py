"""Settled changes of performance."""

from flask import Response

from api.pages.site import Pages, read, render, render_list
from api.pages.stack_groups import differences_plot

blueprint = Pages("changes", __name__)


@blueprint.get("/changes")
def changes() -> Response:
    """All settled changes, newest first."""
    return render_list("changes")


@blueprint.get("/changes/<change_id>")
def change(change_id: str) -> Response:
    """One change, and the entries that refer to it."""
    entry = read(f"/api/v2/changes/{change_id}")
    later = read("/api/v2/changes", refers_to=entry["change_id"])
    row = entry["title"], entry.body, entry["delta_pct"]
    return render(
        "change.html", entry, later, change=entry.body, later=later["items"],
        drawing=differences_plot([row], "The difference with its 95 % interval"),
    )  # fmt: skip
