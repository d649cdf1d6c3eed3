"""Check a report without the solver: against its record, by itself, or with its inputs.

The check rebuilds the universe from the recorded request, snapshot and evidence. Then
:mod:`adviser.resolver.checker` follows every stack from its roots; it shares no code with the
solver's model. Then the report is written again from its own stacks, and its scores, criteria,
claims, notes and locks are compared leaf by leaf. The check trusts the statements that only a
search can prove: that no stack is better, the digest and the sizes of the model, and the steps of a
conflict. The caller compares these with the record.

Only the record has the project and the files of releases. Without it, the manifest and the hashes
cannot be verified, and edits may go unnoticed. With the snapshot that the report names, the check
verifies that every stack may be chosen and meets the request. With the evidence, it also verifies
the scores.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, TypeVar

import orjson

from adviser.advice_request import StackRequest
from adviser.advise import Advice, assess_candidates, universe_for
from adviser.fix import FixResult
from adviser.fix_universe import LEVELS
from adviser.harm_prevention import harmful_versions, pins_of
from adviser.reports.documents import (
    SCHEMA_VERSION,
    ReleaseKnowledge,
    premises_in,
    result_document,
    unbounded_in,
)
from adviser.reports.serialization import code_version, dataclass_from_json, dataclass_of, plain
from adviser.resolver.admission import choosable, universe_of
from adviser.resolver.checker import check_resolution, check_stack
from adviser.resolver.compression import compress
from adviser.resolver.problem import ProblemSizes, SelectionProblem
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.results import Choice, Conflict, Resolution, ResolutionStatus, ResolvedStack
from adviser.scoring.assess import assess
from adviser.scoring.assessment_types import Premises
from adviser.scoring.criteria import SCALE, RecommendationType, newness_of, penalties_of
from adviser.scoring.target import Target
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, digest, fault_in
from model.measurements.evidence import Evidence
from model.packages.environments import Environment
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot

T = TypeVar("T")

#: Maximum number of characters of a value, and of messages in a list.
_MAX_CHARACTERS, _MAX_MESSAGES = 60, 20
#: Types of values without parts.
_SCALARS = frozenset({str, int, float, bool, type(None)})


def differences(actual: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Messages about every leaf in which two JSON documents differ.

    ``1``, ``1.0`` and ``true`` are three different values.

    :param actual: the document to check

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    ['a[1] is 2 instead of 3']
    """
    have_parts = type(actual) not in _SCALARS and type(expected) not in _SCALARS
    if have_parts and isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted(actual.keys() | expected.keys()):
            inner = f"{place}.{key}" if place else key
            if key not in expected:
                yield f"{inner} is unexpected"
            elif key not in actual:
                yield f"{inner} is missing"
            else:
                yield from differences(actual[key], expected[key], inner)
    elif have_parts and _is_list(actual) and _is_list(expected):
        if len(actual) != len(expected):
            yield f"{place} has {len(actual)} entries instead of {len(expected)}"
        for number, (entry, other) in enumerate(zip(actual, expected, strict=False)):
            yield from differences(entry, other, f"{place}[{number}]")
    elif type(actual) is not type(expected) or actual != expected:
        yield f"{place} is {_short(actual)} instead of {_short(expected)}"


def first_problems(problems: Iterator[str]) -> Iterator[str]:
    """The first problems, and a message if there are more."""
    yield from islice(problems, _MAX_MESSAGES)
    if next(problems, None) is not None:
        yield "and more differences"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


#: Errors that are raised by reading a document that is not a report.
READING_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """The inputs of an advice.

    :param premises: the recorded premises; only the solver could compute them again
    """

    request: StackRequest
    snapshot: Snapshot
    evidence: Evidence
    known: ReleaseKnowledge
    premises: Premises


@dataclass(frozen=True, slots=True)
class ReportCheck:
    """The result of a check.

    :param problems: statements of the report that are wrong
    :param verified: statements that were derived again, or compared with the record
    :param unverified: statements that could not be checked, with the reason
    """

    problems: tuple[str, ...]
    verified: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


def check_report(report: Mapping[str, Any], material: AdviceInputs) -> list[str]:
    """Problems of a report; empty if it is correct.

    :raises InvalidDocument: if it is not a report of this schema
    """
    expect_schema(report)
    try:
        return list(_problems(report, material))
    except READING_ERRORS as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a report: {fault_in(error)}") from error


def expect_schema(report: Mapping[str, Any]) -> None:
    """Refuse a report of another schema version.

    :raises InvalidDocument: naming both versions
    """
    version = report.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"{version!r} is not {SCHEMA_VERSION!r}", field="schema_version"
        )


