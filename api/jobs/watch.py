"""A worker that is at one job for longer than any such job takes ends itself.

A store may stop in the middle of an answer, and a thread that waits for it cannot be ended. The
supervisor starts another worker, and the job counts as one of a dead worker: it is returned, a
bounded number of times.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Between two looks.
LOOK_S = 5.0

_LOG = logging.getLogger(__name__)


class Watch:
    """Which jobs are under way, and until when each may be."""

    def __init__(self) -> None:
        self._until: dict[object, tuple[str, float]] = {}

    @contextmanager
    def over(self, name: str, limit_s: float) -> Iterator[None]:
        """Watch the block; it may be in a thread of its own."""
        key = object()
        self._until[key] = name, time.monotonic() + limit_s
        try:
            yield
        finally:
            del self._until[key]

    def overdue(self) -> str | None:
        """The name of a job that is at it for too long."""
        now = time.monotonic()
        return next((name for name, until in list(self._until.values()) if now > until), None)


def leave(status: int = 1) -> None:
    """End this process although a thread of it may go on for ever."""
    sys.stderr.flush()
    os._exit(status)


async def guard(watch: Watch, end: Callable[[], None] = leave, look_s: float = LOOK_S) -> None:
    """Call ``end`` once a job is overdue."""
    while (name := watch.overdue()) is None:
        await asyncio.sleep(look_s)
    _LOG.error("job_stalled", extra={"task": name})
    end()
