"""Paths: from an advice to its jobs, and from the packages of a stack to vulnerabilities."""

from __future__ import annotations

from collections import defaultdict

from flask import Response, request

from api.pages.api_client import read
from api.pages.site import Pages, other_url, render

#: Maximum number of chains that the API returns.
_MOST_CHAINS = 10_000

blueprint = Pages("paths", __name__)


@blueprint.get("/advice/<advice_id>/path")
def advice_path(advice_id: str) -> Response:
    """What an advice rests on, down to the jobs."""
    path = read(f"/api/v2/advice/{advice_id}/path", **request.args)
    below = defaultdict(list)
    for edge in path["edges"]:
        below[edge["source"]].append(edge)
    nodes = {it["id"]: it for it in path["nodes"]}
    jobs = [it for it in path["nodes"] if it["kind"] == "job"]
    return render(
        "advice_path.html", path, advice_id=advice_id, nodes=nodes, below=below, jobs=jobs,
        truncated=path["truncated"],
    )  # fmt: skip


@blueprint.get("/stacks/<digest>/path")
def stack_path(digest: str) -> Response:
    """Why a stack is affected by vulnerabilities: the requirements that lead there."""
    stack = read(f"/api/v2/stacks/{digest}")
    path = read(f"/api/v2/stacks/{digest}/path", **request.args)
    return render(
        "stack_path.html", path, stack, stack=stack.body, chains=path["chains"],
        labels={it["id"]: it["label"] for it in path["nodes"]},
        versions={it["purl"]: it for it in stack["packages"]},
        selected=request.args, truncated=path["truncated"],
        more_url=other_url(limit=_MOST_CHAINS),
    )  # fmt: skip
