"""The time of a function."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds on the clock that ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
