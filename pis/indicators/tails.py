"""Percentiles of latencies."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(seconds: Sequence[float], per_cent: float) -> float:
    """The value at index ``floor(p n)`` of ``n`` ordered values, at most the last one.

    LoadGen and the readers of foreign latencies use the same rule.

    >>> percentile([5.0, 1.0, 4.0, 2.0, 3.0], 50), percentile([1.0, 2.0], 99)
    (3.0, 2.0)
    >>> percentile(list(range(100)), 90)
    90
    """
    ordered = sorted(seconds)
    return ordered[min(int(len(ordered) * per_cent / 100), len(ordered) - 1)]
