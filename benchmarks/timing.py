"""The time of a function, and whether a time meets its goal."""

import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds on the clock that ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def verdict(value: float, goal: float) -> str:
    """``met`` if the value is at most the goal, else ``MISSED``."""
    return "met" if value <= goal else "MISSED"
