"""Check a report without the solver.

The check rebuilds the universe from the recorded request, snapshot and evidence. Then
:mod:`adviser.resolver.checker` follows every stack from its roots; it shares no code with the
solver's model. Then the report is written again from its own stacks, and its scores, criteria,
claims, notes and locks are compared leaf by leaf. The check trusts the statements that only a
search can prove: that no stack is better, the digest and the sizes of the model, and the steps of a
conflict. The caller compares these with the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import orjson

from adviser.advise import Advice, assess_candidates, universe_for
from adviser.reports.documents import (
    SCHEMA_VERSION,
    ReleaseKnowledge,
    result_document,
    unbounded_in,
)
from adviser.reports.serialization import code_version, dataclass_from_json
from adviser.resolver.checker import check_resolution
from adviser.resolver.problem import ProblemSizes
from adviser.resolver.results import (
    Choice,
    Conflict,
    Resolution,
    ResolutionStatus,
    ResolvedStack,
    SearchLimit,
)
from adviser.scoring.assessment_types import Premises
from adviser.stack_request import StackRequest
from model.errors import InvalidDocument
from model.json_documents import canonical_json, digest, fault_in
from model.measurements.evidence import Evidence
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from model.reasons import Reason

#: Maximum number of characters of a value, and of messages in a list.
_MAX_CHARACTERS, _MAX_MESSAGES = 60, 20


def differences(actual: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Messages about every leaf in which two JSON documents differ.

    ``1``, ``1.0`` and ``true`` are three different values.

    :param actual: the document to check

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    ['a[1] is 2 instead of 3']
    """
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted(actual.keys() | expected.keys()):
            inner = f"{place}.{key}" if place else key
            if key not in expected:
                yield f"{inner} is unexpected"
            elif key not in actual:
                yield f"{inner} is missing"
            else:
                yield from differences(actual[key], expected[key], inner)
    elif _is_list(actual) and _is_list(expected):
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

    :param premises: as recorded, because finding them again would need the solver
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


def resolution_in(inner: Mapping[str, Any]) -> Resolution:
    """The result of the search according to the report."""
    certificate = inner["certificate"]
    return Resolution(
        status=ResolutionStatus(certificate["status"]),
        stacks=tuple(map(_stack, inner["products"])),
        objective=_levels(certificate["objective"]),
        bound=_levels(certificate["bound"]),
        settled=certificate["settled"],
        complete=certificate["complete"],
        conflict=_conflict(inner),
        limit=None if certificate["limit"] is None else SearchLimit(certificate["limit"]),
        sizes=_sizes(inner),
        model=certificate["model"],
        solver=certificate["solver"],
    )


def _conflict(inner: Mapping[str, Any]) -> Conflict | None:
    conflict = inner["conflict"]
    if conflict is None:
        return None
    return dataclass_from_json(
        orjson.dumps({it.name: conflict[it.name] for it in fields(Conflict)}), Conflict
    )


def _sizes(inner: Mapping[str, Any]) -> ProblemSizes | None:
    sizes = inner["search"]["sizes"]
    return None if sizes is None else dataclass_from_json(orjson.dumps(sizes), ProblemSizes)


def _stack(product: Mapping[str, Any]) -> ResolvedStack:
    choices = tuple(
        Choice(
            name=package["name"],
            version=package["version"],
            purl=Purl(package["purl"]),
            place=package["place"],
            contributions=tuple(package["contributions"]),
            extras=tuple(package["extras"]),
        )
        for package in product["packages"]
    )
    return ResolvedStack(
        choices, product["passed_over"], tuple(product["levels"]), product["uninvited"]
    )


def _levels(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


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
