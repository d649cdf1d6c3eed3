"""Compares analyses of native interfaces with their documents; no advice uses these analyses."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from graph.record.native import analysis_rows
from graph.tables import ArtifactInterface, NativeEnvironmentInterface
from graph.verification.comparison import RecordDifference, compare_rows, unreadable
from graph.verification.run import StoredDocument, VerificationRun, Verifier
from ingest.native.analysis_documents import analysis_of
from model.errors import InvalidDocument


class AnalysisVerifier(Verifier):
    """Compares stored analyses with their documents."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterator[RecordDifference]:
        made = {}
        for document in documents:
            try:
                made[document.document_id] = list(analysis_rows(analysis_of(document.body)))
            except InvalidDocument as error:
                yield unreadable(document.document_id, document.schema_version, error)
        parts = (ArtifactInterface, NativeEnvironmentInterface)
        yield from compare_rows(connection, made, parts)


VERIFIER = AnalysisVerifier()
