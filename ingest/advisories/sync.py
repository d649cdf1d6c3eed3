"""Stores the advisories of a source and matches them with known versions.

Entry points: :func:`sync_source` uses open stores, :func:`run_sync` opens them for the command.
Also removes credits and e-mail addresses that earlier releases of Thoth stored with advisories.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, any_, select, update

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.advisories import (
    KIND,
    SCHEMA_VERSION,
    AdvisoriesAdded,
    AdvisoryDelivery,
    SourceState,
    add_advisories,
    known_advisories,
    replace_documents,
    save_source,
    source_states,
)
from graph.record.documents import delete_unreferenced_bodies, unpacked_body
from graph.record.freshness import ADVISORIES, add_successes, set_sources
from graph.record.postgresql_helpers import storable, texts
from graph.tables import Document
from ingest.advisories.osv import advisory_of, without_persons
from ingest.advisories.sources import OpenedSource, opened_source
from ingest.record import Batch, RunOutcome, SourceRecorder, in_batches, recording
from ingest.sources.source_items import RawDocument, RefusedDocument, local_path, stored_source
from model.errors import DamagedDocument, InvalidDocument
from model.json_documents import digest_bytes, load_json
from model.measurements.inspection import DocumentId

#: Advisories in a transaction. Larger batches look up fewer versions twice, but block writers of
#: versions for longer.
BATCH = 2_500
#: Documents in a transaction.
_BATCH = 500

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class AdvisoryReport:
    """Counts and identifiers of the documents that a sync read and changed.

    :param as_of: time of the source; ``None`` if the state of the source was not stored, because
        the source was not read completely or has no advisory about a Python package
    :param unchanged: true if the source was not read because it has not changed
    :param read: documents, including refused ones
    :param skipped: documents that were in the record before
    :param repeated: documents that occurred twice
    :param older: documents that are older than those in the record
    :param foreign: documents that are only about packages of other ecosystems
    :param withdrawn: withdrawn advisories among the new and updated ones
    :param mended: quarantine entries that were resolved
    :param vulnerabilities: identifiers of new, changed and merged vulnerabilities
    :param versions: package URLs of versions whose vulnerabilities changed
    """

    source: str
    as_of: datetime | None = None
    unchanged: bool = False
    read: int = 0
    new: int = 0
    updated: int = 0
    skipped: int = 0
    repeated: int = 0
    older: int = 0
    foreign: int = 0
    withdrawn: int = 0
    quarantined: int = 0
    mended: int = 0
    malformed_vectors: int = 0
    unreadable_versions: int = 0
    vulnerabilities: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, batch: Batch[AdvisoryDelivery], added: AdvisoriesAdded) -> None:
        """Count a batch that was recorded."""
        self.new += added.new
        self.updated += added.updated
        self.repeated += added.known
        self.older += added.older
        self.foreign += added.foreign
        self.vulnerabilities |= added.vulnerabilities | added.removed
        self.versions |= added.versions
        self.quarantined += len(batch.refusals)
        self.reasons.update(str(it.error.reason) for it in batch.refusals)
        for advisory in (it.advisory for it in batch.deliveries if it.advisory.packages):
            self.withdrawn += advisory.head.withdrawn_at is not None
            self.malformed_vectors += advisory.malformed_vectors
            self.unreadable_versions += advisory.unreadable_versions

    @property
    def advisories(self) -> int:
        """Number of advisories in the source that are about Python packages."""
        return self.read - self.foreign - self.quarantined

    @property
    def known(self) -> int:
        """Number of documents that contain nothing new."""
        return self.skipped + self.repeated

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        counts = (
            "unchanged", "read", "new", "updated", "known", "older", "foreign", "withdrawn",
            "quarantined", "mended", "malformed_vectors", "unreadable_versions",
        )  # fmt: skip
        return {
            "source": self.source,
            "as_of": self.as_of.isoformat() if self.as_of else None,
            **{name: getattr(self, name) for name in counts},
            "vulnerabilities_changed": len(self.vulnerabilities),
            "versions_changed": len(self.versions),
            "reasons": dict(self.reasons),
        }


def check_source(source: str, on_document: Callable[[], None] = lambda: None) -> AdvisoryReport:
    """Report what a sync of ``source`` would store in an empty record; write nothing.

    :raises StoreUnavailable: if a server does not answer
    """
    report = AdvisoryReport(stored_source(source))
    ids: set[str] = set()
    with opened_source(source) as opened:
        report.as_of = opened.as_of
        for batch in _batches(opened.documents or (), set(), report, on_document):
            ours = [it.advisory for it in batch.deliveries if it.advisory.packages]
            fresh = {it.head.advisory_id for it in ours} - ids
            ids |= fresh
            foreign = len(batch.deliveries) - len(ours)
            report.count(batch, AdvisoriesAdded(new=len(fresh), foreign=foreign))
            report.updated += len(ours) - len(fresh)
    if not report.advisories:
        report.as_of = None
    return report


def sync_source(
    settings: Settings,
    engine: Engine,
    source: str,
    *,
    on_document: Callable[[], None] = lambda: None,
    on_commit: Callable[[], None] = lambda: None,
) -> AdvisoryReport:
    """Store new advisories of ``source``, and quarantine documents that are refused.

    Batches are committed one by one, so a second run resumes an interrupted run. An unchanged
    source is not read, unless some of its documents were refused. If a source cannot be read
    completely, or has no advisory about Python packages, its previously stored state is kept.

    :param source: a folder, a file, an archive or a URL
    :raises StoreUnavailable: if a store is lost or a server does not answer
    """
    source = _absolute(source)
    configured = settings.advisories is not None and _absolute(settings.advisories) == source
    report = AdvisoryReport(stored_source(source))
    documents = remove_stored_persons(settings, engine)
    with relational_errors(settings), engine.begin() as connection:
        states = {state.source: state for state in source_states(connection)}
        if configured:
            set_sources(connection, ADVISORIES, [report.source])
    known = states.get(storable(report.source))

    with opened_source(source, known) as opened:
        report.as_of, report.unchanged = opened.as_of, opened.documents is None
        if opened.documents is not None:
            recorder = SourceRecorder(settings, engine, KIND, source, add_advisories)
            batches = _batches(opened.documents, documents, report, on_document)
            for batch, added in recorder.record(batches):
                report.count(batch, added)
                on_commit()
            report.mended = recorder.mended
            if not (recorder.read_whole and report.advisories):
                report.as_of = None
                return report
    with relational_errors(settings), engine.begin() as connection:
        save_source(connection, _state(report, opened, known))
        if configured:
            add_successes(connection, ADVISORIES, [report.source])
    return report


def _absolute(source: str) -> str:
    """An absolute local path, because a setting must name the same source from every folder."""
    if local_path(source) != source:
        return source
    return str(Path(source).expanduser().absolute())


def _state(report: AdvisoryReport, opened: OpenedSource, known: SourceState | None) -> SourceState:
    """Return the state to store; a source with refused documents will be read again."""
    as_of = opened.as_of
    if report.unchanged and known is not None:
        validators = opened.validators
        return SourceState(
            report.source, validators.etag, validators.last_modified, known.sha256,
            known.advisories, as_of,
        )  # fmt: skip
    count = report.advisories
    if report.quarantined:
        return SourceState(report.source, None, None, None, count, as_of)
    etag, last_modified = opened.validators.etag, opened.validators.last_modified
    return SourceState(report.source, etag, last_modified, opened.sha256, count, as_of)


def _batches(
    documents: Iterable[RawDocument | RefusedDocument],
    known: Collection[str],
    report: AdvisoryReport,
    on_document: Callable[[], None],
) -> Iterator[Batch[AdvisoryDelivery]]:
    deliveries = _deliveries(documents, known, report, on_document)
    return in_batches(deliveries, lambda it: len(it.advisory.body), BATCH)


def _deliveries(
    documents: Iterable[RawDocument | RefusedDocument],
    known: Collection[str],
    report: AdvisoryReport,
    on_document: Callable[[], None],
) -> Iterator[AdvisoryDelivery | RefusedDocument]:
    """Yield unknown advisories; known documents are recognised by their digest and not parsed."""
    now = datetime.now(UTC)
    for raw in documents:
        report.read += 1
        on_document()
        if isinstance(raw, RefusedDocument):
            yield raw
            continue
        try:
            value, canonical = without_persons(*load_json(raw.data or b""))
            document_id = DocumentId(digest_bytes(canonical))
            if document_id in known:
                report.skipped += 1
                continue
            yield AdvisoryDelivery(advisory_of(value, canonical, document_id, now), raw.source)
        except InvalidDocument as error:
            error.place = raw.place
            yield RefusedDocument(raw.source, error)


def run_sync(
    settings: Settings, source: str, on_document: Callable[[], None]
) -> RunOutcome[AdvisoryReport]:
    """Store the advisories of ``source``, and project them to the graph in the background.

    :raises StoreUnavailable: if the record is lost or a server does not answer
    """
    with recording(settings) as run:
        report = sync_source(
            settings, run.engine, source, on_document=on_document, on_commit=run.on_commit
        )
    return run.outcome(report)


def remove_stored_persons(settings: Settings, engine: Engine) -> Collection[str]:
    """Replace advisories that name persons; the graph follows with its next update.

    :returns: identifiers of all advisory documents in the record afterwards
    """
    with relational_errors(settings):
        known = _known(engine)
        outdated = sorted(key for key, schema in known.items() if schema != SCHEMA_VERSION)
        for start in range(0, len(outdated), _BATCH):
            with engine.begin() as connection:
                _replace(connection, settings, outdated[start : start + _BATCH])
        # Also those that an interrupted run left.
        delete_unreferenced_bodies(settings, engine)
        return _known(engine) if outdated else known


def _known(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        return known_advisories(connection)


def _replace(connection: Connection, settings: Settings, document_ids: Collection[str]) -> None:
    now = datetime.now(UTC)
    replacements: dict[str, AdvisoryDelivery] = {}
    clean: list[str] = []
    query = select(Document).where(Document.document_id == any_(texts(document_ids)))
    for row in connection.execute(query):
        try:
            body = unpacked_body(settings, row)
            value, canonical = without_persons(orjson.loads(body), body)
            if canonical == body:
                clean.append(row.document_id)
                continue
            document_id = DocumentId(digest_bytes(canonical))
            advisory = advisory_of(value, canonical, document_id, now)
        except (DamagedDocument, InvalidDocument) as error:
            # `thoth record verify` names it.
            _LOG.warning("advisory_kept", extra={"error": str(error)})
        else:
            replacements[row.document_id] = AdvisoryDelivery(advisory, row.source)
    same = update(Document).where(Document.document_id == any_(texts(clean)))
    connection.execute(same.values(schema_version=SCHEMA_VERSION))
    replace_documents(connection, settings, replacements)
