"""What of an advice is in rows: its head, and its request, stacks, claims and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import orjson

from adviser.advise import Advice
from adviser.asked import Asked
from adviser.reports.serialization import claim_document, unpacked
from adviser.scoring.assessments import Claim
from common.environments import Environment
from common.formats.json_documents import digest
from common.inspection import Stack
from common.packages import PackageVersion, Purl
from graph.advice import (
    AdviceHead,
    AdviceLinks,
    AskedFor,
    Recommended,
    RecordedClaim,
)

#: Fields of recorded claims that are those of the report's, under the same names.
_REPORTED = frozenset(field.name for field in fields(RecordedClaim)).intersection(
    field.name for field in fields(Claim)
)


def head_of(report: Mapping[str, Any]) -> AdviceHead:
    """What lists show of the advice that a report tells of.

    :raises InvalidDocument: if the environment is of another version of this code
    """
    metadata, result = report["metadata"], report["result"]
    parameters, certificate = result["parameters"], result["report"]["certificate"]
    environment = unpacked(orjson.dumps(parameters["environment"]), Environment)
    return AdviceHead(
        advice_id=metadata["document_id"],
        recommendation_type=parameters["recommendation_type"],
        status=certificate["status"],
        snapshot_revision=certificate["snapshot"],
        result_digest=metadata["result_digest"],
        created_at=datetime.fromisoformat(metadata["datetime"]),
        python_version=environment.python_version,
        platform=environment.platform,
    )


def links_of(advice: Advice, result: Mapping[str, Any]) -> AdviceLinks:
    """The request that an advice answers, its stacks, all its claims and their evidence.

    An inspection of the same versions has the same stack. Evidence is what the claims and the
    justifications of the products name, and those of the request as a whole: observations, and
    vulnerabilities, which are tied to the versions that they affect already. Claims are those next
    to the baseline, also about versions that are not recommended; those between two other versions
    are in the report.

    :param result: as :func:`adviser.reports.documents.result_document` made it of ``advice``
    """
    return links_in(result, advice.assessment.claims, advice.asked)


def links_in(
    result: Mapping[str, Any], claims: Iterable[Claim] = (), asked: Asked | None = None
) -> AdviceLinks:
    """:func:`links_of` out of a report, which does not hold all claims.

    :param claims: that were made
    :param asked: the request
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
        tuple(recorded_claim(it) for it in claims if it.beside_baseline or it.confounded),
        None if asked is None else _asked_for(asked),
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
