"""The rows of an advice in the record: its head, request, stacks, claims and evidence."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import orjson

from adviser.advice_request import StackRequest
from adviser.advise import Advice
from adviser.reports.serialization import dataclass_from_json, identified_claim
from adviser.scoring.assessment_types import Claim
from model.advice import (
    AdviceHead,
    AdviceLinks,
    AdviceRequestSummary,
    RecommendedStack,
    RecordedClaim,
)
from model.measurements.inspection import Stack
from model.packages.environments import Environment
from model.packages.identity import PackageVersion, Purl

#: Fields that recorded claims and the claims of a report have in common.
_REPORTED = frozenset(field.name for field in fields(RecordedClaim)).intersection(
    field.name for field in fields(Claim)
)


def head_of(report: Mapping[str, Any], environment: Environment | None = None) -> AdviceHead:
    """The head of an advice, as lists of advice show it, taken from its report.

    :param environment: of the request; by default, it is read from the report, which is slower
    :raises InvalidDocument: if another version of this code wrote the environment
    """
    metadata, result = report["metadata"], report["result"]
    parameters, certificate = result["parameters"], result["report"]["certificate"]
    if environment is None:
        environment = dataclass_from_json(orjson.dumps(parameters["environment"]), Environment)
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
    """The request, stacks, claims and evidence of an advice.

    A stack has the same digest as an inspected stack of the same versions. Evidence is every
    observation and vulnerability that a claim or a justification names, for a product or for the
    request. Claims are comparisons with the baseline, including those of versions that are not
    recommended. Comparisons between two other versions, and those of packs, are only in the report.

    :param result: as :func:`adviser.reports.documents.result_document` made it of ``advice``
    """
    return links_in(result, advice.assessment.claims, advice.request)


def links_in(
    result: Mapping[str, Any], claims: Iterable[Claim] = (), request: StackRequest | None = None
) -> AdviceLinks:
    """Like :func:`links_of`, but made from a report, so claims that the report omits are missing.

    :param claims: all claims that were made
    :param request: the request of the advice
    """
    report = result["report"]
    products = report["products"]
    return AdviceLinks(
        tuple(RecommendedStack(_stack(it["packages"]), it["score"]) for it in products),
        frozenset(_evidence(report["stack_info"]))
        | {
            one
            for product in products
            for one in _evidence([*product["claims"], *product["justification"]])
        },
        tuple(
            recorded_claim(it)
            for it in claims
            if it.origin is None and (it.beside_baseline or it.confounded)
        ),
        None if request is None else _request_summary(request),
    )


def recorded_claim(claim: Claim) -> RecordedClaim:
    """A claim as the record keeps it; its identifier is the digest of the claim in the report."""
    document = identified_claim(claim)
    return RecordedClaim(
        **{name: document[name] for name in _REPORTED}
        | {
            "claim_id": document["claim_id"],
            "stack_digest": claim.stack,
            "baseline_digest": claim.baseline_stack,
            "as_of": claim.as_of,
        }
    )


def _request_summary(request: StackRequest) -> AdviceRequestSummary:
    wanted = request.requirements
    return AdviceRequestSummary(
        {it.text for it in wanted},
        {it.name for it in wanted},
        request.hardware,
        request.options.count,
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
