"""Searches of ``thoth bisect``."""

from flask import Response

from adviser.bisect.search import SearchState
from api.pages.site import Pages, read, render, render_list

blueprint = Pages("bisects", __name__)


@blueprint.get("/bisects")
def bisects() -> Response:
    """All searches, last started first."""
    return render_list("bisects", states=[it.value for it in SearchState])


@blueprint.get("/bisects/<bisect_id>")
def bisect(bisect_id: str) -> Response:
    """One search: its answer, the most probable places and skipped stacks."""
    known = read(f"/api/v2/bisects/{bisect_id}")
    ended = known["state"] in {SearchState.STEP, SearchState.NONE}
    return render("bisect.html", known, bisect=known.body, ended=ended)
