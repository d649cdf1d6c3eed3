"""A sync of advisories: stores opened, a source taken in, the graph brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from common.errors import ProjectError
from common.settings import Settings
from graph.engine import graph_errors, relational_errors
from graph.migrate import migrated_stores
from graph.projection import lag, sync
from ingest.advisories.sync import AdvisoryReport, sync_source


@dataclass(frozen=True, slots=True)
class SyncRun:
    """A sync's outcome.

    :param lag: outbox entries that the graph does not show yet; ``None`` after a dry run
    :param graph_error: why the graph could not catch up, if it could not
    """

    advisories: AdvisoryReport
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self) -> dict[str, Any]:
        """The outcome as ``--json`` prints it."""
        error = str(self.graph_error) if self.graph_error else None
        return {
            "advisories": self.advisories.as_json(),
            "graph": {"lag": self.lag, "error": error},
        }


def run_sync(settings: Settings, source: str, on_document: Callable[[], None]) -> SyncRun:
    """Take in ``source``, then let the graph catch up.

    :raises StoreUnavailable: if the record is lost or a server does not answer
    """
    with migrated_stores(settings, graph=False) as stores:
        report = sync_source(settings, stores.engine, source, on_document=on_document)
        error = _catch_up(settings, stores.engine)
        return SyncRun(report, lag(stores.engine).count, error)


def _catch_up(settings: Settings, engine: Engine) -> ProjectError | None:
    """Project what waits; a graph that is down never fails what is in the record already."""
    if not lag(engine).count:
        return None
    try:
        with (
            graph_errors(settings),
            relational_errors(settings),
            migrated_stores(settings, relational=False) as stores,
        ):
            sync(engine, stores.driver, database=stores.database)
    except ProjectError as error:
        return error
    return None
