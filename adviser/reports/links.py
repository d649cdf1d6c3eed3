"""What an advice is tied to in the graph: its request, stacks, claims and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from adviser.advise import Advice
from adviser.asked import Asked
from adviser.reports.claims import claim_document
from adviser.scoring.assessments import Claim
from common.inspection import Stack, digest
from common.packages import PackageVersion, Purl
from graph.repositories.advice import AdviceLinks, AskedFor, Recommended
from graph.repositories.claims import RecordedClaim

#: Fields of recorded claims that are those of the report's, under the same names.
_REPORTED = frozenset(field.name for field in fields(RecordedClaim)).intersection(
    field.name for field in fields(Claim)
)


def links_of(advice: Advice, result: Mapping[str, Any]) -> AdviceLinks:
    """The request that an advice answers, its stacks, all its claims and their evidence.

    An inspection of the same versions has the same stack. Evidence is what the claims and the
    justifications of the products name, and those of the request as a whole: observations, and
    vulnerabilities, which are tied to the versions that they affect already. Claims are all that
    were made, for those about slower versions are about none that is recommended.

    :param result: as :func:`adviser.reports.documents.result_document` made it of ``advice``
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
        tuple(map(recorded_claim, advice.assessment.claims)),
        _asked_for(advice.asked),
    )


def recorded_claim(claim: Claim) -> RecordedClaim:
    """A claim as the record keeps it; its identifier is made of all that a report says of it."""
    document = claim_document(claim)
    return RecordedClaim(
        **{name: document[name] for name in _REPORTED}
        | {
            "claim_id": digest(document),
            "stack_digest": claim.stack,
            "baseline_digest": claim.baseline_stack,
            "as_of": claim.as_of,
        }
    )


def _asked_for(asked: Asked) -> AskedFor:
    wanted = asked.requirements
    return AskedFor(
        {it.text for it in wanted},
        {it.name for it in wanted},
        asked.hardware,
        asked.options.count,
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
