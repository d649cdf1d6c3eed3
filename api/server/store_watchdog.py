"""Watchdog of embedded stores: restarts a store that died while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from common.errors import ProjectError
from common.settings import Settings
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.service import Service
from graph.embedded.start_stop import EmbeddedStores

#: Pause between two checks, s.
LOOK_S = 5.0
#: A store that is stopped on purpose is marked as such within this time after its end, s.
_NOTED_S = 1.0

_LOG = logging.getLogger(__name__)


@contextmanager
def keeping_stores(settings: Settings, look_s: float = LOOK_S) -> Iterator[None]:
    """Restart embedded stores of ``settings`` that die within the block.

    A store that was stopped by ``thoth down`` stays down.
    """
    stores, over = EmbeddedStores(settings), Event()
    if not stores.kinds:
        yield
        return

    def keep() -> None:
        while not over.wait(look_s):
            if _died(stores) and not over.wait(_NOTED_S):
                _start_again(stores)

    # A daemon: the process may end while a store starts, and `thoth down` waits for that.
    Thread(target=keep, name="stores", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _start_again(stores: EmbeddedStores) -> None:
    for kind in _died(stores):
        relational = kind is PostgreSQL
        fields = {"store": kind.name}
        _LOG.warning("store_died", extra=fields)
        try:
            stores.start(relational=relational, graph=not relational)
        except (ProjectError, OSError):
            _LOG.exception("store_not_started", extra=fields)
        else:
            _LOG.info("store_started_again", extra=fields)


def _died(stores: EmbeddedStores) -> list[type[Service]]:
    return [kind for kind in stores.kinds if stores.died(kind)]
