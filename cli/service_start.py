"""What ``serve`` and ``worker`` do before they begin."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from common.errors import StoreUnavailable
from common.logs import set_up_logs
from common.settings import Settings

_LOG = logging.getLogger(__name__)


def log_service(verbose: bool) -> None:
    """A service tells what it does without being asked."""
    set_up_logs(verbose)
    logging.getLogger("api").setLevel(logging.INFO)


def ensure_stores(settings: Settings) -> None:
    """Start embedded stores and bring them to this release's schema.

    :raises StoreUnavailable: if PostgreSQL does not answer; the graph may be away
    :raises SchemaMismatch: if a schema is not this release's, and not ours to migrate
    """
    from graph.engine import GRAPH
    from graph.migrate import migrated_stores

    try:
        with migrated_stores(settings):
            return
    except StoreUnavailable as error:
        if error.store != GRAPH:
            raise
        _LOG.warning("graph_down", extra={"error": str(error)})
    with migrated_stores(settings, graph=False):
        return


def metrics_root(settings: Settings, chosen: Path | None) -> Path:
    """Where processes that share a home meet, unless another folder was chosen."""
    return chosen or settings.home / "run" / "metrics"


def command(*arguments: str) -> tuple[str, ...]:
    """A command of this room, for a child process with this one's interpreter."""
    return (sys.executable, "-m", "cli", *arguments)
