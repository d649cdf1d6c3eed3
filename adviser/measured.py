"""From observations to the jobs of each stack: what counts, and how often."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from adviser.scoring.histories import History, Job, history_of, jobs_of
from graph.evidence import UNKNOWN_STACK, MeasuredObservation, Series

#: Hexadecimal digits of a digest that a person can still tell apart.
SHORT_DIGEST = 8


@dataclass(frozen=True, slots=True)
class MeasuredStack:
    """A stack's jobs before they are compared.

    :param digest: ``None`` if the inspections named no lock
    :param jobs: those that count
    :param left_out: why each other job does not, sorted
    """

    digest: str | None
    component: str | None
    version: str | None
    jobs: tuple[Job, ...]
    left_out: tuple[str, ...]

    @property
    def label(self) -> str:
        name = " ".join(part for part in (self.component, self.version) if part) or "stack"
        return f"{name} ({short_digest(self.digest) if self.digest else 'stack unknown'})"

    @property
    def rates(self) -> list[float]:
        """Of the jobs that count."""
        return [math.exp(it.log_rate) for it in self.jobs]


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Everything that was measured alike.

    :param known: stacks by digest
    :param unknown: jobs whose stack is not known, by version of the component: several stacks
        may hide in one, so they are compared with nothing
    """

    series: Series
    hardware_label: str
    history: History = field(repr=False)
    known: tuple[MeasuredStack, ...]
    unknown: tuple[MeasuredStack, ...]


def short_digest(digest: str) -> str:
    """The first digits of a digest, without its algorithm.

    >>> short_digest("sha256:1f2e3d4c5b6a")
    '1f2e3d4c'
    """
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def measured_series(alike: Sequence[MeasuredObservation]) -> MeasuredSeries:
    """What observations of one series, in any order, say of its stacks.

    Drift is cut, and instability told, by the very functions that advice is scored with.
    """
    by_stack = defaultdict(list)
    for it in alike:
        unlocked = (it.component or "", it.component_version or "")
        by_stack[it.reading.stack, *(() if it.reading.stack else unlocked)].append(it)
    series = alike[0].series
    history = history_of(series, (it.reading for it in alike if it.reading.stack != UNKNOWN_STACK))
    known: list[MeasuredStack] = []
    unknown: list[MeasuredStack] = []
    for identity, rows in sorted(by_stack.items()):
        digest = identity[0]
        if digest == UNKNOWN_STACK:
            unknown.append(_unknown(rows))
        else:
            jobs, left_out = history.jobs.get(digest, ()), history.left_out.get(digest, ())
            known.append(MeasuredStack(digest, *_component(rows), jobs, left_out))
    label = min(it.hardware_label for it in alike)
    return MeasuredSeries(series, label, history, tuple(known), tuple(unknown))


def _unknown(rows: Sequence[MeasuredObservation]) -> MeasuredStack:
    jobs, left_out = jobs_of(it.reading for it in rows)
    reasons = tuple(sorted(left_out[UNKNOWN_STACK]))
    return MeasuredStack(None, *_component(rows), tuple(jobs[UNKNOWN_STACK]), reasons)


def _component(rows: Sequence[MeasuredObservation]) -> tuple[str | None, str | None]:
    return (
        min((row.component for row in rows if row.component), default=None),
        min((row.component_version for row in rows if row.component_version), default=None),
    )
