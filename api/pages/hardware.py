"""Hardware classes: what was measured on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from api.pages.api_client import ApiDocument, read, read_if_any
from api.pages.formatting import day
from api.pages.groups import group_views
from api.pages.site import Pages, next_page, render
from model.text import counted

blueprint = Pages("hardware", __name__)


@blueprint.get("/hardware/<digest>")
def hardware_class(digest: str) -> Response:
    """One hardware class with the stacks that were measured on it."""
    known = read(f"/api/v2/hardware/{digest}")
    coverage = read(f"/api/v2/hardware/{known['digest']}/coverage")
    groups = read("/api/v2/comparison-groups", hardware=known["digest"])
    inspections = read("/api/v2/inspections", hardware=known["digest"], limit=10)
    return render(
        "hardware.html", known, coverage, groups, inspections, hardware=known.body,
        coverage=coverage.body, sentence=_sentence(coverage),
        groups=group_views(groups["items"]), following=next_page(groups),
        inspections=inspections["items"],
    )  # fmt: skip


def hardware_choices() -> tuple[ApiDocument | None, list[Mapping[str, Any]]]:
    """Hardware classes to choose from in a form: those that are described and were measured.

    :returns: the document of the API, ``None`` if this client may not read it; and the classes
    """
    measured = read_if_any("/api/v2/hardware", measured="true", limit=100)
    items = measured["items"] if measured else []
    return measured, [it for it in items if it["identity"].get("source") != "unknown"]


def _sentence(coverage: ApiDocument) -> str:
    """What was measured on a class, in one sentence."""
    indicators = coverage["indicators"]
    if not indicators:
        return "Nothing was measured on this hardware."
    packages = sorted({it["package"] for it in indicators if it["package"]})
    times = [it["measured_at"] for it in indicators if it["measured_at"]]
    measurements = sum(it["measurements"] for it in indicators)
    measured = f" of {', '.join(packages)}" if packages else ""
    last = f"; the last one on {day(max(times))}" if times else ""
    return f"{counted(measurements, 'measurement')}{measured}{last}."
