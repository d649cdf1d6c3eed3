"""The proof of a smallest fix as a file, and its check without the stores.

The file holds the compressed problem that was solved, and the answer. The check reads nothing else:
it follows the requirements of the answer from the roots, adds up what it costs, and then searches
again for an answer that costs less, by the solver alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from adviser.fix import FixResult
from adviser.fix_universe import LEVELS
from adviser.reports.checking import READING_ERRORS, ReportCheck
from adviser.reports.serialization import dataclass_of, plain
from adviser.resolver.compression import compress
from adviser.resolver.problem import SelectionProblem
from adviser.resolver.resolver_request import Budget
from model.errors import InvalidDocument, Reason
from model.json_documents import fault_in

SCHEMA_VERSION = "fix-proof-1"
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
        "schema_version": SCHEMA_VERSION,
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
    is_proof = isinstance(document, dict) and document.get("schema_version") == SCHEMA_VERSION
    return document if is_proof else None


def check_fix_proof(document: Mapping[str, Any]) -> ReportCheck:
    """Check a proof by itself.

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
    """What is wrong with an answer, without the searches' own functions."""
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
