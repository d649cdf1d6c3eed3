"""Keeps embedded stores alive while a service runs: starts one again that died by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from common.errors import ProjectError
from common.settings import Settings
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.service import Service
from graph.embedded.stores import EmbeddedStores

#: Between two looks.
LOOK_S = 5.0
#: Whoever stops a store notes that within this time of its end.
_NOTED_S = 1.0

_LOG = logging.getLogger(__name__)


@contextmanager
def keeping_stores(settings: Settings, look_s: float = LOOK_S) -> Iterator[None]:
    """Look after the embedded stores of ``settings`` within the block, if there are any.

    One that was stopped (``thoth down``) stays down.
    """
    stores, over = EmbeddedStores(settings), Event()
    if not stores.kinds:
        yield
        return

    def keep() -> None:
        while not over.wait(look_s):
            if _died(stores) and not over.wait(_NOTED_S):
                _start_again(stores)

    # It may be in the middle of a start when all ends: whoever stops stores waits for that.
    Thread(target=keep, name="stores", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _start_again(stores: EmbeddedStores) -> None:
    for kind in _died(stores):
        relational = kind is PostgreSQL
        told = {"store": kind.name}
        _LOG.warning("store_died", extra=told)
        try:
            stores.start(relational=relational, graph=not relational)
        except (ProjectError, OSError):
            _LOG.exception("store_not_started", extra=told)
        else:
            _LOG.info("store_started_again", extra=told)


def _died(stores: EmbeddedStores) -> list[type[Service]]:
    return [kind for kind in stores.kinds if stores.died(kind)]
