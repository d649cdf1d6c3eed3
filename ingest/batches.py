"""Documents in batches: read and parsed into them, and recorded one by one.

A batch is a transaction, documents and their outbox entries together, so an interrupted run
is resumed by running it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine

from common.reasons import Reason
from common.settings import Settings
from graph.engine import relational_errors
from graph.record.quarantine import Refusal as RefusedDocument
from graph.record.quarantine import (
    add_refusals,
    now,
    resolve_source,
)
from ingest.documents import Refusal
from ingest.sources.urls import stored_source

logger = logging.getLogger(__name__)

#: Documents a transaction, which is what an interruption makes read again.
BATCH_DOCUMENTS = 500
#: Bytes a transaction, so that memory stays flat when documents are large.
BATCH_BYTES = 16 * 2**20

#: With one of these for a whole source, nothing is known of what it held before.
_NOT_READ = frozenset(
    {Reason.UNREADABLE, Reason.EMPTY_FOLDER, Reason.ARCHIVE_BROKEN, Reason.ARCHIVE_BOMB}
)

Delivered = TypeVar("Delivered")
Added = TypeVar("Added")


@dataclass(slots=True)
class Batch(Generic[Delivered]):
    """What is recorded in one transaction."""

    deliveries: list[Delivered] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.deliveries) + len(self.refusals)


def in_batches(
    found: Iterable[Delivered | Refusal],
    size_of: Callable[[Delivered], int],
    most: int = BATCH_DOCUMENTS,
) -> Iterator[Batch[Delivered]]:
    """``found`` in its order, in batches of at most ``most``; the last one may be empty.

    :param size_of: bytes that a delivery holds
    """
    batch: Batch[Delivered] = Batch()
    for it in found:
        if isinstance(it, Refusal):
            batch.refusals.append(it)
        else:
            batch.deliveries.append(it)
            batch.size_bytes += size_of(it)
        if len(batch) >= most or batch.size_bytes >= BATCH_BYTES:
            yield batch
            batch = Batch()
    yield batch


@dataclass(slots=True)
class Recorder(Generic[Delivered, Added]):
    """Writes batches into the record, one while the next is read: the database works meanwhile.

    :param kind: of the documents, as the quarantine names it
    :param add: stores the deliveries of a batch, in a transaction that it does not end
    :param on_recorded: called after each batch is committed, with what ``add`` returned
    """

    settings: Settings
    engine: Engine
    kind: str
    add: Callable[[Connection, Settings, Sequence[Delivered]], Added]
    on_recorded: Callable[[Batch[Delivered], Added], None]
    #: Whether the last source was read to its end; single documents of it may have been refused.
    read_whole: bool = True

    def record_source(self, source: str, batches: Iterable[Batch[Delivered]]) -> int:
        """Record all of ``source``; what was refused before and was not again is mended.

        :returns: how many entries of the quarantine were
        :raises StoreUnavailable: if a store is lost; what was committed stays
        """
        with relational_errors(self.settings), self.engine.begin() as connection:
            began = now(connection)
        self.read_whole = True
        self.record(batches)
        if not self.read_whole:
            return 0
        with relational_errors(self.settings), self.engine.begin() as connection:
            return resolve_source(connection, stored_source(source), began, self.kind)

    def record(self, batches: Iterable[Batch[Delivered]]) -> None:
        """Record ``batches``, each in a transaction of its own."""
        with ThreadPoolExecutor(1, thread_name_prefix="recorder") as thread:
            recorded: Future[None] | None = None
            for batch in batches:
                if recorded is not None:
                    recorded.result()
                recorded = thread.submit(self._commit, batch)
            if recorded is not None:
                recorded.result()

    def _commit(self, batch: Batch[Delivered]) -> None:
        with relational_errors(self.settings), self.engine.begin() as connection:
            added = self.add(connection, self.settings, batch.deliveries)
            add_refusals(connection, map(self._refused, batch.refusals))
        self.read_whole &= not any(
            it.error.reason in _NOT_READ and not it.place for it in batch.refusals
        )
        logger.info(
            "batch_ingested",
            extra={
                "kind": self.kind, "documents": len(batch.deliveries),
                "refused": len(batch.refusals),
            },
        )  # fmt: skip
        self.on_recorded(batch, added)

    def _refused(self, refusal: Refusal) -> RefusedDocument:
        error = refusal.error
        return RefusedDocument(
            self.kind, refusal.source, refusal.place, error.reason, error.field, error.message
        )
