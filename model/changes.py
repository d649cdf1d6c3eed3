"""Changes of performance: the type that the adviser detects and the record stores."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from model.declared_fields import (
    COMPARISON_KEY,
    DELTA_PCT,
    DEVICE,
    DIGEST,
    HARDWARE_DIGEST,
    HARDWARE_LABEL,
    INDICATOR,
    PARAMETERS,
    PYTHON_VERSION,
    Field,
)


class ChangeKind(StrEnum):
    """What changed. The values are stored; never rename them."""

    #: A release differs from the measured release before it.
    RELEASE = "release"
    #: A machine differs from itself: the same stack runs at another speed since some run.
    MACHINE = "machine"


class ChangeEvent(StrEnum):
    """The kind of news in an entry about a change. The values are stored; never rename them."""

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
    """An entry of the list of changes. Entries are never edited; later evidence adds one."""

    change_id: Annotated[
        str, Field("Identifier of the entry; equal changes have equal ones.", DIGEST)
    ]
    kind: Annotated[ChangeKind, Field("What changed.")]
    event: Annotated[ChangeEvent, Field("What the entry says about the change.")]
    refers_to: Annotated[
        str | None, Field("Identifier of the announcement; null for an announcement.")
    ]
    package: Annotated[str | None, Field("Name of the package; null for a machine.", "numpy")]
    host: Annotated[str | None, Field("The machine that changed; null for a release.")]
    from_version: Annotated[
        str, Field("Version before; for a machine, the last run before.", "2.0.2")
    ]
    to_version: Annotated[str, Field("Version after; for a machine, the first run after.", "2.3.5")]
    from_stack: Annotated[str, Field("Digest of the stack before.", DIGEST)]
    to_stack: Annotated[str, Field("Digest of the stack after.", DIGEST)]
    indicator: Annotated[str, INDICATOR]
    parameters: Annotated[Mapping[str, Any], PARAMETERS]
    device: Annotated[str | None, DEVICE]
    comparison_key: Annotated[str, COMPARISON_KEY]
    python_version: Annotated[str | None, PYTHON_VERSION]
    hardware_digest: Annotated[str, HARDWARE_DIGEST]
    hardware_label: Annotated[str, HARDWARE_LABEL]
    verdict: Annotated[str, Field("The verdict on the version after.", "faster")]
    effect_pct: Annotated[
        float, Field("The difference as published: shrunk towards zero.", 25.0, unit="%")
    ]
    observed_pct: Annotated[float, Field("The observed difference.", 25.4, unit="%")]
    interval_low_pct: Annotated[float, Field("Lower end of its 95 % interval.", 22.9, unit="%")]
    interval_high_pct: Annotated[float, Field("Upper end of its 95 % interval.", 28.0, unit="%")]
    delta_pct: Annotated[float, DELTA_PCT]
    jobs: Annotated[int, Field("Number of jobs after; for a machine, of runs.", 7)]
    baseline_jobs: Annotated[int, Field("Number of jobs before; for a machine, of runs.", 7)]
    comparisons: Annotated[int, Field("Number of comparisons that shared the error rate.", 3)]
    look: Annotated[int, Field("How often the comparison was judged so far.", 1)]
    seen_at: Annotated[datetime | None, Field("Time of the last job; for a machine, of the step.")]
    rule: Annotated[str, Field("Version of the rule that decided.", "changes-1")]

    @property
    def announcement(self) -> str:
        """Identifier of the announcement that this entry is or refers to."""
        return self.refers_to or self.change_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange(PerformanceChange):
    """A performance change with the columns that PostgreSQL adds.

    :param number: entries are numbered in the order in which they were recorded
    """

    number: int
    recorded_at: Annotated[datetime, Field("When the entry was recorded.")]
    bundled: Annotated[
        str | None,
        Field(
            "Differences in bundled libraries from the version before: context, not shown to be the"
            " cause; null if unknown or nothing.",
            "numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ChangeLook:
    """How often a comparison was judged for the list of changes.

    :param looks: number of times
    :param jobs: number of jobs of the smaller arm at the last time
    """

    looks: int
    jobs: int
