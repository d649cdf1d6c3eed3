"""Read, parse, record: the one way by which inspections get in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from common.settings import Settings
from graph.record.inspections import Delivery, InspectionsAdded, add_inspections
from ingest.batches import Batch, Recorder, in_batches
from ingest.documents import Limits, Refusal, Skipped
from ingest.parsers.inspection import parse_inspections
from ingest.sources import documents_of

KIND = "inspection"


@dataclass(slots=True)
class IngestReport:
    """What became of the documents of a run.

    :param read: documents met, refused ones included
    :param known: documents that were in the record before, or met twice
    :param mended: entries of the quarantine that were met no more
    :param skipped: files that are not inspections, by the reason
    :param observations: new ones, by their outcome
    :param observations_known: those that were in the record before, or met twice
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

    def count_batch(self, batch: Batch[Delivery], added: InspectionsAdded) -> None:
        """Count a batch and what it added to the record."""
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
        self.read += len(batch)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "read": self.read,
            "new": self.new,
            "known": self.known,
            "quarantined": self.quarantined,
            "mended": self.mended,
            "skipped": self.skipped.total(),
            "skipped_reasons": dict(self.skipped),
            "stacks_unknown": self.stacks_unknown,
            "observations": dict(self.observations),
            "observations_known": self.observations_known,
            "reasons": dict(self.reasons),
        }


def ignore_skipped(skipped: Skipped) -> None:
    """For callers that take no interest in skipped files."""


def read_inspections(
    sources: Iterable[str],
    limits: Limits,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[Skipped], None] = ignore_skipped,
) -> Iterator[Batch[Delivery]]:
    """Read and parse ``sources`` into batches of bounded size, in order.

    :param on_skipped: called with each file that is not an inspection
    """
    found = _inspections_in(sources, limits, on_document, on_skipped)
    return in_batches(found, lambda delivery: len(delivery.document.body))


def _inspections_in(
    sources: Iterable[str],
    limits: Limits,
    on_document: Callable[[], None],
    on_skipped: Callable[[Skipped], None],
) -> Iterator[Delivery | Refusal]:
    """A dictionary of inspections brings several; each document read is told by itself."""
    for source in sources:
        for raw in documents_of(source, limits, on_skipped):
            if isinstance(raw, Refusal):
                yield raw
            else:
                for it in parse_inspections(raw):
                    yield it if isinstance(it, Refusal) else Delivery(it, raw.source)
            on_document()


def check_inspections(
    sources: Iterable[str],
    limits: Limits,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[Skipped], None] = ignore_skipped,
) -> IngestReport:
    """What ingest would make of ``sources`` in an empty record; nothing is written."""
    report = IngestReport()
    count_skipped = _counting(report, on_skipped)
    documents: set[str] = set()
    observations: set[str] = set()
    for batch in read_inspections(sources, limits, on_document, count_skipped):
        met = [it.document for it in batch.deliveries]
        added = InspectionsAdded(
            {str(it.document_id) for it in met} - documents,
            {seen.observation_id for it in met for seen in it.observations} - observations,
        )
        report.count_batch(batch, added)
        documents |= added.documents
        observations |= added.observations
    return report


def _counting(
    report: IngestReport, on_skipped: Callable[[Skipped], None]
) -> Callable[[Skipped], None]:
    def count(skipped: Skipped) -> None:
        report.skipped[skipped.reason] += 1
        on_skipped(skipped)

    return count


def ingest_inspections(
    settings: Settings,
    engine: Engine,
    sources: Iterable[str],
    limits: Limits,
    *,
    on_document: Callable[[], None] = lambda: None,
    on_skipped: Callable[[Skipped], None] = ignore_skipped,
    on_commit: Callable[[], None] = lambda: None,
) -> IngestReport:
    """Take in every document of ``sources``, each once, and quarantine what cannot be.

    Documents and their outbox entries are committed batch by batch, so an
    interrupted run is resumed by running it again.

    :param on_skipped: called with each file that is not an inspection
    :param on_commit: called after each batch, such as to wake the projector
    :raises StoreUnavailable: if a store is lost; what was committed stays
    """
    report = IngestReport()

    def recorded(batch: Batch[Delivery], added: InspectionsAdded) -> None:
        report.count_batch(batch, added)
        on_commit()

    recorder = Recorder(settings, engine, KIND, add_inspections, recorded)
    count_skipped = _counting(report, on_skipped)
    for source in sources:
        batches = read_inspections([source], limits, on_document, count_skipped)
        report.mended += recorder.record_source(source, batches)
    return report
