"""Read, parse, record: the one way by which inspections get in."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from common.inspection import InspectionDocument
from common.reasons import Reason
from common.settings import Settings
from graph.engine import relational_errors
from graph.repositories.inspections import Delivery, add_inspections
from graph.repositories.quarantine import Refusal as RefusedDocument
from graph.repositories.quarantine import add_refusals, now, resolve_source
from ingest.documents import Limits, RawDocument, Refusal
from ingest.parsers.inspection import parse_inspections
from ingest.sources import documents_of, stored_source

logger = logging.getLogger(__name__)

KIND = "inspection"
#: Documents a transaction, which is what an interruption makes read again.
BATCH_DOCUMENTS = 500
#: Bytes a transaction, so that memory stays flat when documents are large.
BATCH_BYTES = 16 * 2**20


#: With one of these for a whole source, nothing is known of what it held before.
_NOT_READ = frozenset(
    {Reason.UNREADABLE, Reason.EMPTY_FOLDER, Reason.ARCHIVE_BROKEN, Reason.ARCHIVE_BOMB}
)


@dataclass(slots=True)
class IngestReport:
    """What became of the documents of a run.

    :param read: documents met, refused ones included
    :param known: documents that were in the record before, or met twice
    :param mended: entries of the quarantine that were met no more
    """

    read: int = 0
    new: int = 0
    known: int = 0
    quarantined: int = 0
    mended: int = 0
    stacks_unknown: int = 0
    observations: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, document: InspectionDocument) -> None:
        """Count a document that was taken in for the first time."""
        self.new += 1
        self.stacks_unknown += document.stack is None
        self.observations.update(seen.outcome.value for seen in document.observations)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "read": self.read,
            "new": self.new,
            "known": self.known,
            "quarantined": self.quarantined,
            "mended": self.mended,
            "stacks_unknown": self.stacks_unknown,
            "observations": dict(self.observations),
            "reasons": dict(self.reasons),
        }


@dataclass(slots=True)
class _Batch:
    deliveries: list[Delivery] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def full(self) -> bool:
        documents = len(self.deliveries) + len(self.refusals)
        return documents >= BATCH_DOCUMENTS or self.size_bytes >= BATCH_BYTES

    def add(self, found: RawDocument | Refusal) -> None:
        """Parse what was found; a dictionary of inspections brings several."""
        if isinstance(found, Refusal):
            self.refusals.append(found)
            return
        for parsed in parse_inspections(found):
            if isinstance(parsed, Refusal):
                self.refusals.append(parsed)
            else:
                self.deliveries.append(Delivery(parsed, found.source))
                self.size_bytes += len(parsed.body)


def read_inspections(
    sources: Iterable[str], limits: Limits, on_document: Callable[[], None] = lambda: None
) -> Iterable[_Batch]:
    """Read and parse ``sources`` into batches of bounded size, in order."""
    batch = _Batch()
    for source in sources:
        for found in documents_of(source, limits):
            batch.add(found)
            on_document()
            if batch.full:
                yield batch
                batch = _Batch()
    yield batch


def check_inspections(
    sources: Iterable[str], limits: Limits, on_document: Callable[[], None] = lambda: None
) -> IngestReport:
    """What ingest would make of ``sources`` in an empty record; nothing is written."""
    report = IngestReport()
    seen: set[str] = set()
    for batch in read_inspections(sources, limits, on_document):
        new = {str(it.document.document_id) for it in batch.deliveries} - seen
        _count(report, batch, new)
        seen |= new
    return report


def ingest_inspections(
    settings: Settings,
    engine: Engine,
    sources: Iterable[str],
    limits: Limits,
    *,
    on_document: Callable[[], None] = lambda: None,
    on_commit: Callable[[], None] = lambda: None,
) -> IngestReport:
    """Take in every document of ``sources``, each once, and quarantine what cannot be.

    Documents and their outbox entries are committed batch by batch, so an
    interrupted run is resumed by running it again.

    :param on_commit: called after each batch, such as to wake the projector
    :raises StoreUnavailable: if a store is lost; what was committed stays
    """
    report = IngestReport()
    for source in sources:
        with relational_errors(settings), engine.begin() as connection:
            began = now(connection)
        recorder = _Recorder(settings, engine, report, on_commit)
        recorder.record(read_inspections([source], limits, on_document))
        if recorder.read_whole:
            with relational_errors(settings), engine.begin() as connection:
                report.mended += resolve_source(connection, stored_source(source), began)
    return report


@dataclass(slots=True)
class _Recorder:
    """Writes batches into the record, one while the next is read: the database works meanwhile.

    :param read_whole: whether the source could be read at all, whatever is wrong in it
    """

    settings: Settings
    engine: Engine
    report: IngestReport
    on_commit: Callable[[], None]
    read_whole: bool = True

    def record(self, batches: Iterable[_Batch]) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="recorder") as thread:
            recorded: Future[None] | None = None
            for batch in batches:
                if recorded is not None:
                    recorded.result()
                recorded = thread.submit(self._commit, batch)
            if recorded is not None:
                recorded.result()

    def _commit(self, batch: _Batch) -> None:
        with relational_errors(self.settings), self.engine.begin() as connection:
            new = add_inspections(connection, self.settings, batch.deliveries)
            add_refusals(connection, map(_refused, batch.refusals))
        _count(self.report, batch, new)
        self.read_whole &= not any(
            it.error.reason in _NOT_READ and not it.place for it in batch.refusals
        )
        logger.info("batch_ingested", extra={"new": len(new), "refused": len(batch.refusals)})
        self.on_commit()


def _refused(refusal: Refusal) -> RefusedDocument:
    error = refusal.error
    return RefusedDocument(
        KIND, refusal.source, refusal.place, error.reason, error.field, error.message
    )


def _count(report: IngestReport, batch: _Batch, new: set[str]) -> None:
    counted: set[str] = set()
    for delivery in batch.deliveries:
        document_id = str(delivery.document.document_id)
        if document_id in new and document_id not in counted:
            counted.add(document_id)
            report.count(delivery.document)
        else:
            report.known += 1
    report.quarantined += len(batch.refusals)
    report.reasons.update(str(it.error.reason) for it in batch.refusals)
    report.read += len(batch.deliveries) + len(batch.refusals)
