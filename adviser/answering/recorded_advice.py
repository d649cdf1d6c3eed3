"""Recorded advice: read it, replay it, check reports against it, and explain its claims."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection

from adviser.advice_request import StackRequest
from adviser.advise import Advice, advise, assess_candidates, is_settled
from adviser.claim_details import ClaimDetails, claim_details, details_document
from adviser.reports.checking import (
    OTHER_VERSION,
    READING_ERRORS,
    AdviceInputs,
    ReportCheck,
    check_offline,
    check_report,
    differences,
    expect_schema,
    first_problems,
    other_version,
)
from adviser.reports.documents import (
    SCHEMA_VERSION,
    ReleaseKnowledge,
    premises_in,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.serialization import code_version, dataclass_from_json, identified_claim
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.assessment_types import Assessment, Claim
from adviser.stack_comparison import short_digest
from common.settings import Settings
from graph.engine import Stores
from graph.record.advice import ClaimSubject, advice_of, claims_starting, newest_advice_with
from graph.record.observations import job_samples
from model.advice import StoredAdvice
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_documents import canonical_json, digest, fault_in, refuse_repeated_keys
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot
from model.text import first_few

_VERIFIED = (
    "every value equals that of the recorded report",
    "every version may be chosen and every requirement is met",
    "scores, criteria, claims, notes and locks, computed again",
)


def stored_advice(stores: Stores, advice_id: str) -> StoredAdvice:
    """An advice by its identifier.

    :raises InvalidArgument: if there is none
    """
    with stores.engine.connect() as connection:
        advice = advice_of(connection, stores.settings, advice_id)
    if advice is None:
        raise InvalidArgument(f"no advice is called {advice_id!r}")
    return advice


@contextmanager
def recorded_errors() -> Iterator[None]:
    """Turn errors while evaluating a recorded advice into :class:`InvalidDocument`."""
    try:
        yield
    except READING_ERRORS as error:
        message = f"the recorded advice cannot be evaluated: {fault_in(error)}"
        raise InvalidDocument(Reason.UNREADABLE, message) from error


def request_in(stored: StoredAdvice) -> tuple[StackRequest, Snapshot, Evidence, ReleaseKnowledge]:
    """The inputs of an advice."""
    return (
        dataclass_from_json(stored.request, StackRequest),
        Snapshot.from_json(stored.snapshot),
        Evidence.from_json(stored.evidence),
        dataclass_from_json(stored.files, ReleaseKnowledge),
    )


def replay_stored(stored: StoredAdvice, threads: int = 1) -> tuple[Advice, bytes]:
    """Answer a recorded request again from its recorded inputs.

    :returns: the advice, and its report with the recorded metadata
    :raises InvalidDocument: if the recorded documents are invalid
    """
    request, snapshot, evidence, known = request_in(stored)
    with recorded_errors():
        metadata = orjson.loads(stored.report)["metadata"]
        with ResolverWorker() as worker:
            advice = advise(request, snapshot, evidence, resolver=worker.resolve, threads=threads)
        return advice, report_bytes(report_document(result_document(advice, known), metadata))


def claims_in(stored: StoredAdvice) -> tuple[StackRequest, tuple[Claim, ...]]:
    """The request of an advice, and its claims, computed again.

    :raises InvalidDocument: if the recorded documents are invalid
    """
    inputs, assessment = assessment_in(stored)
    return inputs.request, assessment.claims


def assessment_in(stored: StoredAdvice) -> tuple[AdviceInputs, Assessment]:
    """The inputs of an advice, and its assessment, computed again.

    :raises InvalidDocument: if the recorded documents are invalid
    """
    inputs = inputs_in(stored)
    with recorded_errors():
        assessment = assess_candidates(
            inputs.request, inputs.snapshot, inputs.evidence, inputs.premises
        )
    return inputs, assessment


def inputs_in(stored: StoredAdvice) -> AdviceInputs:
    """The inputs of an advice, with the premises that its report names."""
    request, snapshot, evidence, known = request_in(stored)
    with recorded_errors():
        premises = premises_in(orjson.loads(stored.report)["result"]["report"], request.locked)
    return AdviceInputs(request, snapshot, evidence, known, premises)


def why_it_may_differ(stored: StoredAdvice, again: Advice) -> str | None:
    """Why a replay may differ, as text; ``None`` if it must be identical.

    Another version of Thoth may weigh or word advice differently. A search that ended at its limit
    may give another result in another run. This applies to the recorded search, the new search, and
    the search for the baseline.

    :raises InvalidDocument: if the recorded report is invalid
    """
    with recorded_errors():
        report = orjson.loads(stored.report)
        inner = report["result"]["report"]
        conflict = inner["conflict"]
        settled = inner["certificate"]["settled"] or (conflict is not None and conflict["minimal"])
        baseline_settled = inner["baseline"].get("settled", True)
        author = other_version(report)
    if author is not None:
        return f"it was written by Thoth {author}, and this is {code_version()}"
    if not settled or not is_settled(again.resolution):
        return "the search ended at its limit"
    if not baseline_settled or not again.premises.settled:
        return "the search for the baseline ended at its limit"
    return None


def read_report(path: Path) -> dict[str, Any]:
    """Read a report that ``thoth advise --json`` printed.

    :raises InvalidDocument: if the file is not such a report
    """
    try:
        document = orjson.loads(unrepeated(path))
        version = document["schema_version"]
        if version == SCHEMA_VERSION:
            if _is_identifier(document["metadata"]["document_id"]):
                return dict(document)
            raise ValueError("PostgreSQL could not be asked for it")
    except (ValueError, KeyError, TypeError) as error:
        message = f"not a report: {fault_in(error)}"
        raise InvalidDocument(Reason.UNREADABLE, message, place=str(path)) from error
    raise InvalidDocument(
        Reason.UNKNOWN_SCHEMA,
        f"{version!r} is not {SCHEMA_VERSION!r}",
        field="schema_version",
        place=str(path),
    )


def _is_identifier(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def unrepeated(path: Path) -> bytes:
    """Read a file and refuse JSON with duplicate keys; other content is returned unchecked.

    With duplicate keys, a check could see one value and a later reader the other.

    :raises InvalidDocument: ``duplicate_key``; ``nested_too_deep`` if that cannot be decided
    """
    data = path.read_bytes()
    try:
        value = orjson.loads(data)
    except ValueError:
        return data
    try:
        refuse_repeated_keys(data, canonical_json(value))
    except InvalidDocument as error:
        error.place = str(path)
        raise
    except TypeError as error:
        raise InvalidDocument(
            Reason.NESTED_TOO_DEEP, "nested deeper than 254 levels", place=str(path)
        ) from error
    return data


def check_recorded(
    stores: Stores,
    report: dict[str, Any],
    snapshot: Snapshot | None = None,
    evidence: Evidence | None = None,
) -> ReportCheck:
    """Check a report against the record of its advice; without a record, check it offline.

    Every value is compared with the recorded report, and everything except the solver's proof is
    computed again.

    :param snapshot: for the offline check, if the advice is not recorded
    :param evidence: likewise
    """
    with stores.engine.connect() as connection:
        stored = advice_of(connection, stores.settings, report["metadata"]["document_id"])
    if stored is None:
        return check_offline(report, snapshot, evidence)
    return check_stored(stored, report)


def check_stored(stored: StoredAdvice, report: dict[str, Any]) -> ReportCheck:
    """Check a report against the recorded report, and verify the recorded report too.

    The report of another version of Thoth is only compared with the recorded one, because this
    version may weigh or word the same advice differently.

    :raises InvalidDocument: if the report has another schema version
    """
    expect_schema(report)
    with recorded_errors():
        true = orjson.loads(stored.report)
        author = other_version(true)
        problems = [f"not as recorded: {it}" for it in first_problems(differences(report, true))]
        if digest(true["result"]) != stored.head.result_digest:
            problems.append("the recorded report is not the one that its digest names")
    if author is not None:
        return ReportCheck(tuple(problems), _VERIFIED[:1], (f"{OTHER_VERSION} {author}",))
    material = inputs_in(stored)
    try:
        problems += check_report(report, material)
    except InvalidDocument as error:
        problems.append(f"it cannot be evaluated: {error}")
    return ReportCheck(tuple(dict.fromkeys(problems)), _VERIFIED)


_SHA256 = "sha256:"
#: A message about an ambiguous identifier names at most this number of claims.
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
    :param hardware_named: whether the advice is for a hardware class
    """

    advice_id: str
    details: ClaimDetails
    author: str | None
    hardware_named: bool

    def document(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        own = {"advice_id": self.advice_id, "other_version": self.author}
        return {**own, **details_document(self.details, hardware_named=self.hardware_named)}


def explained_claim(
    connection: Connection, settings: Settings, claim: str, advice_id: str | None = None
) -> ExplainedClaim:
    """Explain a claim from the recorded inputs of an advice.

    If another version of Thoth wrote the advice, this version may compute another identifier; then
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
    return ExplainedClaim(name, details, author, bool(inputs.request.hardware))


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
