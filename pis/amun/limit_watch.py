"""The watch that enforces limits over all processes of a job; the kernel counts each alone."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from pis.amun.job_limits import (
    KIBIBYTE,
    MEBIBYTE,
    JobLimits,
)
from pis.amun.jobs import Ended

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"(?m)^Pss: +(\d+) kB$")
_AVAILABLE = re.compile(rb"(?m)^MemAvailable: +(\d+) kB$")

#: What is left to the machine: a job can have the kernel hold memory that is in none of
#: its processes (sockets, folders of many empty files), and ends before the machine does.
_SPARE_BYTES = 256 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a tree of processes holds at one moment.

    :param tasks: processes and threads
    :param resident_bytes: pages that two processes share are counted in both
    """

    pids: tuple[int, ...]
    tasks: int
    resident_bytes: int


class Watch:
    """Looks at a job's processes whenever it is asked; a look costs some 0.1 ms.

    :param pid: the job's first process; its descendants are found from it, and inside the
        walls of :mod:`pis.amun.sandbox` none can leave it
    """

    def __init__(self, pid: int, limits: JobLimits) -> None:
        self.pid = pid
        self.limits = limits

    def breach(self) -> Ended | None:
        """Which limit the job's processes break together, if any."""
        held = footprint(self.pid)
        most = self.limits.processes
        if most is not None and held.tasks >= most:
            return Ended.PROCESS_LIMIT
        return self._memory_breach(held)

    def _memory_breach(self, held: Footprint) -> Ended | None:
        most = self.limits.memory_bytes
        if most is None:
            return None
        # Exact figures hold up the process that they are of, so they are a second look.
        if held.resident_bytes > most and proportional_bytes(held.pids) > most:
            return Ended.MEMORY_LIMIT
        return Ended.HOST_MEMORY if available_bytes() < _SPARE_BYTES else None


def footprint(pid: int) -> Footprint:
    """What ``pid`` and all its descendants hold; those that end meanwhile are left out."""
    pids = tuple(_tree(pid))
    return Footprint(pids, sum(map(_tasks, pids)), sum(map(_resident_bytes, pids)))


def proportional_bytes(pids: tuple[int, ...]) -> int:
    """Memory of all ``pids``, where a page that n of them share counts once (PSS, proc(5))."""
    return sum(map(_proportional_bytes, pids))


def available_bytes() -> int:
    """What the machine can still give without swapping (``MemAvailable``, proc(5))."""
    found = _AVAILABLE.search((_PROC / "meminfo").read_bytes())
    return int(found[1]) * KIBIBYTE if found else 1 << 62


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in _threads(pid):
            for child in (_PROC / str(pid) / "task" / thread / "children").read_bytes().split():
                yield from _tree(int(child))
    except FileNotFoundError:
        if not _LISTS_CHILDREN:
            yield from _found_by_parents(pid)
    except ProcessLookupError:
        return


#: Whether the kernel names a process' children (``CONFIG_PROC_CHILDREN``); most do.
_LISTS_CHILDREN = (_PROC / "thread-self" / "children").exists()


def _found_by_parents(pid: int) -> Iterator[int]:
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
    """Its resident bytes where the exact figure may not be read: rather too much."""
    try:
        found = _PSS.search((_PROC / str(pid) / "smaps_rollup").read_bytes())
    except OSError:
        return _resident_bytes(pid)
    return int(found[1]) * KIBIBYTE if found else 0
