"""State that a worker keeps between jobs: connections, solver process, data, running jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from adviser.answering.index_memory import IndexMemory
from adviser.resolver.worker import ResolverWorker
from api.jobs.queue import PROJECT
from api.service import ServiceStores
from common.settings import Settings
from graph.checkpoints import stores_agree
from graph.engine import GRAPH, Stores
from graph.record.evidence import evidence_for
from graph.record.freshness import changes
from graph.snapshot_reader import is_current, load_snapshot
from graph.watchdog import watchdog
from model.errors import GraphMismatch
from model.measurements.evidence import Evidence
from model.packages.environments import Environment
from model.packages.snapshot import Snapshot

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


#: Maximum number of cached items, such as versions and readings. Each takes 1 to 1.6 KB, so the
#: cache has at most 80 MB, unless the last request alone needs more.
KEPT_ITEMS = 50_000
#: Number of items that a request without data counts as.
_ITEMS_PER_REQUEST = 10


@dataclass(frozen=True, slots=True)
class _KeptKnowledge:
    """A snapshot with its evidence, and the position of the record when they were read."""

    snapshot: Snapshot
    evidence: Evidence
    position: Sequence[object]

    @property
    def items(self) -> int:
        """Number of items, as a measure of the memory in use."""
        snapshot, evidence = self.snapshot, self.evidence
        packages = (snapshot.packages, snapshot.excluded, evidence.stacks)
        many = sum(len(them) for some in packages for them in some.values())
        return _ITEMS_PER_REQUEST + len(snapshot.revisions) + many + len(evidence.readings)


class WorkerContext:
    """Context of one worker, whose jobs run one at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service = ServiceStores(settings)
        self.resolver = ResolverWorker()
        self.watch = JobTimeouts()
        self.index_memory = IndexMemory(settings.index_page_age_s)
        self._known: OrderedDict[object, _KeptKnowledge] = OrderedDict()

    def kept_knowledge(
        self, stores: Stores, roots: Iterable[str], environment: Environment
    ) -> tuple[Snapshot, Evidence]:
        """The snapshot of requirements, and its evidence; read again only after a change."""
        names = tuple(sorted(roots))
        key, position = (names, environment), _position(stores)
        known = self._known.pop(key, None)
        with watchdog(GRAPH, self.settings.query_timeout_s * 2):
            self.require_own_graph(stores)
            if known is not None and is_current(
                stores.driver, known.snapshot, database=stores.database
            ):
                snapshot = known.snapshot
            else:
                snapshot = load_snapshot(
                    stores.driver, names, environment, database=stores.database
                )
        if known is None or known.snapshot is not snapshot or known.position != position:
            with stores.engine.connect() as connection:
                evidence = evidence_for(connection, snapshot, datetime.now(UTC))
            known = _KeptKnowledge(snapshot, evidence, position)
        self._known[key] = known
        self._forget_most()
        return known.snapshot, known.evidence

    def require_own_graph(self, stores: Stores) -> None:
        """Refuse a graph that was not projected from this record, and have it projected again.

        :raises GraphMismatch: if there is such a graph; a rebuild is enqueued if the settings allow
        """
        if stores_agree(stores):
            return
        if self.settings.graph_rebuild:
            with stores.engine.begin() as connection:
                self.service.queue.enqueue(connection, PROJECT)
        raise GraphMismatch

    def _forget_most(self) -> None:
        """Drop the least recently used data beyond :data:`KEPT_ITEMS`."""
        items = sum(it.items for it in self._known.values())
        while items > KEPT_ITEMS and len(self._known) > 1:
            _, least = self._known.popitem(last=False)
            items -= least.items

    def close(self) -> None:
        """End the solver process and close all connections."""
        self.resolver.close()
        self.service.close()


def _position(stores: Stores) -> Sequence[object]:
    """Return what evidence depends on: the position of the record, and the day."""
    with stores.engine.connect() as connection:
        return changes(connection), datetime.now(UTC).date()
