"""Check a report without its record: by itself, or with its snapshot and its evidence.

Only the record has the project and the files of releases. Without it, the manifest and the hashes
cannot be verified, and edits may go unnoticed. With the snapshot that the report names, the check
verifies that every stack may be chosen and meets the request. With the evidence, it also verifies
the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import orjson

from adviser.harm import harmful_versions, pins_of
from adviser.reports.checking import (
    OTHER_VERSION,
    READING_ERRORS,
    ReportCheck,
    expect_schema,
    other_version,
    resolution_in,
)
from adviser.reports.documents import premises_in, unbounded_in
from adviser.reports.serialization import dataclass_from_json
from adviser.resolver.admission import choosable, universe_of
from adviser.resolver.checker import check_resolution, check_stack
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Resolution, ResolutionStatus, ResolvedStack
from adviser.scoring.assess import assess
from adviser.scoring.criteria import SCALE, RecommendationType, newness_of, penalties_of
from adviser.scoring.target import Target
from model.errors import InvalidDocument
from model.json_documents import digest, fault_in
from model.measurements.evidence import Evidence
from model.packages.environments import Environment
from model.packages.snapshot import Snapshot
from model.reasons import Reason

_CONSISTENT_REPORT = "the report is consistent: digest, sums, order, bound, lock and stack"
_FEASIBLE = "every version may be chosen and every requirement is met, by the snapshot"
_SCORED = "scores and their order, by the snapshot and the evidence"
_RECORD = (
    "unedited content, the hashes and URLs of files, the project's manifest, and the proof that no "
    "stack is better: this machine has no record of the advice"
)


def check_offline(
    report: Mapping[str, Any], snapshot: Snapshot | None = None, evidence: Evidence | None = None
) -> ReportCheck:
    """Check a report whose advice is not in the record.

    Scores are only verified if this version of Thoth wrote the report.

    :param snapshot: the snapshot that the report names, if it is available
    :param evidence: the evidence that the report names, if it is available
    :raises InvalidDocument: if it is not a report of this schema
    """
    expect_schema(report)
    try:
        return _checked(report, snapshot, evidence)
    except READING_ERRORS as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a report: {fault_in(error)}") from error


def _checked(
    report: Mapping[str, Any], snapshot: Snapshot | None, evidence: Evidence | None
) -> ReportCheck:
    inner, certificate = report["result"]["report"], report["result"]["report"]["certificate"]
    problems, verified, unverified = list(_by_itself(report)), [_CONSISTENT_REPORT], []
    named, based = certificate["snapshot"], certificate["evidence"]
    if snapshot is not None and snapshot.revision != named:
        problems.append(f"it is based on snapshot {named}, not on {snapshot.revision}")
    if evidence is not None and evidence.revision != based:
        problems.append(f"it is based on evidence {based}, not on {evidence.revision}")
    if snapshot is None:
        unverified.append(f"{_FEASIBLE}: it needs snapshot {named} (--snapshot)")
        unverified.append(f"{_SCORED}: it needs both")
        return ReportCheck(tuple(problems), tuple(verified), (*unverified, _RECORD))
    parameters = report["result"]["parameters"]
    rules = dataclass_from_json(orjson.dumps(parameters["rules"]), ResolverRequest)
    rules = replace(
        rules, inferred_bounds=True, unbounded=unbounded_in(certificate, snapshot.packages)
    )
    resolution = resolution_in(inner)
    author = other_version(report)
    if evidence is None or author is not None:
        problems += _unfeasible(resolution, snapshot, rules)
        needed = f"{_SCORED}: it needs evidence {based} (--evidence)"
        unverified.append(needed if author is None else f"{OTHER_VERSION} {author}")
    else:
        problems += _unscored(resolution, snapshot, evidence, parameters, inner, rules)
        verified.append(_SCORED)
    verified.insert(1, _FEASIBLE)
    return ReportCheck(tuple(problems), tuple(verified), (*unverified, _RECORD))


def _unfeasible(
    resolution: Resolution, snapshot: Snapshot, rules: ResolverRequest
) -> Iterator[str]:
    """Reasons why stacks cannot be installed, regardless of their scores."""
    universe = universe_of(snapshot, rules, {})
    for number, stack in enumerate(resolution.stacks, 1):
        plain = tuple(replace(it, contributions=()) for it in stack.choices)
        levels = (0,) * universe.level_count
        unscored = ResolvedStack(plain, stack.passed_over, levels, stack.uninvited)
        for problem in check_stack(universe, unscored):
            yield f"stack {number}: {problem}"


def _unscored(
    resolution: Resolution,
    snapshot: Snapshot,
    evidence: Evidence,
    parameters: Mapping[str, Any],
    inner: Mapping[str, Any],
    rules: ResolverRequest,
) -> list[str]:
    locked = inner["baseline"]["versions"] if inner["baseline"].get("locked") else None
    premises = premises_in(inner, locked)
    if premises.kept:
        rules = replace(rules, constraints=(*rules.constraints, *pins_of(locked or {})))
    allowed = parameters["allowed_vulnerabilities"]
    own, files = parameters.get("benchmarks", {}), parameters.get("benchmark_files", {})
    assessment = assess(
        snapshot,
        evidence,
        RecommendationType(parameters["recommendation_type"]),
        premises.baseline,
        Target(
            parameters["hardware"] or None,
            dataclass_from_json(
                orjson.dumps(parameters["environment"]), Environment
            ).python_version,
            tuple((name, it, files.get(name)) for name, it in own.items()),
        ),
        allowed=allowed,
        choosable=partial(choosable, snapshot, rules),
        context=premises.context,
        harmful=harmful_versions(snapshot, evidence, locked, premises, allowed),
    )
    request = replace(rules, refused=assessment.refused)
    criteria = assessment.criteria
    universe = universe_of(
        snapshot, request, assessment.scores, penalties_of(criteria), newness_of(criteria)
    )
    return check_resolution(universe, resolution)


def _by_itself(report: Mapping[str, Any]) -> Iterator[str]:
    result, inner = report["result"], report["result"]["report"]
    if digest(result) != report["metadata"]["result_digest"]:
        yield "the digest in the metadata is not that of the result"
    resolution = resolution_in(inner)
    yield from _certificate_problems(resolution)
    for number, product in enumerate(inner["products"], 1):
        for holds, message in _PRODUCT:
            if not holds(product):
                yield f"stack {number}: {message}"


def _certificate_problems(resolution: Resolution) -> Iterator[str]:
    if bool(resolution.stacks) != (
        resolution.status in (ResolutionStatus.OPTIMAL, ResolutionStatus.FEASIBLE)
    ):
        yield f"the status is {resolution.status}, but there are {len(resolution.stacks)} stacks"
    if resolution.status is ResolutionStatus.INFEASIBLE and resolution.conflict is None:
        yield "infeasible, but without a conflict"
    if resolution.stacks and resolution.objective != resolution.stacks[0].levels:
        yield "the objective is not the score of the first stack"
    if resolution.stacks and (resolution.bound == resolution.objective) != (
        resolution.status is ResolutionStatus.OPTIMAL
    ):
        yield "the status must be optimal if, and only if, the objective reaches the bound"
    keys = [
        ([-level for level in it.levels], it.uninvited, it.passed_over) for it in resolution.stacks
    ]
    if any(key > following for key, following in pairwise(keys)):
        yield "the stacks are not sorted by score"


def _lock_matches_stack(product: Mapping[str, Any]) -> bool:
    locked = product["project"]["requirements_locked"]
    entries = {**locked["default"], **locked["develop"]}
    versions = {it["name"]: f"=={it['version']}" for it in product["packages"]}
    return not entries or {name: it["version"] for name, it in entries.items()} == versions


def _graph_matches_stack(product: Mapping[str, Any]) -> bool:
    names = sorted(it["name"] for it in product["packages"])
    nodes = product["dependency_graph"]["nodes"]
    manifest = product["project"]["requirements"]
    request = {*manifest["packages"], *manifest["dev-packages"]}
    return nodes[: len(names)] == names and request.issuperset(nodes[len(names) :])


def _criteria_add_up(product: Mapping[str, Any]) -> bool:
    columns = zip(*(it["contributions"] for it in product["packages"]), strict=True)
    contributions = [it["contribution"] for it in product["criteria"]]
    return not product["packages"] or [sum(it) / SCALE for it in columns] == contributions


def _adds_up(product: Mapping[str, Any]) -> bool:
    total = sum(sum(it["contributions"]) for it in product["packages"])
    return bool(product["score"] == total / SCALE and sum(product["levels"]) == total)


#: Conditions that every product meets, with the message if it does not.
_PRODUCT: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = (
    (_adds_up, "the score is not the sum of its contributions"),
    (_criteria_add_up, "the contributions of the criteria do not add up"),
    (
        lambda product: product["passed_over"] == sum(it["place"] for it in product["packages"]),
        "the number of versions passed over is not the sum over its packages",
    ),
    (_graph_matches_stack, "the dependency graph has other packages than the stack"),
    (_lock_matches_stack, "the lock has other versions than the stack"),
)
