"""Comparisons of measured stacks; after a change of the record, only changed series are read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock
from typing import Any, TypeVar

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

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """Which series a question is about.

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
        """Whether it is one of them."""
        key = series.series
        return (
            (self.indicator is None or key.indicator == self.indicator)
            and (self.hardware is None or key.hardware_digest.startswith(self.hardware))
            and (self.package is None or any(it.component == self.package for it in series.stacks))
            and (self.stack is None or series.has(self.stack))
        )


@dataclass(slots=True)
class SeriesFamily:
    """Series whose comparisons share one error rate.

    :param series: in the order of ``thoth stacks``
    """

    series: Sequence[SeriesEstimates]
    _lock: Lock = field(default_factory=Lock, init=False)
    _documents: OrderedDict[int, dict[str, Any]] = field(default_factory=OrderedDict, init=False)
    #: Number of stacks in the kept documents.
    kept_stacks: int = field(default=0, init=False)

    def groups(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The series at some places as JSON values of ``thoth stacks``.

        The comparisons of the other series count in the verdicts, too. Callers must not change the
        values.
        """
        with self._lock:  # others wait, since they would compute the same
            missing = [it for it in places if it not in self._documents]
            for place, group in zip(missing, judged_groups(self.series, missing), strict=True):
                self._documents[place] = group_document(group)
            documents = [self._documents[it] for it in places]
            self._forget(len(places))
            return documents

    def _forget(self, kept: int) -> None:
        """Forget the oldest documents beyond the limit, but not the last ones."""
        self.kept_stacks = _forget_oldest(
            self._documents,
            {it: len(self.series[it].stacks) for it in self._documents}, _MOST_STACKS, kept,
        )  # fmt: skip


class ComparisonCache:
    """Keeps series with their estimated effects, each until its measurements change.

    All comparisons of an answer form one family, so that a new job may change any verdict. Judging
    takes little time, and reading the measurements most of it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._position = -1
        self._progress: SeriesProgress | None = None
        self._marks: dict[str, SeriesMark] = {}
        #: The keys whose marks are of this position.
        self._current: set[str] = set()
        #: Whether these are all keys, except for those that may have changed.
        self._is_complete = False
        self._changed: set[str] = set()
        #: By comparison key, one for each version of Python.
        self._measured: OrderedDict[str, list[MeasuredSeries]] = OrderedDict()
        self._estimates: dict[str, list[SeriesEstimates]] = {}
        #: By comparison key and baseline.
        self._others: OrderedDict[tuple[str, str], list[SeriesEstimates]] = OrderedDict()
        self._families: OrderedDict[object, SeriesFamily] = OrderedDict()

    def family(
        self,
        connection: Connection,
        baseline: str | None = None,
        keys: Collection[str] | None = None,
        wanted: SeriesFilter = SeriesFilter(),
    ) -> SeriesFamily:
        """The series of ``thoth stacks``; those of one question are a family.

        :param baseline: digest of the stack that others are compared with where it was measured, or
            :data:`NEWEST_BASELINE`
        :param keys: only these comparison keys
        :param wanted: only these series
        """
        with self._lock:  # others wait, since they would read the same
            if (position := changes(connection)) > self._position:
                self._families.clear()
                self._note_changes(connection)
                self._position = position  # Last: a failed query is repeated.
            chosen = None if keys is None else frozenset(keys)
            name = baseline, chosen, wanted
            if name not in self._families:
                self._mark(connection, chosen)
                series = self._series(connection, baseline, chosen)
                self._families[name] = SeriesFamily([it for it in series if wanted.admits(it)])
            self._families.move_to_end(name)
            self._forget_families()
            return self._families[name]

    def _forget_families(self) -> None:
        """Forget the least recently used families beyond the limits, but not the last one."""
        _forget_oldest(self._families, dict.fromkeys(self._families, 1), _MOST_FAMILIES, 1)
        sizes = {name: it.kept_stacks for name, it in self._families.items()}
        _forget_oldest(self._families, sizes, _MOST_STACKS, 1)

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
        """Forget those of these series that changed; ``None`` for all series."""
        unmarked: AbstractSet[str] | None = None
        if self._is_complete:
            unmarked = self._changed
        elif keys is not None:
            unmarked = keys - self._current
        if unmarked is not None and not unmarked:
            return
        marks = series_marks(connection, unmarked)
        for key in self._marks.keys() | marks if unmarked is None else unmarked:
            if key not in marks or marks[key] != self._marks.get(key):
                self._measured.pop(key, None)
                self._estimates.pop(key, None)
                self._marks.pop(key, None)
        self._others = OrderedDict(it for it in self._others.items() if it[0][0] in self._estimates)
        self._marks |= marks
        self._current |= marks.keys()
        self._is_complete = self._is_complete or unmarked is None
        self._changed = set() if unmarked is None else self._changed - unmarked

    def _series(
        self, connection: Connection, baseline: str | None, keys: frozenset[str] | None
    ) -> list[SeriesEstimates]:
        wanted = self._marks.keys() if keys is None else self._marks.keys() & keys
        for key, measured in self._read(connection, wanted - self._estimates.keys()):
            self._estimates[key] = [estimated_series(it) for it in measured]
        chosen = {key: self._estimates.get(key, []) for key in wanted}
        if baseline is not None:
            holding = {
                key
                for key, them in chosen.items()
                if baseline == NEWEST_BASELINE or any(it.has(baseline) for it in them)
            }
            missing = {it for it in holding if (it, baseline) not in self._others}
            for key, measured in self._read(connection, missing):
                self._others[key, baseline] = [estimated_series(it, baseline) for it in measured]
            chosen |= {it: self._others.get((it, baseline), []) for it in holding}
            self._forget()
        return sorted((it for them in chosen.values() for it in them), key=lambda it: it.order)

    def _read(
        self, connection: Connection, keys: AbstractSet[str]
    ) -> Iterator[tuple[str, list[MeasuredSeries]]]:
        """The measurements of these comparison keys, one after the other."""
        for key in keys & self._measured.keys():
            self._measured.move_to_end(key)
            yield key, self._measured[key]
        if unread := keys - self._measured.keys():
            observations = measured_observations(connection, keys=unread)
            for key, alike in groupby(observations, lambda it: it.series.comparison_key):
                self._measured[key] = all_series(alike)
                yield key, self._measured[key]
                self._forget_jobs()

    def _forget_jobs(self) -> None:
        jobs = {
            key: sum(it.recent.observations for it in them) for key, them in self._measured.items()
        }
        _forget_oldest(self._measured, jobs, _MOST_JOBS)

    def _forget(self) -> None:
        stacks = {name: sum(len(it.stacks) for it in them) for name, them in self._others.items()}
        _forget_oldest(self._others, stacks, _MOST_STACKS)


def _forget_oldest(
    kept: OrderedDict[_Key, _Value], sizes: Mapping[_Key, int], most: int, least: int = 0
) -> int:
    """Forget the oldest values until their sizes sum up to at most ``most``.

    :param least: this many values stay, whatever their size
    :returns: the sum that is left
    """
    left = sum(sizes.values())
    while left > most and len(kept) > least:
        left -= sizes[kept.popitem(last=False)[0]]
    return left
