"""State that a worker keeps between jobs: connections, solver process, data, running jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from adviser.answering.index_memory import IndexMemory
from adviser.answering.knowledge import GraphSource
from adviser.resolver.worker import ResolverWorker
from api.jobs.queue import PROJECT
from api.service import ServiceStores
from common.settings import Settings
from graph.checkpoints import stores_agree
from graph.engine import GRAPH, Stores
from graph.watchdog import watchdog
from model.errors import GraphMismatch

#: Pause between two checks for overdue jobs, s.
CHECK_INTERVAL_S = 5.0

_LOG = logging.getLogger(__name__)


class JobTimeouts:
    """Running jobs with their deadlines."""

    def __init__(self) -> None:
        self._until: dict[object, tuple[str, float]] = {}

    @contextmanager
    def over(self, name: str, limit_s: float) -> Iterator[None]:
        """Limit the time of a block, which may run in any thread."""
        key = object()
        self._until[key] = name, time.monotonic() + limit_s
        try:
            yield
        finally:
            del self._until[key]

    def overdue(self) -> str | None:
        """Return the name of a job that has exceeded its time limit, if any."""
        now = time.monotonic()
        return next((name for name, until in list(self._until.values()) if now > until), None)


def leave(status: int = 1) -> None:
    """End this process at once, even if one of its threads never returns."""
    sys.stderr.flush()
    os._exit(status)


async def guard(
    watch: JobTimeouts, end: Callable[[], None] = leave, look_s: float = CHECK_INTERVAL_S
) -> None:
    """Call ``end`` once a job is overdue."""
    while (name := watch.overdue()) is None:
        await asyncio.sleep(look_s)
    _LOG.error("job_stalled", extra={"task": name})
    end()


#: Maximum number of kept items, such as versions and readings: at most 80 MB, unless the last
#: request alone needs more.
KEPT_ITEMS = 50_000


class WorkerContext:
    """Context of one worker, whose jobs run one at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service = ServiceStores(settings)
        self.resolver = ResolverWorker()
        self.watch = JobTimeouts()
        self.index_memory = IndexMemory(settings.index_page_age_s)
        self.graph = GraphSource(KEPT_ITEMS)

    def require_own_graph(self, stores: Stores) -> None:
        """Refuse a graph that was not projected from this record, and have it projected again.

        :raises GraphMismatch: if there is such a graph; a rebuild is enqueued if the settings allow
        """
        with watchdog(GRAPH, self.settings.query_timeout_s * 2):
            if stores_agree(stores):
                return
        if self.settings.graph_rebuild:
            with stores.engine.begin() as connection:
                self.service.queue.enqueue(connection, PROJECT)
        raise GraphMismatch

    def close(self) -> None:
        """End the solver process and close all connections."""
        self.resolver.close()
        self.service.close()
