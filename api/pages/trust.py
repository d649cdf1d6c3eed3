"""How good the advice and the measurements are."""

from __future__ import annotations

from flask import Response

from api.pages.api_client import read
from api.pages.site import Pages, render

blueprint = Pages("trust", __name__)


@blueprint.get("/trust")
def trust() -> Response:
    """The ledger of past advice."""
    ledger = read("/api/v2/ledger")
    return render("trust.html", ledger, months=ledger["months"])
