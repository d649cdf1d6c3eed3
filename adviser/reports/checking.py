"""A second opinion on a report: what it says is worked out again, without the solver.

The universe is made anew of the recorded request, snapshot and evidence, and every stack
of the report is followed from its roots by :mod:`adviser.resolver.checker`, which shares no code
with the model. Then the report is written anew from its own stacks and compared leaf by leaf:
scores, criteria, claims, notes, locks. What only a search can tell is believed here (that nothing
is better, the digest of the model, its sizes, a conflict's steps), and compared with the record by
whoever has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import orjson

from adviser.advise import Advice, assessed, universe_for
from adviser.asked import Asked
from adviser.reports.documents import SCHEMA_VERSION, ReleaseKnowledge, result_document
from adviser.reports.serialization import unpacked
from adviser.resolver.checker import check_resolution
from adviser.resolver.problems import Sizes
from adviser.resolver.results import Choice, Conflict, Limit, Resolution, Stack, Status
from common.errors import InvalidDocument
from common.formats.json_documents import canonical_json, digest, fault_in
from common.packages import Purl
from common.reasons import Reason
from graph.evidence import Evidence
from graph.snapshot import Snapshot

#: Characters of a value in a message, and messages in a list: a person stops reading there.
_SHOWN, _TOLD = 60, 20


def differences(told: Any, true: Any, place: str = "") -> Iterator[str]:
    """In words, every leaf of ``told`` that is another in ``true``, or there in one alone.

    ``1``, ``1.0`` and ``true`` are three different values.

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    ['a[1] is 2, and not 3']
    """
    if isinstance(told, Mapping) and isinstance(true, Mapping):
        for key in sorted(told.keys() | true.keys()):
            inner = f"{place}.{key}" if place else key
            if key not in true:
                yield f"{inner} should not be there"
            elif key not in told:
                yield f"{inner} is missing"
            else:
                yield from differences(told[key], true[key], inner)
    elif _is_list(told) and _is_list(true):
        if len(told) != len(true):
            yield f"{place} has {len(told)} entries, and not {len(true)}"
        for number, (one, other) in enumerate(zip(told, true, strict=False)):
            yield from differences(one, other, f"{place}[{number}]")
    elif type(told) is not type(true) or told != true:
        yield f"{place} is {_short(told)}, and not {_short(true)}"


def shortened(problems: Iterator[str]) -> Iterator[str]:
    """The first problems, and whether there are more."""
    yield from islice(problems, _TOLD)
    if next(problems, None) is not None:
        yield "and more of the kind"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


#: What reading a document that is no report raises.
BROKEN = (KeyError, TypeError, ValueError, IndexError, AttributeError)


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """What an advice was made of.

    :param baseline: version by name of what claims compare with, as it was found then: looking for
        it anew would take the solver
    :param baseline_settled: whether that search was
    """

    asked: Asked
    snapshot: Snapshot
    evidence: Evidence
    known: ReleaseKnowledge
    baseline: Mapping[str, str] | None
    baseline_settled: bool = True


@dataclass(frozen=True, slots=True)
class ReportCheck:
    """What came of a check.

    :param problems: what does not hold, in words
    :param verified: what was worked out again, or compared with the record
    :param unverified: what could not be, with the reason
    """

    problems: tuple[str, ...]
    verified: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


def check_report(report: Mapping[str, Any], material: AdviceInputs) -> list[str]:
    """What is wrong with a report, in words; nothing if all of it holds.

    :raises InvalidDocument: if it is no report of this schema
    """
    expect_schema(report)
    try:
        return list(_problems(report, material))
    except BROKEN as error:
        raise InvalidDocument(Reason.UNREADABLE, f"not a report: {fault_in(error)}") from error


def expect_schema(report: Mapping[str, Any]) -> None:
    """Refuse what is of another schema.

    :raises InvalidDocument: naming both
    """
    version = report.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"{version!r} is not {SCHEMA_VERSION!r}", field="schema_version"
        )


def _problems(report: Mapping[str, Any], it: AdviceInputs) -> Iterator[str]:
    result, inner = report["result"], report["result"]["report"]
    certificate = inner["certificate"]
    if digest(result) != report["metadata"]["result_digest"]:
        yield "the result is not the one that its metadata names"
    if certificate["snapshot"] != it.snapshot.revision:
        yield f"it rests on snapshot {certificate['snapshot']}, this is {it.snapshot.revision}"
    if certificate["evidence"] != it.evidence.revision:
        yield "it rests on other evidence than this"
    assessment = assessed(it.asked, it.snapshot, it.evidence, it.baseline)
    universe = universe_for(it.asked, it.snapshot, assessment)
    resolution = resolution_in(inner)
    wrong = check_resolution(universe, resolution)
    yield from wrong
    if resolution.status is Status.INFEASIBLE and resolution.conflict is None:
        yield "infeasible, and no conflict is told"
    yield from _hash_problems(inner["products"], it.known)
    if wrong:
        return  # stacks that may not be chosen can be written in no report
    advice = Advice(
        it.asked, it.snapshot, it.evidence, it.baseline, assessment, universe, resolution,
        it.baseline_settled,
    )  # fmt: skip
    # As a reader has it: tuples are lists.
    again = orjson.loads(canonical_json(result_document(advice, it.known)))
    yield from shortened(differences(result, again, "result"))


def resolution_in(inner: Mapping[str, Any]) -> Resolution:
    """What the search is said to have found."""
    it = inner["certificate"]
    return Resolution(
        status=Status(it["status"]),
        stacks=tuple(map(_stack, inner["products"])),
        objective=it["objective"],
        bound=it["bound"],
        settled=it["settled"],
        complete=it["complete"],
        conflict=_conflict(inner),
        limit=None if it["limit"] is None else Limit(it["limit"]),
        sizes=_sizes(inner),
        model=it["model"],
        solver=it["solver"],
    )


def _conflict(inner: Mapping[str, Any]) -> Conflict | None:
    told = inner["conflict"]
    if told is None:
        return None
    return unpacked(orjson.dumps({it.name: told[it.name] for it in fields(Conflict)}), Conflict)


def _sizes(inner: Mapping[str, Any]) -> Sizes | None:
    told = inner["search"]["sizes"]
    return None if told is None else unpacked(orjson.dumps(told), Sizes)


def _stack(product: Mapping[str, Any]) -> Stack:
    choices = tuple(
        Choice(
            name=it["name"],
            version=it["version"],
            purl=Purl(it["purl"]),
            place=it["place"],
            contributions=tuple(it["contributions"]),
            extras=tuple(it["extras"]),
        )
        for it in product["packages"]
    )
    return Stack(choices, product["passed_over"])


def _hash_problems(products: list[Mapping[str, Any]], known: ReleaseKnowledge) -> Iterator[str]:
    """Hashes that no file of the locked version has, each by itself: an installer trusts them."""
    for number, product in enumerate(products, 1):
        locked = product["project"]["requirements_locked"]
        purls = {it["name"]: Purl(it["purl"]) for it in product["packages"]}
        for name, entry in sorted({**locked["default"], **locked["develop"]}.items()):
            files = known.files.get(purls.get(name, Purl("")), ())
            ours = {f"sha256:{it.sha256}" for it in files if it.sha256}
            for other in sorted(set(entry["hashes"]) - ours):
                yield f"stack {number}: {name}: no file of it has the hash {json.dumps(other)}"
