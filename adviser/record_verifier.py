"""Verify recorded advice against its report and its inputs, for ``thoth record verify``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import orjson
from sqlalchemy import Connection, any_, select

from adviser.answering.recorded_advice import (
    check_stored,
    claims_in,
    replay_stored,
    why_it_may_differ,
)
from adviser.reports.checking import READING_ERRORS
from adviser.reports.record_links import head_of, links_in
from adviser.reports.serialization import code_version
from graph.record.advice import advice_of, claim_rows, request_row
from graph.record.postgresql_helpers import texts
from graph.record.stacks import stack_rows
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    Base,
    ClaimPackage,
    ObservationRow,
    RequestRow,
    StackPackage,
)
from graph.verification.comparison import RecordDifference, compare_rows, stored_text, unreadable
from graph.verification.run import StoredDocument, VerificationRun, Verifier
from model.advice import AdviceHead, AdviceLinks, StoredAdvice
from model.errors import DamagedDocument, InvalidDocument, Reason
from model.json_documents import fault_in

Report = Mapping[str, Any]
_Rows = list[tuple[type[Base], dict[str, Any]]]

_PARTS = (AdvisedStack, AdviceObservation, StackPackage)
_CLAIMS = (AdviceClaim, ClaimPackage)


class AdviceVerifier(Verifier):
    """Compares recorded advice with its report, and with its inputs if this version wrote it."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterator[RecordDifference]:
        recorded = _recorded(connection, documents)
        whole: dict[str, _Rows] = {}
        # A report does not hold all claims, and another version of the adviser may make others.
        by_report: dict[str, _Rows] = {}
        for document in documents:
            for request_id in recorded.get(document.document_id, ()):
                try:
                    report = orjson.loads(document.body)
                    head, links = head_of(report), links_in(report["result"])
                    problems = None
                    if report["metadata"].get("analyzer_version") == code_version():
                        problems, links = _check_inputs(connection, run, head, report, links)
                    else:
                        run.counts["advice_of_other_versions"] += 1
                except InvalidDocument as error:
                    yield unreadable(document.document_id, document.schema_version, error)
                    continue
                except READING_ERRORS as error:
                    refusal = InvalidDocument(Reason.UNREADABLE, f"no report: {fault_in(error)}")
                    yield unreadable(document.document_id, document.schema_version, refusal)
                    continue
                for problem in problems or ():
                    yield RecordDifference(
                        document.document_id, "advice", head.advice_id, "report_document_id",
                        stored_text(problem),
                        "the result of the request, the snapshot and the evidence",
                    )  # fmt: skip
                into = whole if problems == [] else by_report
                into[document.document_id] = _rows(
                    connection, document.document_id, request_id, head, links
                )
        yield from compare_rows(connection, by_report, _PARTS)
        yield from compare_rows(connection, whole, (*_PARTS, *_CLAIMS))


def _recorded(connection: Connection, documents: Sequence[StoredDocument]) -> dict[str, list[str]]:
    """For each report, the requests that it answers; a report of deleted advice has none."""
    table = AdviceRow
    query = select(table.report_document_id, table.request_document_id).where(
        table.report_document_id == any_(texts(it.document_id for it in documents))
    )
    requests: dict[str, list[str]] = {}
    for report_id, request_id in connection.execute(query):
        requests.setdefault(report_id, []).append(request_id)
    return requests


def _check_inputs(
    connection: Connection,
    run: VerificationRun,
    head: AdviceHead,
    report: Report,
    links: AdviceLinks,
) -> tuple[list[str] | None, AdviceLinks]:
    """Check an advice against its inputs.

    :returns: problems, and the rows of the advice; ``None`` for problems if an input is damaged
    :raises InvalidDocument: if an input cannot be read
    """
    try:
        stored = advice_of(connection, run.settings, head.advice_id)
    except DamagedDocument:
        return None, links  # the damaged document itself is reported
    if stored is None:
        return ["the advice is recorded under another identifier"], links
    try:
        problems = [*check_stored(stored, dict(report)).problems, *_replay_problems(run, stored)]
        run.counts["advice_checked"] += 1
        if problems:
            return problems, links
        request, claims = claims_in(stored)
        return [], links_in(report["result"], claims, request)
    except InvalidDocument as error:
        return [f"the advice cannot be evaluated: {error}"], links


def _replay_problems(run: VerificationRun, stored: StoredAdvice) -> Iterator[str]:
    if not run.replays:
        return
    run.replays -= 1
    run.counts["advice_replayed"] += 1
    advice, again = replay_stored(stored)
    if again != stored.report and why_it_may_differ(stored, advice) is None:
        yield "a replay gives a different report"


def _rows(
    connection: Connection, document_id: str, request_id: str, head: AdviceHead, links: AdviceLinks
) -> _Rows:
    """Every row of an advice and its report, by column."""
    values = {field.name: getattr(head, field.name) for field in fields(AdviceHead)}
    rows: _Rows = [(AdviceRow, {**values, "report_document_id": document_id})]
    for rank, stack in enumerate(links.stacks, 1):
        rows += stack_rows(stack.stack, document_id)
        advised = {"rank": rank, "stack_digest": stack.stack.digest, "score": stack.score}
        rows.append((AdvisedStack, {"advice_id": head.advice_id, **advised}))
    # Evidence may name observations that are not in the record.
    query = select(ObservationRow.observation_id).where(
        ObservationRow.observation_id == any_(texts(links.evidence))
    )
    for observation_id in connection.scalars(query):
        named = {"advice_id": head.advice_id, "observation_id": observation_id}
        rows.append((AdviceObservation, named))
    rows += claim_rows(connection, head.advice_id, document_id, links.claims)
    if links.request is not None:
        rows.append((RequestRow, request_row(request_id, head, links.request)))
    return rows


VERIFIER = AdviceVerifier()
