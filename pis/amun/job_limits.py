"""Limits of one job. The runner sets them, never the script."""

from __future__ import annotations

from dataclasses import dataclass

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
GIBIBYTE = 1024 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of one job; ``None`` means no limit, as for bundled scripts.

    :param wall_s: run time, then SIGTERM and later SIGKILL to the whole process group
    :param output_bytes: standard output and standard error together
    :param memory_bytes: resident memory of all its processes together
    :param processes: concurrent processes and threads
    :param file_bytes: size of a single file
    :param disk_bytes: size of its working folder and temporary folders together
    """

    wall_s: float = 600.0
    output_bytes: int = 64 * MEBIBYTE
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    disk_bytes: int | None = None


#: Limits of submitted scripts; a specification can change memory and time.
CONFINED = JobLimits(
    memory_bytes=2 * GIBIBYTE,
    processes=256,
    file_bytes=256 * MEBIBYTE,
    disk_bytes=512 * MEBIBYTE,
)
