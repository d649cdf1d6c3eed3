"""JobLimits of one job. The runner sets them, never the script."""

from __future__ import annotations

from dataclasses import dataclass

KIBIBYTE = 1024


MEBIBYTE = 1024 * KIBIBYTE


GIBIBYTE = 1024 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Bounds of one job; ``None`` leaves one open, as for the bundled scripts.

    :param wall_s: from start to end; SIGTERM, then SIGKILL to the whole group
    :param output_bytes: written to both pipes together before the job is ended
    :param memory_bytes: resident memory of all its processes together
    :param processes: processes and threads at a time
    :param file_bytes: the largest single file
    :param disk_bytes: all that it writes to its working and temporary folders
    """

    wall_s: float = 600.0
    output_bytes: int = 64 * MEBIBYTE
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    disk_bytes: int | None = None


#: What a submitted script gets, unless its specification asks for other memory or time.
CONFINED = JobLimits(
    memory_bytes=2 * GIBIBYTE,
    processes=256,
    file_bytes=256 * MEBIBYTE,
    disk_bytes=512 * MEBIBYTE,
)
