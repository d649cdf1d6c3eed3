"""The hardware and the Python version that a request is about."""

from __future__ import annotations

from dataclasses import dataclass

from graph.evidence import Series


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks about.

    :param hardware: digest of the class, or its beginning; ``None`` if it is not known
    :param python_version: such as ``3.11``
    """

    hardware: str | None
    python_version: str

    def same_hardware(self, series: Series) -> bool:
        """Whether it was measured on the class that is asked about."""
        if not self.hardware:
            return False
        bare = series.hardware_digest.rpartition(":")[2]
        return series.hardware_digest.startswith(self.hardware) or bare.startswith(self.hardware)

    def same_python(self, series: Series) -> bool:
        """Whether it ran on the Python that is asked about."""
        return series.python_version == self.python_version

    def distance(self, series: Series) -> int:
        """In how many of the two it differs."""
        return (not self.same_hardware(series)) + (not self.same_python(series))
