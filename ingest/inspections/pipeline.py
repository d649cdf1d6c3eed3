"""Reads inspections from sources, parses them and stores them.

Commands, workers and uploads all use :func:`ingest_inspections`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from common.settings import Settings
from graph.record.inspections import InspectionDelivery, InspectionsAdded, add_inspections
from ingest.inspections.parsing import parse_inspections
from ingest.record import Batch, SourceRecorder, in_batches
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RefusedDocument, SkippedFile, SourceLimits, stored_source
from model.declared_fields import report_of

KIND = "inspection"
#: Maximum number of refused documents in a report; the quarantine has all.
_MOST_REFUSALS = 100


@dataclass(slots=True)
class IngestReport:
    """Counts of the documents that a run read and stored.

    :param read: documents, including refused ones
    :param known: documents that were in the record before, or occurred twice
    :param mended: quarantine entries that were resolved
    :param skipped: files that are not inspections, by reason
    :param observations: new observations by outcome
    :param observations_known: observations that were in the record before, or occurred twice
    :param incomplete: sources of which something could not be read
    :param refusals: the first refused documents with their reasons, in the order of the source
    """

    read: int = 0
    new: int = 0
    known: int = 0
    quarantined: int = 0
    mended: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    stacks_unknown: int = 0
    observations: Counter[str] = field(default_factory=Counter)
    observations_known: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    incomplete: list[str] = field(default_factory=list)
    refusals: list[dict[str, str]] = field(default_factory=list)

    def count_batch(self, batch: Batch[InspectionDelivery], added: InspectionsAdded) -> None:
        """Count the documents of a batch and what the batch added to the record."""
        new_documents, new_observations = set(added.documents), set(added.observations)
        for document in (delivery.document for delivery in batch.deliveries):
            if document.document_id in new_documents:
                new_documents.remove(document.document_id)
                self.new += 1
                self.stacks_unknown += document.stack is None
            else:
                self.known += 1
            for observation in document.observations:
                if observation.observation_id in new_observations:
                    new_observations.remove(observation.observation_id)
                    self.observations[observation.outcome.value] += 1
                else:
                    self.observations_known += 1
        self.quarantined += len(batch.refusals)
        self.reasons.update(str(it.error.reason) for it in batch.refusals)
        # As texts, because an error keeps the whole document alive.
        self.refusals += [
            {
                "place": refused.place,
                "reason": str(refused.error.reason),
                "field": refused.error.field,
                "message": refused.error.message,
            }
            for refused in batch.refusals[: _MOST_REFUSALS - len(self.refusals)]
        ]
        self.read += len(batch)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            **report_of(self, "incomplete", "refusals"),
            "skipped": self.skipped.total(),
            "skipped_reasons": dict(self.skipped),
        }


def ignore_skipped(skipped: SkippedFile) -> None:
    """Do nothing; the default for ``on_skipped``, which is called with skipped files."""


def ingest_inspections(
    settings: Settings,
    engine: Engine,
    sources: Iterable[str],
    limits: SourceLimits,
    *,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[SkippedFile], None] = ignore_skipped,
    on_commit: Callable[[], None] = lambda: None,
) -> IngestReport:
    """Store every inspection in ``sources`` once, and quarantine documents that are refused.

    :param on_document: called after each document
    :param on_skipped: called with each file that is not an inspection
    :param on_commit: called after each batch, for example to wake the projector
    :raises StoreUnavailable: if a store is lost; committed batches are kept
    """
    report = IngestReport()
    count_skipped = _counting(report, on_skipped)
    for source in sources:
        recorder = SourceRecorder(settings, engine, KIND, source, add_inspections)
        batches = read_inspections([source], limits, on_document, count_skipped)
        for batch, added in recorder.record(batches):
            report.count_batch(batch, added)
            on_commit()
        report.mended += recorder.mended
        if not recorder.read_whole:
            report.incomplete.append(source)
    return report


def check_inspections(
    sources: Iterable[str],
    limits: SourceLimits,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[SkippedFile], None] = ignore_skipped,
) -> IngestReport:
    """Report what :func:`ingest_inspections` would store in an empty record; write nothing."""
    report = IngestReport()
    count_skipped = _counting(report, on_skipped)
    documents: set[str] = set()
    observations: set[str] = set()
    for batch in read_inspections(sources, limits, on_document, count_skipped):
        parsed = [delivery.document for delivery in batch.deliveries]
        added = InspectionsAdded(
            {str(document.document_id) for document in parsed} - documents,
            {job.observation_id for document in parsed for job in document.observations}
            - observations,
        )
        report.count_batch(batch, added)
        documents |= added.documents
        observations |= added.observations
    return report


def read_inspections(
    sources: Iterable[str],
    limits: SourceLimits,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[SkippedFile], None] = ignore_skipped,
) -> Iterator[Batch[InspectionDelivery]]:
    """Read and parse ``sources`` into batches of bounded size, in order."""
    parsed = _parsed(sources, limits, on_document, on_skipped)
    return in_batches(parsed, lambda delivery: len(delivery.document.body))


def _parsed(
    sources: Iterable[str],
    limits: SourceLimits,
    on_document: Callable[[], None],
    on_skipped: Callable[[SkippedFile], None],
) -> Iterator[InspectionDelivery | RefusedDocument]:
    """Parse each raw document; a dictionary of inspections gives several inspections."""
    for source in sources:
        origin = stored_source(source)
        for raw in documents_of(source, limits, on_skipped):
            if isinstance(raw, RefusedDocument):
                yield raw
            else:
                for document in parse_inspections(raw):
                    if isinstance(document, RefusedDocument):
                        yield document
                    else:
                        yield InspectionDelivery(document, origin)
            on_document()


def _counting(
    report: IngestReport, on_skipped: Callable[[SkippedFile], None]
) -> Callable[[SkippedFile], None]:
    def count(skipped: SkippedFile) -> None:
        report.skipped[skipped.reason] += 1
        on_skipped(skipped)

    return count
