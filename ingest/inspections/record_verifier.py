"""Parses stored inspections again and compares them with their rows."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, any_, select

from graph.record.inspections import (
    accept_observations,
    derived_rows,
    refuse_observations,
    refused_documents,
)
from graph.record.postgresql_helpers import texts
from graph.record.stacks import stack_rows
from graph.tables import Base, InspectionRow, PackageVersionRow, StackPackage, StackRow, table_of
from graph.verification.comparison import (
    RecordDifference,
    Row,
    compare_rows,
    of_document,
    unreadable,
)
from graph.verification.run import ComparedDocuments, StoredDocument, VerificationRun, Verifier
from ingest.inspections.parsing import parse_stored
from model.errors import InvalidDocument, Reason
from model.measurements.inspection import InspectionDocument, SchemaVersion

_OF_STACKS = {table_of(it).name for it in (StackRow, StackPackage, PackageVersionRow)}


def parse_document(document: StoredDocument, name: str) -> InspectionDocument:
    """Parse a stored document.

    :raises InvalidDocument: if the present parser refuses it
    """
    try:
        schema_version = SchemaVersion(document.schema_version)
    except ValueError as error:
        raise InvalidDocument(Reason.UNKNOWN_SCHEMA, str(error)) from error
    return parse_stored(document.body, schema_version, name)


class InspectionVerifier(Verifier):
    """Compares inspections; observations of differing documents are excluded from evidence."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterator[RecordDifference]:
        query = select(InspectionRow.document_id, InspectionRow.name).where(
            InspectionRow.document_id == any_(texts(it.document_id for it in documents))
        )
        names = {row[0]: row[1] for row in connection.execute(query)}
        made: dict[str, list[tuple[type[Base], Row]]] = {}
        # A stack has many rows and many inspections, so it is compared once.
        by_stack: dict[str, list[str]] = {}
        for document in documents:
            try:
                inspection = parse_document(document, names.get(document.document_id, ""))
            except InvalidDocument as error:
                yield unreadable(document.document_id, document.schema_version, error)
                continue
            if document.collector != inspection.collector:
                yield of_document(
                    document.document_id, "collector", document.collector, inspection.collector
                )
            rows = made[document.document_id] = list(derived_rows(inspection))
            if (stack := inspection.stack) is not None:
                inspections = by_stack.setdefault(stack.digest, [])
                rows += () if inspections else stack_rows(stack, document.document_id)
                inspections.append(document.document_id)
        others = {first: rest for first, *rest in by_stack.values()}
        for difference in compare_rows(connection, made, (StackPackage,)):
            yield difference
            if difference.table in _OF_STACKS:
                for document_id in others.get(difference.document_id, ()):
                    yield replace(difference, document_id=document_id)

    def settle(
        self, connection: Connection, run: VerificationRun, compared: ComparedDocuments
    ) -> None:
        if refused := refuse_observations(connection, compared.tampered):
            run.counts["observations_refused"] += refused
        equal = {it.document_id: it for it in compared.equal}
        again = refused_documents(connection, equal) if equal else set()
        for document_id in sorted(again):
            with suppress(InvalidDocument):  # a document that the parser refuses stays excluded
                reasons = {
                    job.observation_id: job.quarantine_reason
                    for job in parse_document(equal[document_id], "").observations
                }
                accepted = accept_observations(connection, document_id, reasons)
                run.counts["observations_accepted"] += accepted


VERIFIER = InspectionVerifier()
