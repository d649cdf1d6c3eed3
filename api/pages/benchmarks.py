"""Results of other benchmark systems, beside our own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response, request

from api.pages.api_client import read
from api.pages.site import Pages, next_page, render

blueprint = Pages("benchmarks", __name__)


@blueprint.get("/benchmarks")
def benchmarks() -> Response:
    """Results, in one table for each definition, since only these are comparable."""
    listed = read("/api/v2/benchmarks", **request.args)
    return render(
        "benchmarks.html", listed, tables=_by_definition(listed["items"]),
        following=next_page(listed), selected=request.args,
    )  # fmt: skip


def _by_definition(
    results: Iterable[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """The results of each definition in order, with the first of them as their head."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        names = ("system", "metric", "unit", "definition")
        groups[tuple(result[name] for name in names)].append(result)
    return [(rows[0], rows) for rows in groups.values()]
