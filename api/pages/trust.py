"""How good the advice and the measurements are."""

from __future__ import annotations

from flask import Response

from api.pages.api_client import read
from api.pages.site import Pages, render

blueprint = Pages("trust", __name__)


@blueprint.get("/trust")
def trust() -> Response:
    """The ledger of past advice, what was refused, and how current the data is."""
    ledger, status = read("/api/v2/ledger"), read("/api/v2/status")
    return render("trust.html", ledger, status, months=ledger["months"], state=status.body)
