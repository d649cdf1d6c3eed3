"""Changes of performance: the type that the adviser detects and the record stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class ChangeKind(StrEnum):
    """What changed. The values are stored; never rename them."""

    #: A release differs from the measured release before it.
    RELEASE = "release"
    #: A machine differs from itself: the same stack runs at another speed since some run.
    MACHINE = "machine"


class ChangeEvent(StrEnum):
    """What an entry says about a change. The values are stored; never rename them."""

    #: The change is settled for the first time.
    ANNOUNCED = "announced"
    #: More jobs show the same change.
    CONFIRMED = "confirmed"
    #: More jobs show a change of another size in the same direction.
    RESIZED = "resized"
    #: More jobs show no such change.
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceChange:
    """One entry of the list of changes. An entry is never edited: later evidence makes a new one.

    :param change_id: digest of what the entry is about, without any result; equal changes have
        equal identifiers
    :param refers_to: identifier of the announcement that this entry is about; ``None`` for an
        announcement
    :param package: name of the package whose release changed; ``None`` for a machine
    :param host: machine that changed; ``None`` for a release
    :param from_version: version before; for a machine, the last run of the level before
    :param to_version: version after; for a machine, the first run of the level after
    :param from_stack: digest of the stack before
    :param to_stack: digest of the stack after; the same stack for a machine
    :param verdict: ``faster``, ``slower``, or why it is withdrawn: ``equivalent``,
        ``undetermined``
    :param effect_pct: the difference as published, in per cent of the rate before, shrunk towards
        zero
    :param observed_pct: the observed difference, in per cent
    :param interval_low_pct: lower end of its two-sided 95 % interval
    :param interval_high_pct: upper end of this interval
    :param delta_pct: δ, the smallest difference of interest, in per cent
    :param jobs: number of jobs after; for a machine, of runs
    :param baseline_jobs: the same before
    :param comparisons: number of comparisons that shared the error rate
    :param look: how often this comparison was judged so far, this time included
    :param seen_at: time of the last job; for a machine, of the first job after the step
    :param rule: version of the rule that decided
    """

    change_id: str
    kind: ChangeKind
    event: ChangeEvent
    refers_to: str | None
    package: str | None
    host: str | None
    from_version: str
    to_version: str
    from_stack: str
    to_stack: str
    indicator: str
    parameters: Mapping[str, Any]
    device: str | None
    comparison_key: str
    python_version: str | None
    hardware_digest: str
    hardware_label: str
    verdict: str
    effect_pct: float
    observed_pct: float
    interval_low_pct: float
    interval_high_pct: float
    delta_pct: float
    jobs: int
    baseline_jobs: int
    comparisons: int
    look: int
    seen_at: datetime | None
    rule: str

    @property
    def announcement(self) -> str:
        """Identifier of the announcement that this entry is or refers to."""
        return self.refers_to or self.change_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange(PerformanceChange):
    """An entry as the record has it.

    :param number: entries are numbered in the order in which they were recorded
    """

    number: int
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeLook:
    """How often a comparison was judged for the list of changes.

    :param looks: number of times
    :param jobs: number of jobs of the smaller arm at the last time
    """

    looks: int
    jobs: int
