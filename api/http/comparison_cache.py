"""Comparisons of measured stacks; after a change of the record, only changed series are read."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Any

from sqlalchemy import Connection

from adviser.stack_comparison import (
    NEWEST_BASELINE,
    MeasuredSeries,
    SeriesEstimates,
    all_series,
    estimated_series,
    judged_groups,
)
from adviser.stacks_document import group_document
from common.versioned_cache import VersionedCache
from graph.record.freshness import changes
from graph.record.measurements import (
    SeriesMark,
    SeriesProgress,
    changed_series,
    measured_observations,
    series_marks,
    series_progress,
)

#: Maximum number of jobs in all kept series; a job takes about 0.5 kB.
_MOST_JOBS = 50_000
#: Maximum number of stacks in all kept documents; that of one stack takes about 3 kB.
_MOST_STACKS = 10_000
#: Maximum number of kept families; most have the same series.
_MOST_FAMILIES = 20


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """Selects series.

    :param indicator: name of an indicator
    :param hardware: prefix of digests of hardware classes
    :param package: name of a measured package
    :param stack: digest of a measured stack
    """

    indicator: str | None = None
    hardware: str | None = None
    package: str | None = None
    stack: str | None = None

    def admits(self, series: SeriesEstimates) -> bool:
        """Whether ``series`` meets the filter."""
        key = series.series
        return (
            (self.indicator is None or key.indicator == self.indicator)
            and (self.hardware is None or key.hardware_digest.startswith(self.hardware))
            and (self.package is None or any(it.component == self.package for it in series.stacks))
            and (self.stack is None or series.has(self.stack))
        )


class SeriesFamily:
    """Series whose comparisons share one error rate.

    :ivar series: in the order of ``thoth stacks``
    """

    def __init__(
        self,
        series: Sequence[SeriesEstimates],
        documents: VersionedCache[tuple[object, int], dict[str, Any]],
    ) -> None:
        """:param documents: of all families together"""
        self.series = series
        self._documents = documents
        self._name = object()
        self._lock = Lock()

    def groups(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The series at some places as JSON values of ``thoth stacks``.

        The comparisons of all series count in the verdicts. Callers must not change the
        values.
        """
        with self._lock:  # others wait, since they would compute the same
            kept = {it: self._documents.last((self._name, it)) for it in places}
            documents = {place: it for place, it in kept.items() if it is not None}
            missing = [it for it in kept if it not in documents]
            for place, group in zip(missing, judged_groups(self.series, missing), strict=True):
                documents[place] = group_document(group)
                self._documents.put((self._name, place), None, documents[place])
            return [documents[it] for it in places]


_Estimates = VersionedCache[tuple[str, str | None], list[SeriesEstimates]]


def _jobs(series: Sequence[MeasuredSeries]) -> int:
    return sum(it.recent.observations for it in series)


