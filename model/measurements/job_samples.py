"""Jobs with their raw repetitions, and the settings of a series: what quality reports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from model.declared_fields import Field
from model.measurements.evidence import MeasuredObservation, Series
from model.shared_fields import (
    COMPARISON_KEY,
    COMPONENT,
    DEVICE,
    INDICATOR,
    PARAMETERS,
    RATE_UNIT,
    SCRIPT,
    STACK_DIGEST,
)


@dataclass(frozen=True, slots=True)
class JobSamples:
    """One measured job with its raw durations.

    :param repetitions_s: duration of each repetition, s, in order; may be empty
    :param elapsed_s: duration of one measured call, s: the median repetition, if there are any
    :param duration_s: from the start of the job to its end, s
    """

    observation: MeasuredObservation
    repetitions_s: tuple[float, ...]
    elapsed_s: float | None
    duration_s: float | None

    @property
    def series(self) -> Series:
        """The series of the job."""
        return self.observation.series

    def repetition_rates(self) -> list[float]:
        """The rate of each repetition, in the unit of the series."""
        if self.elapsed_s is None:
            return []
        return [self.observation.reading.rate * self.elapsed_s / it for it in self.repetitions_s]


@dataclass(frozen=True, slots=True)
class SeriesSettings:
    """What a series was measured with, and how many measurements it has.

    :param hardware: identity of the hardware class
    """

    comparison_key: Annotated[str, COMPARISON_KEY]
    indicator: Annotated[str, INDICATOR]
    component: Annotated[str | None, COMPONENT]
    script_sha256: Annotated[str | None, SCRIPT]
    parameters: Annotated[Mapping[str, Any], PARAMETERS]
    device: Annotated[str | None, DEVICE]
    unit: Annotated[str, RATE_UNIT]
    hardware_digest: str
    hardware_label: str
    hardware: Mapping[str, Any]
    python_versions: Annotated[
        tuple[str, ...], Field("Versions of the Python interpreter.", ["3.11"])
    ]
    jobs: Annotated[int, Field("Number of measurements.", 60)]
    stacks: Annotated[int, Field("Number of known stacks.", 6)]


@dataclass(frozen=True, slots=True)
class MissingMeasurement:
    """Jobs that ran but were not measured, or whose measurement does not count."""

    comparison_key: Annotated[str, COMPARISON_KEY]
    stack: Annotated[str | None, STACK_DIGEST]
    outcome: Annotated[str, Field("Outcome of the jobs.", "crashed")]
    reason: Annotated[str | None, Field("Code of the crash or of the quarantine.")]
    jobs: Annotated[int, Field("Number of jobs.", 1)]
