"""Enforces limits on the sum of a job's processes; the kernel limits each process separately."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from pis.amun.job_limits import KIBIBYTE, MEBIBYTE, JobLimits
from pis.amun.jobs import JobEnd

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"(?m)^Pss: +(\d+) kB$")
_AVAILABLE = re.compile(rb"(?m)^MemAvailable: +(\d+) kB$")

#: Memory reserved for the machine. A job can make the kernel use memory that belongs to no process
#: (sockets, folders of many empty files); it is ended before the machine runs out.
_SPARE_BYTES = 256 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources that a tree of processes uses at one moment.

    :param tasks: number of processes and threads
    :param resident_bytes: a page that two processes share counts twice
    """

    pids: tuple[int, ...]
    tasks: int
    resident_bytes: int


class Watch:
    """Checks a job's processes on request; a check takes about 0.1 ms.

    :param pid: the job's first process. All others descend from it, and none can leave the
        sandbox (:mod:`pis.amun.sandbox`)
    """

    def __init__(self, pid: int, limits: JobLimits) -> None:
        self.pid = pid
        self.limits = limits

    def breach(self) -> JobEnd | None:
        """Return the limit that the job's processes exceed together, if any."""
        usage = footprint(self.pid)
        most = self.limits.processes
        if most is not None and usage.tasks >= most:
            return JobEnd.PROCESS_LIMIT
        return self._memory_breach(usage)

    def _memory_breach(self, usage: Footprint) -> JobEnd | None:
        most = self.limits.memory_bytes
        if most is None:
            return None
        # Reading exact figures stops the process for a moment, so they are read only if needed.
        if usage.resident_bytes > most and proportional_bytes(usage.pids) > most:
            return JobEnd.MEMORY_LIMIT
        return JobEnd.HOST_MEMORY if available_bytes() < _SPARE_BYTES else None


def footprint(pid: int) -> Footprint:
    """Return the resources of ``pid`` and its descendants, except those that end meanwhile."""
    pids = tuple(_tree(pid))
    return Footprint(pids, sum(map(_tasks, pids)), sum(map(_resident_bytes, pids)))


def proportional_bytes(pids: tuple[int, ...]) -> int:
    """Return the memory of all ``pids``; shared pages count once (PSS, proc(5))."""
    return sum(map(_proportional_bytes, pids))


def available_bytes() -> int:
    """Return the memory available without swapping (``MemAvailable``, proc(5))."""
    match = _AVAILABLE.search((_PROC / "meminfo").read_bytes())
    return int(match[1]) * KIBIBYTE if match else 1 << 62


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in _threads(pid):
            for child in (_PROC / str(pid) / "task" / thread / "children").read_bytes().split():
                yield from _tree(int(child))
    except FileNotFoundError:
        if not _LISTS_CHILDREN:
            yield from _descendants_by_scan(pid)
    except ProcessLookupError:
        return


#: Whether the kernel lists the children of a process (``CONFIG_PROC_CHILDREN``); most do.
_LISTS_CHILDREN = (_PROC / "thread-self" / "children").exists()


def _descendants_by_scan(pid: int) -> Iterator[int]:
    with contextlib.suppress(psutil.Error):
        yield from (child.pid for child in psutil.Process(pid).children(recursive=True))


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 (names, many times a second)
    except OSError:
        return []


def _tasks(pid: int) -> int:
    return len(_threads(pid))


def _resident_bytes(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _proportional_bytes(pid: int) -> int:
    """Return the proportional memory of a process or, if unreadable, the larger resident memory."""
    try:
        match = _PSS.search((_PROC / str(pid) / "smaps_rollup").read_bytes())
    except OSError:
        return _resident_bytes(pid)
    return int(match[1]) * KIBIBYTE if match else 0
