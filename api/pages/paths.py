"""Paths: from an advice to its jobs, and from the packages of a stack to vulnerabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from flask import Response, request, url_for
from markupsafe import Markup

from adviser.plots.paths import MOST_NODES, DrawnEdge, DrawnNode, paths_plot
from api.pages.api_client import ApiDocument, read
from api.pages.formatting import quantity, visible
from api.pages.site import Pages, other_url, plot, render

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
        truncated=path["truncated"], most=MOST_NODES,
        drawing=_drawing(path, "From the advice to the jobs it rests on"),
    )  # fmt: skip


@blueprint.get("/stacks/<digest>/path")
def stack_path(digest: str) -> Response:
    """Why a stack is affected by vulnerabilities: the requirements that lead there."""
    stack = read(f"/api/v2/stacks/{digest}")
    path = read(f"/api/v2/stacks/{digest}/path", **request.args)
    return render(
        "stack_path.html", path, stack, stack=stack.body, chains=path["chains"],
        labels={it["id"]: it["label"] for it in path["nodes"]}, most=MOST_NODES,
        versions={it["purl"]: it for it in stack["packages"]},
        selected=request.args, count=len(path["nodes"]), truncated=path["truncated"],
        more_url=other_url(limit=_MOST_CHAINS),
        drawing=_drawing(path, "From packages to vulnerabilities"),
    )  # fmt: skip


def _drawing(path: ApiDocument, title: str) -> Markup | None:
    """The first nodes; those that paths start with come first."""
    if len(path["nodes"]) < 2:
        return None
    nodes = [
        DrawnNode(it["id"], _label(it), _url(it), "quartiles" if it["kind"] in _ENDS else "band")
        for it in sorted(path["nodes"], key=lambda node: _ORDER.index(node["kind"]))
    ]
    edges = [DrawnEdge(**it) for it in path["edges"]]
    return plot(paths_plot(nodes, edges, title))


def _label(node: Mapping[str, Any]) -> str:
    rate = node.get("rate")
    text = node["label"] if rate is None else f"{node['label']} {quantity(rate, node['unit'])}"
    return visible(text)


_ORDER = ("advice", "stack", "inspection", "release", "vulnerability", "job")
#: Kinds at which paths end.
_ENDS = frozenset({"job", "vulnerability"})


def _url(node: Mapping[str, Any]) -> str:
    identifier = node["id"]
    match node["kind"]:
        case "advice":
            return url_for("pages-advice.advice", advice_id=identifier)
        case "stack":
            return url_for("pages-stacks.stack", digest=identifier)
        case "inspection":
            return url_for("pages-inspections.inspection", document_id=identifier)
        case "job":
            return url_for("pages-inspections.job", observation_id=identifier)
        case "vulnerability":
            return url_for("pages-vulnerabilities.vulnerability", identifier=identifier)
    name, version = node["label"].rsplit(" ", 1)
    return url_for("pages-packages.version", name=name, version=version)
