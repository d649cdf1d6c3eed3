"""The hardware and the Python version that a request is about."""

from __future__ import annotations

from dataclasses import dataclass

from model.changes import PerformanceChange
from model.measurements.evidence import Series

#: What was measured on one hardware class with one Python version.
MeasuredOn = Series | PerformanceChange


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request.

    :param hardware: digest of the hardware class, or a prefix of it; ``None`` if unknown
    :param python_version: such as ``3.11``
    """

    hardware: str | None
    python_version: str

    def same_hardware(self, series: MeasuredOn) -> bool:
        """Whether a series was measured on the target's hardware class."""
        if not self.hardware:
            return False
        bare = series.hardware_digest.rpartition(":")[2]
        return series.hardware_digest.startswith(self.hardware) or bare.startswith(self.hardware)

    def same_python(self, series: MeasuredOn) -> bool:
        """Whether a series was measured on the target's Python version."""
        return series.python_version == self.python_version

    def distance(self, series: MeasuredOn) -> int:
        """The number of differences from the target, 0 to 2: hardware class and Python version."""
        return (not self.same_hardware(series)) + (not self.same_python(series))
