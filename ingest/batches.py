"""Stores the documents of a source in batches.

A batch is one transaction that holds documents and their outbox entries. An interrupted run is
resumed by running it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.postgresql_helpers import current_time
from graph.record.quarantine import QuarantineReason, add_refusals, resolve_source
from ingest.sources.source_items import RefusedDocument
from ingest.sources.urls import stored_source
from model.errors import Reason, StoreUnavailable

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
