"""Jobs that fetch requested packages, with all their dependencies, from an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from api.jobs.request_run import WorkerContext, store_result
from common.settings import Settings
from graph.record.analyses import Analysis
from ingest.crawl.closure import CrawlBounds
from ingest.crawl.runs import add_packages, packages_document, unanswered, wanted_packages
from model.errors import IndexFault, IndexProblem

#: Maximum number of packages that one request fetches, including dependencies.
MAX_PACKAGES = 250


def fetch(
    settings: Settings, index: str | None, requirements: Sequence[str], *, prereleases: bool = False
) -> dict[str, Any]:
    """Fetch packages and their dependencies from a configured index.

    :returns: the report of ``thoth packages add --json``
    :raises InvalidArgument: if there is no such index, or a requirement is invalid
    :raises IndexProblem: if the index does not answer
    """
    bounds = CrawlBounds(max_packages=MAX_PACKAGES, prereleases=prereleases)
    outcome = add_packages(
        settings, wanted_packages(requirements), bounds, index=index, watching=False
    )
    if unanswered(outcome.report):
        raise IndexProblem(IndexFault.UNREACHABLE, "the index does not answer")
    # Turns the enumeration members among the keys into strings.
    return dict(
        orjson.loads(orjson.dumps(packages_document(outcome), option=orjson.OPT_NON_STR_KEYS))
    )


def fetch_requested(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Fetch the packages of a request.

    :returns: the identifier of the report's document
    """
    report = fetch(
        worker.settings,
        request["index"],
        request["requirements"],
        prereleases=request["prereleases"],
    )
    return store_result(worker, analysis, report)
