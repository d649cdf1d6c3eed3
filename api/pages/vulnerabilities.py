"""Vulnerabilities: which releases and which stacks each affects."""

from __future__ import annotations

from collections import defaultdict
from urllib.parse import quote

from flask import Response, request

from api.pages.api_client import read
from api.pages.site import Pages, next_page, render
from model.packages.identity import version_key

#: Affected releases that are listed.
_MOST = 500

blueprint = Pages("vulnerabilities", __name__)


@blueprint.get("/vulnerabilities/<identifier>")
def vulnerability(identifier: str) -> Response:
    """One vulnerability with its advisories, affected releases and stacks."""
    known = read(f"/api/v2/vulnerabilities/{quote(identifier)}")
    name = known["vulnerability_id"]
    versions = read(f"/api/v2/vulnerabilities/{quote(name)}/versions", limit=_MOST)
    stacks = read("/api/v2/stacks", vulnerability=name, after=request.args.get("after"))
    releases: dict[str, list[str]] = defaultdict(list)
    for it in versions["items"]:
        releases[it["name"]].append(it["version"])
    return render(
        "vulnerability.html", known, versions, stacks, vulnerability=known.body,
        releases={name: sorted(it, key=version_key) for name, it in releases.items()},
        more_versions=versions["next"], stacks=stacks["items"], following=next_page(stacks),
    )  # fmt: skip
