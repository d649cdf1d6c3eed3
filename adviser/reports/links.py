"""What a report ties its advice to in the graph: stacks, and observations as its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from common.inspection import Stack
from common.packages import PackageVersion, Purl
from graph.repositories.advice import AdviceLinks, Recommended


def links_of(result: Mapping[str, Any]) -> AdviceLinks:
    """The stacks that a report recommends, and all that it names as evidence.

    An inspection of the same versions has the same stack. Evidence is what the claims and the
    justifications of the products name, and those of the request as a whole: observations, and
    vulnerabilities, which are tied to the versions that they affect already.

    :param result: as :func:`adviser.reports.documents.result_document` made it
    """
    report = result["report"]
    products = report["products"]
    return AdviceLinks(
        tuple(Recommended(_stack(it["packages"]), it["score"]) for it in products),
        frozenset(_evidence(report["stack_info"]))
        | {
            one
            for product in products
            for one in _evidence([*product["claims"], *product["justification"]])
        },
    )


def _stack(packages: Iterable[Mapping[str, Any]]) -> Stack:
    return Stack.of(
        tuple(
            PackageVersion(it["name"], it["version"], it["index"], Purl(it["purl"]))
            for it in packages
        )
    )


def _evidence(notes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for note in notes:
        yield from note.get("evidence", ())
