"""Runs that write the record: documents in batches, changes projected in the background.

A batch is one transaction that holds documents and their outbox entries. An interrupted run is
resumed by running it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import Stores, graph_errors, relational_errors, to_stderr
from graph.migrate import migrated_stores
from graph.projection import lag, sync
from graph.record.postgresql_helpers import current_time, session_lock
from graph.record.quarantine import QuarantineReason, add_refusals, resolve_source
from ingest.sources.source_items import RefusedDocument, stored_source
from model.errors import (
    AlreadyRunning,
    ProjectError,
    ProjectionFailed,
    Reason,
    ServiceFailed,
    StoreUnavailable,
)

logger = logging.getLogger(__name__)

#: Limit for documents in a transaction; an interrupted run repeats at most this number.
BATCH_DOCUMENTS = 500
#: Limit for bytes in a transaction, which bounds memory when documents are large.
BATCH_BYTES = 16 * 2**20

#: A batch is stored again after a cut connection, a deadlock or a serialization failure, but not
#: on a full disk or without its document store. Documents that were stored before are known then.
_RETRYING = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, StoreUnavailable) and error.transient),
    stop=stop_after_attempt(4),
    wait=wait_random_exponential(multiplier=0.1, max=1),
    reraise=True,
)

#: If a source is refused as a whole for one of these reasons, it was not read completely.
_NOT_READ = frozenset(
    {Reason.UNREADABLE, Reason.EMPTY_FOLDER, Reason.ARCHIVE_BROKEN, Reason.ARCHIVE_BOMB}
)

Delivered = TypeVar("Delivered")
Added = TypeVar("Added")


@dataclass(slots=True)
class Batch(Generic[Delivered]):
    """Accepted and refused documents that are stored in one transaction."""

    deliveries: list[Delivered] = field(default_factory=list)
    refusals: list[RefusedDocument] = field(default_factory=list)
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.deliveries) + len(self.refusals)


def in_batches(
    documents: Iterable[Delivered | RefusedDocument],
    size_of: Callable[[Delivered], int],
    most: int = BATCH_DOCUMENTS,
) -> Iterator[Batch[Delivered]]:
    """Divide ``documents`` into batches, keeping their order; the last batch may be empty.

    :param size_of: returns the number of bytes that a delivery holds
    :param most: documents in a batch
    """
    batch: Batch[Delivered] = Batch()
    for document in documents:
        if isinstance(document, RefusedDocument):
            batch.refusals.append(document)
        else:
            batch.deliveries.append(document)
            batch.size_bytes += size_of(document)
        if len(batch) >= most or batch.size_bytes >= BATCH_BYTES:
            yield batch
            batch = Batch()
    yield batch


@dataclass(slots=True)
class SourceRecorder(Generic[Delivered, Added]):
    """Stores the documents of one source, batch by batch.

    :param kind: kind of document in the quarantine
    :param add: stores the deliveries of a batch in the caller's transaction
    :param read_whole: whether the source was read to its end, even if some of its documents were
        refused
    :param mended: number of quarantine entries that were resolved
    """

    settings: Settings
    engine: Engine
    kind: str
    source: str
    add: Callable[[Connection, Settings, Sequence[Delivered]], Added]
    read_whole: bool = True
    mended: int = 0

    def record(
        self, batches: Iterable[Batch[Delivered]]
    ) -> Iterator[tuple[Batch[Delivered], Added]]:
        """Store ``batches``; yield each after its commit, with the result of ``add``.

        The next batch is read while the database stores the current batch.

        :raises StoreUnavailable: if a store is lost; committed batches are kept
        """
        with relational_errors(self.settings), self.engine.begin() as connection:
            began = current_time(connection)
        with ThreadPoolExecutor(1, thread_name_prefix="recorder") as thread:
            pending: Future[tuple[Batch[Delivered], Added]] | None = None
            for batch in batches:
                if pending is not None:
                    yield pending.result()
                pending = thread.submit(self._commit, batch)
            if pending is not None:
                yield pending.result()
        if not self.read_whole:
            return
        with relational_errors(self.settings), self.engine.begin() as connection:
            self.mended = resolve_source(connection, stored_source(self.source), began, self.kind)

    def _commit(self, batch: Batch[Delivered]) -> tuple[Batch[Delivered], Added]:
        refusals = [
            QuarantineReason(
                self.kind, it.source, it.place, it.error.reason, it.error.field, it.error.message
            )
            for it in batch.refusals
        ]
        for attempt in _RETRYING.copy():
            with attempt, relational_errors(self.settings), self.engine.begin() as connection:
                added = self.add(connection, self.settings, batch.deliveries)
                add_refusals(connection, refusals)
        self.read_whole &= not any(
            it.error.reason in _NOT_READ and not it.place for it in batch.refusals
        )
        fields = {"kind": self.kind, "documents": len(batch.deliveries), "refused": len(refusals)}
        logger.info("batch_ingested", extra=fields)
        return batch, added


Report = TypeVar("Report")

#: After this time without progress, the projection is given up; a batch usually takes a second.
STALLED_AFTER_S = 120.0


class BackgroundProjector:
    """Calls ``project`` in a thread after each :meth:`wake`, and once more when the block ends.

    A failure of the graph does not stop the writer. It stays in :attr:`error`, and the pending
    entries stay in the outbox. Other errors of ``project`` are raised at the end of the block.

    :param project: projects pending entries; its argument is a function to call after each progress
    :param close: called at the end by the same thread, because other threads cannot close
        connections in use
    :param in_turn: whether :meth:`wake` waits until the entries are projected, so that the run
        keeps one processor busy at a time
    :param stalled_after_s: time without progress after which the projection is given up
    """

    def __init__(
        self,
        project: Callable[[Callable[[], None]], object],
        *,
        close: Callable[[], None] = lambda: None,
        in_turn: bool = False,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        self._project = project
        self._in_turn = in_turn
        self._close = close
        self._stalled_after_s = stalled_after_s
        self._pending = threading.Event()
        self._projected = threading.Event()
        self._stopping = False
        # A daemon, so that the process can end even if the graph never answers.
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)
        self._progress_at = time.monotonic()
        self._bug: Exception | None = None
        self._lost = False
        self.error: ProjectError | None = None

    def wake(self) -> None:
        """Start projecting new entries."""
        self._projected.clear()
        self._pending.set()
        if self._in_turn and self._thread.is_alive():
            self._note_progress()
            while not self._projected.wait(min(1.0, self._stalled_after_s)):
                if self._stalled():
                    self._in_turn = False
                    break

    def __enter__(self) -> BackgroundProjector:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopping = True
        self._note_progress()
        self._pending.set()
        if kind is not None:
            return
        while self._thread.is_alive():
            self._thread.join(min(1.0, self._stalled_after_s))
            if self._stalled():
                cause = f"no answer for {self._stalled_after_s:.0f} s"
                self.error = StoreUnavailable("the graph", cause, "see `thoth status`")
                return
        if self._bug is not None:
            raise self._bug

    def _note_progress(self) -> None:
        self._progress_at = time.monotonic()

    def _stalled(self) -> bool:
        return time.monotonic() - self._progress_at > self._stalled_after_s

    def _run(self) -> None:
        last = False
        try:
            while not (last or self._lost):
                self._pending.wait()
                self._pending.clear()
                last = self._stopping
                try:
                    self._project(self._note_progress)
                except ProjectError as error:
                    logger.warning("graph_behind", extra={"cause": str(error)})
                    self.error = error
                    # If the graph refuses some entries, it still accepts others.
                    self._lost = not isinstance(error, ProjectionFailed)
                except Exception as error:
                    self._bug, self._lost = error, True
                if not self._pending.is_set():
                    self._projected.set()
        finally:
            self._projected.set()
            self._close()


@dataclass(frozen=True, slots=True)
class RunOutcome(Generic[Report]):
    """Report of a run, and the state of the graph after the run.

    :param lag: number of pending outbox entries; ``None`` after a dry run
    :param graph_error: why the projection failed, if it did
    """

    report: Report
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self, **parts: Any) -> dict[str, Any]:
        """The document that ``--json`` prints.

        :param parts: keys and values of the report
        """
        error = str(self.graph_error) if self.graph_error else None
        return {**parts, "graph": {"lag": self.lag, "error": error}}


@dataclass(slots=True)
class RecordRun:
    """A run that writes the record while :func:`recording` projects its changes.

    :param on_commit: to be called after each commit; starts the projection of new entries
    :param lag: number of pending outbox entries at the end of the run
    :param graph_error: why the projection failed, if it did
    """

    engine: Engine
    on_commit: Callable[[], None]
    lag: int | None = None
    graph_error: ProjectError | None = None

    def outcome(self, report: Report) -> RunOutcome[Report]:
        """``report`` with the state of the graph after the run."""
        return RunOutcome(report, self.lag, self.graph_error)


@contextmanager
def recording(settings: Settings) -> Iterator[RecordRun]:
    """Start both stores, open the record, and project in the background what the block commits."""
    start_both_stores(settings)
    with open_record(settings) as engine, recording_on(settings, engine) as run:
        yield run


@contextmanager
def recording_on(
    settings: Settings, engine: Engine, *, in_turn: bool = False
) -> Iterator[RecordRun]:
    """:func:`recording` on a record that is open.

    :param in_turn: as for :class:`BackgroundProjector`
    """
    with background_projection(settings, engine, in_turn=in_turn) as projector:
        run = RecordRun(engine, projector.wake)
        yield run
    run.lag, run.graph_error = lag(engine).count, projector.error


def start_both_stores(settings: Settings) -> None:
    """Start both embedded stores in parallel.

    If a store fails to start, the error is raised later, when the store is opened.
    """
    with suppress(ServiceFailed):
        EmbeddedStores(settings).start(to_stderr)


@contextmanager
def background_projection(
    settings: Settings, engine: Engine, *, in_turn: bool = False
) -> Iterator[BackgroundProjector]:
    """Project pending entries after each :meth:`BackgroundProjector.wake`, and at the end.

    The thread opens the graph for the first projection.
    """
    graph = ExitStack()
    opened: list[Stores] = []

    def project(note_progress: Callable[[], None]) -> object:
        # Errors are translated here, because the projector handles them before the stack is closed.
        with graph_errors(settings), relational_errors(settings):
            if not opened:
                opened.append(graph.enter_context(migrated_stores(settings, relational=False)))
            return sync(
                engine,
                opened[0].driver,
                database=opened[0].database,
                progress=lambda _done, _total: note_progress(),
                may_rebuild=settings.graph_rebuild,
            )

    with BackgroundProjector(project, close=graph.close, in_turn=in_turn) as projector:
        projector.wake()
        yield projector


@contextmanager
def open_record(settings: Settings) -> Iterator[Engine]:
    """Open the record and migrate its schema if necessary; the graph is not opened."""
    with migrated_stores(settings, graph=False) as stores:
        yield stores.engine


@contextmanager
def exclusive_run(engine: Engine, key: int, message: str) -> Iterator[Connection]:
    """Yield a connection that holds an advisory lock, which ends with the process.

    :param key: key of the lock
    :param message: message of the error
    :raises AlreadyRunning: if another process holds the lock
    """
    with session_lock(engine, key, wait_s=0.0) as connection:
        if connection is None:
            raise AlreadyRunning(message)
        yield connection