#: Start of the statement about a report of another version of Thoth.
OTHER_VERSION = "scores, criteria, claims, notes and locks: the report was written by Thoth"


def other_version(report: Mapping[str, Any]) -> str | None:
    """The version of Thoth that wrote a report; ``None`` if it is this version."""
    version = str(report["metadata"].get("analyzer_version", "unknown"))
    return None if version == code_version() else version


def _problems(report: Mapping[str, Any], inputs: AdviceInputs) -> Iterator[str]:
    result, inner = report["result"], report["result"]["report"]
    certificate = inner["certificate"]
    if digest(result) != report["metadata"]["result_digest"]:
        yield "the digest in the metadata is not that of the result"
    if certificate["snapshot"] != inputs.snapshot.revision:
        named = certificate["snapshot"]
        yield f"it is based on snapshot {named}, not on {inputs.snapshot.revision}"
    if certificate["evidence"] != inputs.evidence.revision:
        yield "it is based on other evidence"
    assessment = assess_candidates(
        inputs.request, inputs.snapshot, inputs.evidence, inputs.premises
    )
    dropped = unbounded_in(certificate, inputs.snapshot.packages)
    universe = universe_for(
        inputs.request, inputs.snapshot, assessment, dropped, premises=inputs.premises
    )
    resolution = resolution_in(inner)
    wrong = check_resolution(universe, resolution)
    yield from wrong
    if resolution.status is ResolutionStatus.INFEASIBLE and resolution.conflict is None:
        yield "infeasible, but without a conflict"
    yield from _hash_problems(inner["products"], inputs.known)
    if wrong:
        return  # no report can be written of a stack that may not be chosen
    advice = Advice(
        inputs.request, inputs.snapshot, inputs.evidence, inputs.premises, assessment, universe,
        resolution, dropped,
    )  # fmt: skip
    # Parsed again, so that tuples are lists.
    expected = orjson.loads(canonical_json(result_document(advice, inputs.known)))
    yield from first_problems(differences(result, expected, "result"))


_OF_CERTIFICATE = (
    "status", "objective", "bound", "settled", "complete", "limit", "model", "solver",
)  # fmt: skip


def resolution_in(inner: Mapping[str, Any]) -> Resolution:
    """The result of the search according to the report."""
    conflict, sizes = inner["conflict"], inner["search"]["sizes"]
    return replace(
        _part(inner["certificate"], Resolution, _OF_CERTIFICATE),
        stacks=tuple(
            ResolvedStack(
                tuple(_part(it, Choice) for it in product["packages"]),
                product["passed_over"],
                tuple(product["levels"]),
                product["uninvited"],
            )
            for product in inner["products"]
        ),
        conflict=None if conflict is None else _part(conflict, Conflict),
        sizes=None if sizes is None else dataclass_of(sizes, ProblemSizes),
    )


def _part(value: Mapping[str, Any], kind: type[T], names: Sequence[str] = ()) -> T:
    """A dataclass from a part of a report, which has more keys.

    :param names: of its fields that the part has; by default all
    """
    known = names or [it.name for it in fields(kind)]  # type: ignore[arg-type]
    return dataclass_of({name: value[name] for name in known}, kind)


def _hash_problems(products: list[Mapping[str, Any]], known: ReleaseKnowledge) -> Iterator[str]:
    """Messages about locked hashes that match no file of the locked version."""
    for number, product in enumerate(products, 1):
        locked = product["project"]["requirements_locked"]
        purls = {it["name"]: Purl(it["purl"]) for it in product["packages"]}
        for name, entry in sorted({**locked["default"], **locked["develop"]}.items()):
            files = known.files.get(purls.get(name, Purl("")), ())
            ours = {f"sha256:{it.sha256}" for it in files if it.sha256}
            for other in sorted(set(entry["hashes"]) - ours):
                yield f"stack {number}: {name}: none of its files has the hash {json.dumps(other)}"


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
    except READING_ERRORS as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a report: {fault_in(error)}") from error


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
    for number, product in enumerate(inner["products"], 1):
        for holds, message in _PRODUCT:
            if not holds(product):
                yield f"stack {number}: {message}"


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


#: The proof of a smallest fix holds the compressed problem that was solved, and the answer.
FIX_PROOF_SCHEMA = "fix-proof-1"
_FOLLOWED = "every requirement that the roots reach is met, by at most one version of each package"
_ADDED_UP = "the numbers of the answer, level by level"
_LEAST = "no other answer has smaller numbers: searched again, from the file alone"
_UNKNOWN = "that indexes list these versions with these requirements: run `thoth fix` again"
#: Limits of the second proof.
_BUDGET = Budget(time_s=60.0, steps=0)


