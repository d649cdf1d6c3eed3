"""Warm-up and timing of repetitions."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from pis.indicators.clock import Clock
from pis.indicators.errors import Unsupported

#: Minimum number of repetitions for a median and a spread.
_FEWEST = 9
#: Maximum number of repetitions, so that a document stays readable.
MOST_REPETITIONS = 10_000
#: Minimum share of the minimum time for one repetition, which limits their number.
_SHARE = 1 / 50
#: The time has settled when two windows of this many repetitions agree in the median within 2 %.
_WINDOW = 5
_SETTLED = 0.02
#: A repetition that took this many times the minimum is long enough, even if it was interrupted.
_CLEAR = 20
#: Warm-up ends here on a machine that never settles.
_WARM_UP_S = 3.0


class Timed(Protocol):
    """Something that can be called many times and timed."""

    def __call__(self, calls: int, /) -> tuple[float, Any]:
        """Seconds that ``calls`` calls take together, and the output of the last one."""


@dataclass(frozen=True)
class Timing:
    """The durations that were measured.

    :param repetitions_s: seconds per call, one for each repetition, in order
    :param settled: whether the warm-up ended because the time had settled
    """

    repetitions_s: tuple[float, ...]
    calls: int
    warm_up_repetitions: int
    warm_up_s: float
    settled: bool
    output: Any


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    :param repetitions: number of repetitions, 0 for as many as ``min_time_s`` needs
    :param calls: calls per repetition, 0 for as many as the clock needs
    """

    min_time_s: float
    repetitions: int
    calls: int
    clock: Clock


def time_work(timed: Timed, plan: Plan) -> Timing:
    """Choose the calls of a repetition, warm up until the time settles, then repeat.

    :raises Unsupported: if the requested calls are too short for the clock
    """
    with _no_collection():
        began = time.perf_counter()
        calls = _calls(timed, plan)
        warm = _warm_up(timed, calls, began)
        warm_up_s = time.perf_counter() - began
        calls = _more_calls(calls, warm, plan)
        seconds, output = _repeat(timed, calls, plan)
    return Timing(
        tuple(it / calls for it in seconds), calls, len(warm), warm_up_s, settled(warm), output
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from running while calls are timed."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _calls(timed: Timed, plan: Plan) -> int:
    """Return the calls per repetition: as requested, or doubled until they last long enough."""
    if plan.calls:
        seconds = max(timed(plan.calls)[0], timed(plan.calls)[0])
        if seconds < plan.clock.shortest_s:
            raise Unsupported(
                f"a repetition of {plan.calls} calls takes {seconds * 1e6:.3g} µs, and the clock "
                f"needs {plan.clock.shortest_s * 1e6:.3g} µs: raise --mini-batch, or leave it out"
            )
        return plan.calls
    wanted = _shortest_s(plan)
    calls = 1
    while True:
        seconds = timed(calls)[0]
        if seconds < _CLEAR * wanted:  # something else may have held it up
            seconds = min(seconds, timed(calls)[0])
        if seconds >= wanted:
            return calls
        # The first calls are slow, so the estimate grows in steps of ten at most.
        calls = max(calls + 1, min(10 * calls, math.ceil(1.05 * calls * wanted / seconds)))


def _more_calls(calls: int, warm: Sequence[float], plan: Plan) -> int:
    """Return the number of calls that the settled time needs; the first calls may be far slower."""
    if plan.calls or not warm:
        return calls
    return max(calls, math.ceil(calls * _shortest_s(plan) / median(warm[-_WINDOW:])))


def _shortest_s(plan: Plan) -> float:
    return max(plan.clock.shortest_s, plan.min_time_s * _SHARE)


def _warm_up(timed: Timed, calls: int, began: float) -> list[float]:
    done: list[float] = []
    while not settled(done) and time.perf_counter() - began < _WARM_UP_S:
        done.append(timed(calls)[0])
    return done


def settled(seconds: Sequence[float]) -> bool:
    """Whether the median of the last five times is within 2 % of the median of the five before.

    >>> settled([9, 2, 2, 2, 2, 2, 2, 2, 2]), settled([9, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    (False, True)
    """
    if len(seconds) < 2 * _WINDOW:
        return False
    before, last = median(seconds[-2 * _WINDOW : -_WINDOW]), median(seconds[-_WINDOW:])
    return abs(last - before) <= _SETTLED * before


def _repeat(timed: Timed, calls: int, plan: Plan) -> tuple[list[float], Any]:
    done: list[float] = []
    output = None
    while not _enough(done, plan):
        output = None  # its memory may be needed
        seconds, output = timed(calls)
        done.append(seconds)
    return done, output


def _enough(done: Sequence[float], plan: Plan) -> bool:
    if plan.repetitions:
        return len(done) >= plan.repetitions
    if len(done) >= MOST_REPETITIONS:
        return True
    return len(done) >= _FEWEST and sum(done) >= plan.min_time_s
