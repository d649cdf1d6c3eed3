"""The four load scenarios of MLPerf Inference around any callable.

Each function issues queries to ``answer``, which computes one sample, and measures what LoadGen
reports: single stream and multi stream a percentile of latencies, server the largest rate of
arrivals whose tail stays within a bound, offline the rate of samples that are all there at once.
Source: Reddi et al. 2020, "MLPerf Inference Benchmark" (arXiv:1911.02549), section III.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pis.indicators.tails import percentile

#: Percentiles of the scenarios.
SINGLE_STREAM_PER_CENT, MULTI_STREAM_PER_CENT, SERVER_PER_CENT = 90, 99, 99

#: Samples of a query in the scenario multi stream, since version 2.0 of the rules.
STREAMS = 8

#: The search for the largest rate ends when the bounds are this close.
_RESOLUTION = 0.02


@dataclass(frozen=True)
class Arrivals:
    """Latencies of queries that arrived at given times.

    :param latencies_s: from the arrival of each query to its answer
    :param duration_s: from the start to the last answer
    """

    latencies_s: tuple[float, ...]
    duration_s: float


def single_stream(answer: Callable[[], object], queries: int) -> float:
    """The 90th percentile of latencies, in seconds; each query follows the answer before it."""
    return percentile([_timed(answer) for _ in range(queries)], SINGLE_STREAM_PER_CENT)


def multi_stream(answer: Callable[[], object], queries: int, streams: int = STREAMS) -> float:
    """The 99th percentile of the latencies of queries of several samples, in seconds."""
    latencies = []
    for _ in range(queries):
        began = time.perf_counter()
        for _ in range(streams):
            answer()
        latencies.append(time.perf_counter() - began)
    return percentile(latencies, MULTI_STREAM_PER_CENT)


def offline(answer: Callable[[], object], samples: int) -> float:
    """Samples per second if all samples are there at once."""
    began = time.perf_counter()
    for _ in range(samples):
        answer()
    return samples / (time.perf_counter() - began)


def _timed(answer: Callable[[], object]) -> float:
    began = time.perf_counter()
    answer()
    return time.perf_counter() - began


def arrival_times(rate: float, queries: int, seed: int) -> list[float]:
    """Times in seconds at which queries arrive in a Poisson process.

    The gaps are exponential with the mean 1 / rate.

    >>> times = arrival_times(100.0, 10_000, seed=1)
    >>> times == sorted(times), abs(times[-1] - 100.0) < 3.0
    (True, True)
    """
    random_gaps = random.Random(seed)  # noqa: S311
    times, now = [], 0.0
    for _ in range(queries):
        now += random_gaps.expovariate(rate)
        times.append(now)
    return times


def serve(answer: Callable[[], object], arrivals: Iterable[float]) -> Arrivals:
    """Answer queries in the order of their arrival, one at a time.

    A query that arrives while another one is answered waits, and the wait is part of its latency.
    """
    latencies = []
    began = time.perf_counter()
    for arrival in arrivals:
        _wait_until(began + arrival)
        answer()
        latencies.append(time.perf_counter() - began - arrival)
    return Arrivals(tuple(latencies), time.perf_counter() - began)


def _wait_until(moment: float) -> None:
    """Sleep most of the time, then look at the clock: sleeping alone ends too late."""
    while True:
        remaining = moment - time.perf_counter()
        if remaining <= 0:
            return
        if remaining > 2e-3:
            time.sleep(remaining - 1e-3)


def within_bound(latencies_s: Sequence[float], bound_s: float) -> bool:
    """Whether the 99th percentile of the latencies is within the bound.

    >>> within_bound([0.1] * 100 + [9.0], 0.2), within_bound([0.1] * 90 + [9.0] * 10, 0.2)
    (True, False)
    """
    return percentile(latencies_s, SERVER_PER_CENT) <= bound_s


def largest_rate(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest rate for which ``holds``, by bisection; 0 if it does not hold for ``low``.

    :param holds: whether the bound holds at a rate, in queries per second

    >>> round(largest_rate(lambda rate: rate <= 70.0, 10.0, 100.0))
    70
    >>> largest_rate(lambda rate: False, 10.0, 100.0)
    0.0
    """
    if not holds(low):
        return 0.0
    while high / low > 1 + _RESOLUTION:
        middle = math.sqrt(low * high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def server(answer: Callable[[], object], queries: int, bound_s: float, seed: int) -> float:
    """The largest rate of Poisson arrivals, in queries per second, whose tail is within the bound.

    :param queries: at each rate that the search tries
    :param bound_s: of the 99th percentile
    :returns: 0 if not even a twentieth of the offline rate keeps the bound
    """
    capacity = offline(answer, max(10, queries // 4))

    def holds(rate: float) -> bool:
        served = serve(answer, arrival_times(rate, queries, seed))
        return within_bound(served.latencies_s, bound_s)

    return largest_rate(holds, capacity / 20, capacity)
