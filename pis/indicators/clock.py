"""Resolution of the clock, and the cost of reading it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

#: Minimum number of ticks of a repetition, so that the rounding error is below 5 %.
TICKS = 20
#: Minimum duration of a repetition in readings of the clock, so that reading costs below 0.1 %.
READS = 1000

#: Resolution of CUDA events (CUDA Runtime API, cudaEventElapsedTime: "around 0.5 microseconds").
_CUDA_EVENT_TICK_NS = 500


@dataclass(frozen=True)
class Clock:
    """The measured properties of a clock.

    :param tick_ns: smallest observed step
    :param read_ns: median cost of one reading
    """

    name: str
    tick_ns: int
    read_ns: int

    @property
    def shortest_s(self) -> float:
        """Minimum duration of a repetition.

        >>> Clock("perf_counter", 100, 50).shortest_s
        5e-05
        """
        return max(TICKS * self.tick_ns, READS * self.read_ns) * 1e-9


def clock_of(name: str, readings: int = 2000) -> Clock:
    """Measure the clock for about a millisecond.

    :param name: ``perf_counter`` or ``cuda_event``; reading CUDA events is assumed to cost as much
        as reading the host's clock
    """
    read = time.perf_counter_ns
    told = [read() for _ in range(readings)]
    steps = [after - before for before, after in zip(told, told[1:])]
    tick = min((step for step in steps if step > 0), default=1)
    if name == "cuda_event":
        tick = max(tick, _CUDA_EVENT_TICK_NS)
    return Clock(name, tick, max(1, int(median(steps))))
