"""What a worker keeps warm between jobs: connections, the solver's process, what it has read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adviser.resolver.worker import Worker
from api.jobs.watch import Watch
from api.service import Service
from common.environments import Environment
from common.settings import Settings
from graph.engine import GRAPH, Stores
from graph.evidence import Evidence
from graph.patience import patience
from graph.repositories.evidence import evidence_for
from graph.repositories.progress import progress
from graph.snapshot import Snapshot, is_current, load_snapshot

#: Closures kept; one of 70 packages takes a few megabytes.
_KEPT = 16


@dataclass(frozen=True, slots=True)
class _Known:
    """A snapshot with its evidence, and how far the record was when that was read."""

    snapshot: Snapshot
    evidence: Evidence
    position: Sequence[object]


class Workshop:
    """What one worker's jobs share; they come one after the other."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service = Service(settings)
        self.resolver = Worker()
        self.watch = Watch()
        self._known: OrderedDict[object, _Known] = OrderedDict()

    def known_of(
        self, stores: Stores, roots: Iterable[str], environment: Environment
    ) -> tuple[Snapshot, Evidence]:
        """The snapshot of some requirements and the evidence for it, read anew after a change."""
        wanted = tuple(sorted(roots))
        key, position = (wanted, environment), _position(stores)
        kept = self._known.pop(key, None)
        with patience(GRAPH, self.settings.query_timeout_s * 2):
            if kept is not None and is_current(
                stores.driver, kept.snapshot, database=stores.database
            ):
                snapshot = kept.snapshot
            else:
                snapshot = load_snapshot(
                    stores.driver, wanted, environment, database=stores.database
                )
        if kept is None or kept.snapshot is not snapshot or kept.position != position:
            with stores.engine.connect() as connection:
                evidence = evidence_for(connection, snapshot, datetime.now(UTC))
            kept = _Known(snapshot, evidence, position)
        self._known[key] = kept
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return kept.snapshot, kept.evidence

    def close(self) -> None:
        """End the solver's process and close what is open."""
        self.resolver.close()
        self.service.close()


def _position(stores: Stores) -> Sequence[object]:
    """What evidence depends on: what the record took in, whom it asked, and the day."""
    with stores.engine.connect() as connection:
        now = progress(connection)
    return now.as_of, now.asked_at, datetime.now(UTC).date()
