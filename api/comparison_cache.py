"""Comparisons of measured stacks, computed again only after the record has changed."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from sqlalchemy import Connection

from adviser.stack_comparison import compare_stacks
from adviser.stacks_document import stacks_document
from graph.record.freshness import changes
from graph.record.observations import measured_observations

#: Maximum number of stacks in all kept results; the result of one stack takes about 3 kB.
_MOST_STACKS = 10_000

Groups = list[dict[str, Any]]


class ComparisonCache:
    """Keeps the results of the last selections, each for one state of the record.

    All comparisons of a selection form one family, so that a new job may change any verdict: a
    change of the record invalidates everything.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._results: OrderedDict[tuple[object, ...], Groups] = OrderedDict()
        self._position = -1

    def groups(
        self, connection: Connection, baseline: str | None = None, **selection: Any
    ) -> Groups:
        """The groups of ``thoth stacks`` as JSON values; callers must not change them.

        :param selection: filters of :func:`graph.record.observations.measured_observations`
        """
        position = changes(connection)
        key = (baseline, *sorted(selection.items()))
        # Others wait, since they would compute the same; a transaction may show an older state.
        with self._lock:
            if position > self._position:
                self._results.clear()
                self._position = position
            if position == self._position and key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            observations = measured_observations(connection, **selection)
            groups: Groups = stacks_document(compare_stacks(observations, baseline))["groups"]
            if position == self._position:
                self._keep(key, groups)
            return groups

    def _keep(self, key: tuple[object, ...], groups: Groups) -> None:
        self._results[key] = groups
        while len(self._results) > 1 and sum(map(_stacks, self._results.values())) > _MOST_STACKS:
            self._results.popitem(last=False)


def _stacks(groups: Groups) -> int:
    return sum(1 + len(it["stacks"]) + len(it["unknown_stacks"]) for it in groups)
