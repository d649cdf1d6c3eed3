"""Waiting for a condition, however slow the machine is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine, text

#: Far longer than a busy machine needs, and shorter than pytest's limit for a whole test.
DEADLINE_S = 300.0
#: Between two looks at a condition: the first and the longest. Looking takes time from what is
#: waited for.
_PAUSES_S = (0.01, 0.05)

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], what: str, *, log: Path | None = None) -> T:
    """Return the first true value of ``condition``.

    :param what: the condition in words, for the failure after :data:`DEADLINE_S`
    :param log: a file to show in that failure
    """
    deadline = time.monotonic() + DEADLINE_S
    pause_s, longest_s = _PAUSES_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            shown = f"\n{log.read_text('utf-8', 'replace')}" if log else ""
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}{shown}")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, longest_s)
    return value


def waiting_for_locks(engine: Engine) -> int:
    """How many sessions of a database wait for a lock."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with engine.connect() as connection:
        return int(connection.scalar(query) or 0)
