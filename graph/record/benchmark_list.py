"""All results in one list: those of other benchmark systems, then our own inspections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sqlalchemy import Connection

from graph.record.benchmark_results import (
    BenchmarkFilter,
    ListedResult,
    count_foreign,
    foreign_results,
)
from graph.record.own_results import OWN_SYSTEM, count_own, own_results
from model.measurements.benchmark_results import SharedMetric

__all__ = ["BenchmarkFilter", "benchmark_results", "count_results"]


def benchmark_results(
    connection: Connection,
    chosen: BenchmarkFilter,
    shared: Sequence[SharedMetric] = (),
    *,
    after: tuple[int, str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ListedResult]:
    """Results that match, in a fixed order.

    :param shared: metrics that our own inspections have by definitions of other systems
    :param after: ``own``, ``entry_id`` and ``position`` of the last result of the previous page
    """
    return islice(_results(connection, chosen, shared, after, limit), limit)


def _results(
    connection: Connection,
    chosen: BenchmarkFilter,
    shared: Sequence[SharedMetric],
    after: tuple[int, str, int] | None,
    limit: int | None,
) -> Iterator[ListedResult]:
    begun = after is not None and after[0] == 1
    place = None if after is None else after[1:]
    left = limit
    if not begun and chosen.system != OWN_SYSTEM:
        for listed in foreign_results(connection, chosen, after=place, limit=limit):
            yield listed
            left = None if left is None else left - 1
    if left is None or left > 0:
        after_own = place if begun else None
        yield from own_results(connection, chosen, shared, after=after_own, limit=left)


def count_results(
    connection: Connection, chosen: BenchmarkFilter, shared: Sequence[SharedMetric], most: int
) -> int:
    """Number of results that match; counts at most ``most``."""
    foreign = count_foreign(connection, chosen, most)
    if foreign == most:
        return most
    return foreign + count_own(connection, chosen, shared, most - foreign)
