"""How fine the clock is, and what reading it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

#: A repetition lasts at least so many ticks, so that rounding stays below 5 %.
TICKS = 20
#: … and so many times what reading the clock costs, so that reading stays below 0.1 %.
READS = 1000

#: Resolution of CUDA events (CUDA Runtime API, cudaEventElapsedTime: "around 0.5 microseconds").
_CUDA_EVENT_TICK_NS = 500


@dataclass(frozen=True)
class Clock:
    """A clock as it was found.

    :param tick_ns: smallest step that was seen
    :param read_ns: median cost of one reading
    """

    name: str
    tick_ns: int
    read_ns: int

    @property
    def shortest_s(self) -> float:
        """How long a repetition lasts at least.

        >>> Clock("perf_counter", 100, 50).shortest_s
        5e-05
        """
        return max(TICKS * self.tick_ns, READS * self.read_ns) * 1e-9


def clock_of(name: str, readings: int = 2000) -> Clock:
    """Look at the clock for a millisecond or so.

    :param name: ``perf_counter`` or ``cuda_event``, whose readings the host clock stands in for
    """
    read = time.perf_counter_ns
    told = [read() for _ in range(readings)]
    steps = [after - before for before, after in zip(told, told[1:])]
    tick = min((step for step in steps if step > 0), default=1)
    if name == "cuda_event":
        tick = max(tick, _CUDA_EVENT_TICK_NS)
    return Clock(name, tick, max(1, int(median(steps))))
