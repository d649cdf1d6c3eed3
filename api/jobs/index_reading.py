"""Answers requests over all versions that the indexes list, and shows the progress."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import TypeVar

from adviser.answering.index_resolution import IndexResolution, ResolutionProgress, over_indexes
from adviser.stack_request import StackRequest
from api.jobs.request_run import log_for_client
from api.jobs.worker_context import WorkerContext
from graph.engine import Stores
from graph.record.analyses import Analysis, set_progress, supersede
from ingest.crawl.record_writer import store_read
from model.packages.candidates import Dependency, IndexesSilent

#: Shortest time between two updates of a request's progress, s.
_UPDATED_EVERY_S = 0.5

T = TypeVar("T")


def read_over_indexes(
    worker: WorkerContext,
    stores: Stores,
    analysis: Analysis,
    request: StackRequest,
    use: Callable[[IndexResolution], Awaitable[T]],
    more: Iterable[Dependency] = (),
) -> T | IndexesSilent:
    """Return the result of ``use`` over all listed versions, and store the versions that were read.

    Only configured indexes are queried. Clients see the progress in the state of the request; the
    log of the request names packages that no index has.

    :param use: such as :meth:`adviser.answering.index_resolution.IndexResolution.advise`
    :param more: requirements whose packages are read besides those of the request
    :returns: the error if no index answers; then equal requests are answered anew
    :raises StoreUnavailable: if a store does not answer
    """
    progress = _StoredProgress(worker, analysis.analysis_id)
    try:
        result, resolution = over_indexes(
            stores, request, use, worker.resolver.resolve, on_progress=progress.update, more=more,
            memory=worker.index_memory,
        )  # fmt: skip
    except IndexesSilent as error:
        for name, absence in error.absences.items():
            log_for_client(f"still missing: {name}: {absence.message}")
        log_for_client("no index gave a page of what is required, so only what is stored counts")
        with worker.service.writing() as connection:
            supersede(connection, analysis.analysis_id)
        return error
    progress.store(resolution.progress)
    if unstored := resolution.listed.unstored():
        store_read(stores.settings, stores.engine, unstored)
    resolution.keep()
    read = resolution.progress
    log_for_client(
        f"read {read.read:,} of {read.listed:,} listed releases of {read.packages:,} packages; "
        f"rounds: {read.rounds:,}, requests: {read.requests:,}, bytes: {read.bytes_received:,}"
    )
    for name, reason in resolution.unmet().items():
        log_for_client(f"still missing: {name}: {reason}")
    return result


class _StoredProgress:
    """Stores the progress of a request, at most once every :data:`_UPDATED_EVERY_S` seconds."""

    def __init__(self, worker: WorkerContext, analysis_id: str) -> None:
        self._worker = worker
        self._analysis_id = analysis_id
        self._due = time.monotonic() + _UPDATED_EVERY_S

    def update(self, progress: ResolutionProgress) -> None:
        """Store the progress if an update is due."""
        if time.monotonic() >= self._due:
            self.store(progress)

    def store(self, progress: ResolutionProgress) -> None:
        """Store the progress."""
        with self._worker.service.writing() as connection:
            set_progress(connection, self._analysis_id, asdict(progress))
        self._due = time.monotonic() + _UPDATED_EVERY_S
