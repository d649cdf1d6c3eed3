"""Searches of ``thoth bisect``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from markupsafe import Markup

from adviser.bisect.search import SearchState
from adviser.plots.chances import DrawnChance, chances_plot
from api.pages.api_client import read
from api.pages.formatting import percent
from api.pages.site import Pages, next_page, plot, render

blueprint = Pages("bisects", __name__)


@blueprint.get("/bisects")
def bisects() -> Response:
    """All searches, last started first."""
    listed = read("/api/v2/bisects", **request.args)
    return render(
        "bisects.html", listed, bisects=listed["items"], following=next_page(listed),
        selected=request.args, states=[it.value for it in SearchState],
    )  # fmt: skip


@blueprint.get("/bisects/<bisect_id>")
def bisect(bisect_id: str) -> Response:
    """One search: its answer, the posterior and what was skipped."""
    known = read(f"/api/v2/bisects/{bisect_id}")
    searches = [(it, _drawing(it)) for it in known["searches"]]
    ended = known["state"] in {SearchState.STEP, SearchState.NONE}
    return render("bisect.html", known, bisect=known.body, searches=searches, ended=ended)


def _drawing(search: Mapping[str, Any]) -> Markup | None:
    posterior = search["posterior"]
    if posterior is None:
        return None
    chances = [
        DrawnChance("no step", posterior["none"]),
        *(
            DrawnChance(it["after"], it["chance"], f"{percent(it['difference_pct'])} if it is here")
            for it in posterior["steps"]
        ),
    ]
    return plot(chances_plot(chances, "Chance of a step before each stack"))