def proof_document(result: FixResult) -> dict[str, Any] | None:
    """The proof of the first fix as JSON values; ``None`` if it is not proven."""
    fix, universe = result.fixes[0], result.proven_in
    if universe is None or result.resolution is None or not (fix.proof and fix.is_proven):
        return None
    problem = compress(universe)
    places = {it.name: it.place for it in result.resolution.stacks[0].choices}
    chosen = [
        number
        for number, node in enumerate(problem.nodes)
        if places.get(problem.names[node.package]) == node.place
    ]
    return {
        "schema_version": FIX_PROOF_SCHEMA,
        "assumption": fix.proof.assumption,
        "numbers": fix.proof.numbers,
        "chosen": {problem.names[problem.nodes[it].package]: it for it in chosen},
        "versions": fix.versions,
        "model": problem.digest,
        "solver": fix.proof.solver,
        "problem": plain(problem),
    }


def fix_proof_in(data: bytes) -> dict[str, Any] | None:
    """The proof in the content of a file; ``None`` if the file is something else."""
    try:
        document = orjson.loads(data)
    except ValueError:
        return None
    is_proof = isinstance(document, dict) and document.get("schema_version") == FIX_PROOF_SCHEMA
    return document if is_proof else None


def check_fix_proof(document: Mapping[str, Any]) -> ReportCheck:
    """Check the proof of a fix by itself: only the file is read.

    The check follows the requirements of the answer from the roots, adds up its costs, and then
    searches again for a cheaper answer, by the solver alone.

    :raises InvalidDocument: if it is not of this schema
    """
    try:
        problem = dataclass_of(document["problem"], SelectionProblem)
        chosen = {str(name): int(it) for name, it in document["chosen"].items()}
        numbers = [int(document["numbers"][it]) for it in LEVELS]
        assumed = document["assumption"]
        problems = list(_wrong(problem, chosen, numbers, document))
    except READING_ERRORS as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a proof: {fault_in(error)}") from error
    if problems:
        return ReportCheck(tuple(problems))
    # The solver is loaded only for a proof.
    from adviser.resolver.cp_sat_search import search

    unknown = (*([f"that {assumed}"] if assumed else []), _UNKNOWN)
    again = search(problem, _BUDGET)
    if again.bound is None or again.objective is None or again.bound != again.objective:
        return ReportCheck((), (_FOLLOWED, _ADDED_UP), (f"{_LEAST}: no time", *unknown))
    best = [-it for it in again.objective]
    if best != numbers:
        return ReportCheck((f"an answer with the numbers {best} exists",))
    return ReportCheck((), (_FOLLOWED, _ADDED_UP, _LEAST), unknown)


def _wrong(
    problem: SelectionProblem,
    chosen: Mapping[str, int],
    numbers: list[int],
    document: Mapping[str, Any],
) -> Iterator[str]:
    """Faults of an answer, found without the searches' own functions."""
    if document["model"] != problem.digest:
        yield "the problem is not the one that its digest names"
    if chosen.keys() != document["versions"].keys():
        yield "the versions are not those of the answer"
    of_package = {name: place for place, name in enumerate(problem.names)}
    for name, number in chosen.items():
        if problem.nodes[number].package != of_package[name]:
            yield f"node {number} is no version of {name}"
    yield from _unmet(problem, set(chosen.values()))
    absent = [of_package[name] for name in problem.names if name not in chosen]
    for level, number in enumerate(numbers):
        cost = sum(problem.costs[it][level] for it in chosen.values())
        cost += sum(problem.absence[it][level] for it in absent)
        if cost != number:
            yield f"{LEVELS[level]}: {cost} instead of {number}"


def _unmet(problem: SelectionProblem, nodes: set[int]) -> Iterator[str]:
    """The requirements from the roots that nodes do not meet, and nodes that nothing requires."""
    held, met, pending = set[int](), set[int](), list(problem.roots)
    while pending:
        atom = pending.pop()
        if atom in held:
            continue
        held.add(atom)
        members = problem.members[atom]
        if members is not None:
            reached = nodes.intersection(members)
            if not reached:
                yield f"requirement {atom} is not met"
            met |= reached
        for number in met:
            node = problem.nodes[number]
            pending += [it for it in node.requires if it not in held]
            for extra, brought in node.by_extra:
                if extra in held:
                    pending += [it for it in brought if it not in held]
    if met != nodes:
        yield "the answer has packages that nothing requires"
    for permit in problem.permits:
        if permit.node in nodes and held.isdisjoint(permit.atoms):
            yield f"nothing permits node {permit.node}"
