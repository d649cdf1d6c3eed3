"""Hardware classes: what was measured on each."""

from __future__ import annotations

from flask import Response

from api.pages.api_client import read
from api.pages.groups import group_views
from api.pages.site import Pages, next_page, render

blueprint = Pages("hardware", __name__)


@blueprint.get("/hardware/<digest>")
def hardware_class(digest: str) -> Response:
    """One hardware class with the stacks that were measured on it."""
    known = read(f"/api/v2/hardware/{digest}")
    groups = read("/api/v2/comparison-groups", hardware=known["digest"])
    inspections = read("/api/v2/inspections", hardware=known["digest"], limit=10)
    return render(
        "hardware.html", known, groups, inspections, hardware=known.body,
        groups=group_views(groups["items"]), following=next_page(groups),
        inspections=inspections["items"],
    )  # fmt: skip
