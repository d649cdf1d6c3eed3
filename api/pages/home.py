"""The first page: what changed, what is known, and how current it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Response

from api.pages.api_client import read, read_if_any
from api.pages.site import Pages, render
from common.releases import as_json_time

#: Changes of the last so many days are shown.
_DAYS = 30

blueprint = Pages("home", __name__)


@blueprint.get("/")
def home() -> Response:
    """Settled changes of the last days, numbers of what is recorded, and open work."""
    since = as_json_time(datetime.now(UTC) - timedelta(days=_DAYS))
    changes = read("/api/v2/changes", since=since, limit=20)
    hardware = read("/api/v2/hardware", limit=10)
    status, loop = read("/api/v2/status"), read_if_any("/api/v2/loop")
    documents = [it for it in (changes, hardware, status, loop) if it is not None]
    return render(
        "home.html", *documents, days=_DAYS, changes=changes["items"],
        hardware=hardware["items"], state=status.body, loop=loop and loop.body,
    )  # fmt: skip