class ComparisonCache:
    """Keeps series with their estimated effects, each until its measurements change.

    All comparisons of an answer form one family, so a new job may change any verdict. Reading the
    measurements takes most of the time, judging little.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._position = -1
        self._progress: SeriesProgress | None = None
        #: The version of each series, by comparison key.
        self._marks: dict[str, SeriesMark] = {}
        #: The keys whose marks are of this position.
        self._current: set[str] = set()
        #: Whether these are all keys, except for those that may have changed.
        self._is_complete = False
        self._changed: set[str] = set()
        #: One for each version of Python.
        self._measured = VersionedCache[str, list[MeasuredSeries]](_MOST_JOBS, _jobs)
        #: By comparison key and baseline.
        self._estimates = _Estimates()
        self._others = _Estimates(_MOST_STACKS, lambda them: sum(len(it.stacks) for it in them))
        self._families = VersionedCache[Hashable, SeriesFamily](_MOST_FAMILIES)
        self._documents = VersionedCache[tuple[object, int], dict[str, Any]](
            _MOST_STACKS, lambda it: len(it["stacks"])
        )

    def family(
        self,
        connection: Connection,
        baseline: str | None = None,
        keys: Collection[str] | None = None,
        wanted: SeriesFilter = SeriesFilter(),
    ) -> SeriesFamily:
        """The series of ``thoth stacks`` for one question, which are a family.

        :param baseline: digest of the stack that others are compared with where it was measured, or
            :data:`NEWEST_BASELINE`
        :param keys: only these comparison keys
        :param wanted: only these series
        """
        with self._lock:  # others wait, since they would read the same
            if (position := changes(connection)) > self._position:
                self._note_changes(connection)
                self._position = position  # Last: a failed query is repeated.
            chosen = None if keys is None else frozenset(keys)

            def read() -> SeriesFamily:
                self._mark(connection, chosen)
                series = self._series(connection, baseline, chosen)
                return SeriesFamily([it for it in series if wanted.admits(it)], self._documents)

            return self._families.get((baseline, chosen, wanted), self._position, read)

    def _note_changes(self, connection: Connection) -> None:
        """Note which marks may no longer be current."""
        before, now = self._progress, series_progress(connection)
        changed = None if before is None else changed_series(connection, before, now)
        self._progress = now
        if changed is None:
            self._current.clear()
            self._is_complete = False
        else:
            self._current -= changed
            self._changed |= changed

    def _mark(self, connection: Connection, keys: frozenset[str] | None) -> None:
        """Read the marks of these series that may have changed; ``None`` for all series."""
        unmarked: AbstractSet[str] | None = None
        if self._is_complete:
            unmarked = self._changed
        elif keys is not None:
            unmarked = keys - self._current
        if unmarked is not None and not unmarked:
            return
        marks = series_marks(connection, unmarked)
        for key in (self._marks.keys() if unmarked is None else unmarked) - marks.keys():
            self._marks.pop(key, None)
            self._estimates.pop((key, None))
        self._marks |= marks
        self._current |= marks.keys()
        self._is_complete = self._is_complete or unmarked is None
        self._changed = set() if unmarked is None else self._changed - unmarked

    def _series(
        self, connection: Connection, baseline: str | None, keys: frozenset[str] | None
    ) -> list[SeriesEstimates]:
        wanted = self._marks.keys() if keys is None else self._marks.keys() & keys
        chosen = self._estimated(connection, self._estimates, wanted, None)
        if baseline is not None:
            holding = {
                key
                for key, them in chosen.items()
                if baseline == NEWEST_BASELINE or any(it.has(baseline) for it in them)
            }
            chosen |= self._estimated(connection, self._others, holding, baseline)
        return sorted((it for them in chosen.values() for it in them), key=lambda it: it.order)

    def _estimated(
        self,
        connection: Connection,
        cache: _Estimates,
        keys: AbstractSet[str],
        baseline: str | None,
    ) -> dict[str, list[SeriesEstimates]]:
        """The series of these comparison keys; only changed series are estimated."""
        kept = {key: cache.kept((key, baseline), self._marks[key]) for key in keys}
        estimates = {key: them for key, them in kept.items() if them is not None}
        for key, measured in self._read(connection, keys - estimates.keys()):
            estimates[key] = [estimated_series(it, baseline) for it in measured]
            cache.put((key, baseline), self._marks[key], estimates[key])
        return estimates

    def _read(
        self, connection: Connection, keys: AbstractSet[str]
    ) -> Iterator[tuple[str, list[MeasuredSeries]]]:
        """The measurements of these comparison keys, one after the other."""
        unread = set()
        for key in keys:
            measured = self._measured.kept(key, self._marks[key])
            if measured is None:
                unread.add(key)
            else:
                yield key, measured
        if unread:
            observations = measured_observations(connection, keys=unread)
            for key, alike in groupby(observations, lambda it: it.series.comparison_key):
                measured = all_series(alike)
                self._measured.put(key, self._marks[key], measured)
                yield key, measured
