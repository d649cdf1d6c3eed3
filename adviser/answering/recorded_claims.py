"""Explains a claim of a recorded advice, found by the start of its identifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection

from adviser.answering.recorded_advice import assessment_in, recorded_errors
from adviser.claim_details import ClaimDetails, claim_details, details_document
from adviser.reports.checking import other_version
from adviser.reports.serialization import identified_claim
from adviser.scoring.assessment_types import Claim
from adviser.stack_comparison import short_digest
from common.settings import Settings
from graph.record.advice import advice_of
from graph.record.claims import ClaimSubject, claims_starting, newest_advice_with
from graph.record.job_samples import job_samples
from model.errors import InvalidArgument
from model.text import first_few

_SHA256 = "sha256:"
#: Claims that a message about an ambiguous identifier names.
_MOST_NAMED = 5


class UnknownClaim(InvalidArgument):
    """No claim has an identifier with this start, or more than one has."""

    hint = (
        "`thoth advise --verbose` and reports show the identifiers of claims; a claim that does not"
        " compare with the baseline is found as ADVICE/CLAIM only"
    )


@dataclass(frozen=True, slots=True)
class ExplainedClaim:
    """A claim of an advice with everything that it rests on.

    :param author: the version of Thoth that wrote the advice, if this version computes other values
    """

    advice_id: str
    details: ClaimDetails
    author: str | None

    def document(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        own = {"advice_id": self.advice_id, "other_version": self.author}
        return {**own, **details_document(self.details)}


def explained_claim(
    connection: Connection, settings: Settings, claim: str, advice_id: str | None = None
) -> ExplainedClaim:
    """Explain a claim from the recorded inputs of an advice.

    Another version of Thoth than wrote the advice may compute a claim with another identifier; then
    the recorded claim says which stacks are compared.

    :param claim: the start of its identifier, with or without ``sha256:``
    :param advice_id: by default the newest advice with this claim
    :raises UnknownClaim: if the advice or the claim is unknown, or several claims start like this
    :raises InvalidDocument: if the recorded documents are invalid
    """
    start = claim if claim.startswith(_SHA256) else f"{_SHA256}{claim}"
    recorded = claims_starting(connection, start, advice_id=advice_id, limit=_MOST_NAMED + 1)
    if len(recorded) > 1:
        raise _ambiguous(claim, [it.claim_id for it in recorded])
    name = advice_id
    if name is None and recorded:
        name = newest_advice_with(connection, recorded[0].claim_id)
    if name is None:
        raise UnknownClaim(f"no recorded claim is called {claim!r}")
    stored = advice_of(connection, settings, name)
    if stored is None:
        raise UnknownClaim(f"no advice is called {name!r}")
    inputs, assessment = assessment_in(stored)
    subject = recorded[0] if recorded else None

    def is_named(known: Claim) -> bool:
        if subject is not None:
            return _is_about(known, subject)
        # All others are recorded; making thousands of identifiers takes seconds.
        return not known.beside_baseline and _id(known).startswith(start)

    shares = zip(assessment.claims, assessment.shares, strict=True)
    chosen = [(it, share) for it, share in shares if is_named(it)]
    if len(chosen) > 1:
        raise _ambiguous(claim, [_id(it) for it, _ in chosen])
    if not chosen:
        raise UnknownClaim(f"the advice {name} has no claim that is called {claim!r}")
    ((chosen_claim, share),) = chosen
    with recorded_errors():
        author = None
        if subject is not None and _id(chosen_claim) != subject.claim_id:
            author = other_version(orjson.loads(stored.report))
        details = claim_details(inputs.evidence, chosen_claim, assessment.comparisons, share)
    return ExplainedClaim(name, details, author)


def _id(claim: Claim) -> str:
    return str(identified_claim(claim)["claim_id"])


def _is_about(claim: Claim, recorded: ClaimSubject) -> bool:
    names = ("comparison_key", "python_version", "stack", "baseline_stack")
    return all(getattr(claim, name) == getattr(recorded, name) for name in names)


def _ambiguous(claim: str, identifiers: list[str]) -> UnknownClaim:
    named = first_few([short_digest(it) for it in identifiers], _MOST_NAMED)
    return UnknownClaim(f"{claim!r} is the start of more than one claim: {named}")


def repetitions_of(connection: Connection, details: ClaimDetails) -> dict[str, list[float]]:
    """The raw repetitions, s, of the jobs that a claim rests on, by observation.

    Observations that are no longer recorded are missing.
    """
    used = {one for job in details.jobs for one in job.observations}
    jobs = job_samples(
        connection, [details.claim.comparison_key], inspections=list(details.documents)
    )
    return {
        it.observation.reading.observation_id: list(it.repetitions_s)
        for it in jobs
        if it.observation.reading.observation_id in used
    }
