"""A second opinion on a report: what it says is worked out again, without the solver.

The universe is made anew of the recorded request, snapshot and evidence, and every stack
of the report is followed from its roots by :mod:`adviser.resolver.checker`, which shares no code
with the model. Scores, order, certificate and locks are compared with what comes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from adviser.advise import universe_for
from adviser.asked import Asked
from adviser.reports.documents import SCHEMA_VERSION, Known
from adviser.resolver.checker import check_resolution
from adviser.resolver.results import Choice, Limit, Resolution, Stack, Status
from adviser.resolver.universe import Universe
from adviser.scoring.assessments import Assessment
from adviser.scoring.criteria import SCALE
from common.errors import InvalidDocument
from common.inspection import digest
from common.packages import Purl
from common.reasons import Reason
from graph.evidence import Evidence
from graph.snapshot import Snapshot

_BROKEN = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def check_report(
    report: Mapping[str, Any],
    asked: Asked,
    snapshot: Snapshot,
    evidence: Evidence,
    known: Known,
    assessment: Assessment,
) -> list[str]:
    """What is wrong with a report, in words; nothing if all of it holds.

    :param assessment: of the same request, made again
    :raises InvalidDocument: if it is no report of this schema
    """
    version = report.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"{version!r} is not {SCHEMA_VERSION!r}", field="schema_version"
        )
    try:
        return list(_problems(report, asked, snapshot, evidence, known, assessment))
    except _BROKEN as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a report: {error!r}") from error


def _problems(
    report: Mapping[str, Any],
    asked: Asked,
    snapshot: Snapshot,
    evidence: Evidence,
    known: Known,
    assessment: Assessment,
) -> Iterator[str]:
    result, inner = report["result"], report["result"]["report"]
    certificate = inner["certificate"]
    if digest(result) != report["metadata"]["result_digest"]:
        yield "the result is not the one that its metadata names"
    if certificate["snapshot"] != snapshot.revision:
        yield f"it rests on snapshot {certificate['snapshot']}, this is {snapshot.revision}"
    if certificate["evidence"] != evidence.revision:
        yield "it rests on other evidence than this"
    if result["parameters"]["recommendation_type"] != asked.kind.value:
        yield f"the request was for {asked.kind.value}"
    universe = universe_for(asked, snapshot, assessment)
    resolution = _resolution(inner)
    yield from check_resolution(universe, resolution)
    if resolution.status is Status.INFEASIBLE and inner["conflict"] is None:
        yield "infeasible, and no conflict is told"
    for number, product in enumerate(inner["products"], 1):
        for problem in _product_problems(product, universe, known):
            yield f"stack {number}: {problem}"


def _resolution(inner: Mapping[str, Any]) -> Resolution:
    it = inner["certificate"]
    return Resolution(
        status=Status(it["status"]),
        stacks=tuple(map(_stack, inner["products"])),
        objective=it["objective"],
        bound=it["bound"],
        settled=it["settled"],
        complete=it["complete"],
        limit=None if it["limit"] is None else Limit(it["limit"]),
    )


def _stack(product: Mapping[str, Any]) -> Stack:
    choices = tuple(
        Choice(
            name=it["name"],
            version=it["version"],
            purl=Purl(it["purl"]),
            place=it["place"],
            regret=it["regret"],
            contributions=tuple(it["contributions"]),
            extras=tuple(it["extras"]),
        )
        for it in product["packages"]
    )
    return Stack(choices, product["regret"], product["passed_over"])


def _product_problems(
    product: Mapping[str, Any], universe: Universe, known: Known
) -> Iterator[str]:
    packages = product["packages"]
    versions = {it["name"]: it["version"] for it in packages}
    total = sum(sum(universe.contributions.get(it["purl"], ())) for it in packages)
    if product["score"] != total / SCALE:
        yield f"the score is {total / SCALE}"
    if [it["contribution"] for it in product["criteria"]] != [
        sum(it["contributions"][place] for it in packages) / SCALE
        for place in range(len(product["criteria"]))
    ]:
        yield "the criteria do not add up to the choices"
    if sorted(versions) != product["dependency_graph"]["nodes"]:
        yield "the dependency graph has other packages"
    locked = product["project"]["requirements_locked"]
    entries = {**locked["default"], **locked["develop"]}
    if entries:
        yield from _lock_problems(entries, versions, packages, known)


def _lock_problems(
    entries: Mapping[str, Any],
    versions: Mapping[str, str],
    packages: list[Mapping[str, Any]],
    known: Known,
) -> Iterator[str]:
    if {name: it["version"].removeprefix("==") for name, it in entries.items()} != versions:
        yield "the lock has other versions than the stack"
    purls = {it["name"]: Purl(it["purl"]) for it in packages}
    for name, entry in sorted(entries.items()):
        files = known.files.get(purls.get(name, Purl("")), ())
        ours = {f"sha256:{it.sha256}" for it in files if it.sha256 and not it.yanked}
        if not entry["hashes"]:
            yield f"{name} is locked without a hash"
        for other in sorted(set(entry["hashes"]) - ours):
            yield f"{name}: no file of {versions.get(name)} has the hash {json.dumps(other)}"
