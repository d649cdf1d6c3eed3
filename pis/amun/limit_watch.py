"""Enforces limits on the sum of a job's processes; the kernel limits each process separately."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from pis.amun.jobs import JobEnd
from pis.amun.processes import KIBIBYTE, MEBIBYTE, JobLimits

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"(?m)^Pss: +(\d+) kB$")
_PEAK = re.compile(rb"(?m)^VmHWM:\s+(\d+) kB$")
_AVAILABLE = re.compile(rb"(?m)^MemAvailable: +(\d+) kB$")

_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")

#: Memory reserved for the machine. A job can make the kernel use memory that belongs to no process,
#: such as sockets; it is ended before the machine runs out.
_SPARE_BYTES = 256 * MEBIBYTE
#: Each file or folder takes some memory of the kernel, even if it is empty: three million folders
#: took 2.4 GiB. Each counts as one block of ``disk_bytes``.
_BLOCK_BYTES = 4 * KIBIBYTE
#: Writable folders of the sandbox.
_WRITABLE = ("tmp", "dev/shm")


class Watch:
    """Checks a job's processes on request; a check takes about 0.1 ms for each process.

    :param pid: the job's first process. All others descend from it, and none can leave the
        sandbox (:mod:`pis.amun.sandbox`)
    """

    def __init__(self, pid: int, limits: JobLimits) -> None:
        self.pid = pid
        self.limits = limits
        self._user_s = self._system_s = 0.0
        self._peak_bytes = 0

    def breach(self) -> JobEnd | None:
        """Return the limit that the job's processes exceed together, if any."""
        pids = tuple(_tree(self.pid))
        times = [_times(it) for it in pids]
        # Processes that end take their figures along, unless their parents waited for them.
        self._user_s = max(self._user_s, sum(user for user, _ in times))
        self._system_s = max(self._system_s, sum(system for _, system in times))
        self._peak_bytes = max(self._peak_bytes, *map(_peak_bytes, pids))
        most = self.limits.processes
        if most is not None and sum(len(_threads(it)) for it in pids) >= most:
            return JobEnd.PROCESS_LIMIT
        disk = self.limits.disk_bytes
        if disk is not None and files_of(pids[-1]) * _BLOCK_BYTES > disk:
            return JobEnd.FILE_LIMIT
        return self._memory_breach(pids)

    def usage(self) -> dict[str, float | int]:
        """Return the processes' usage until the last check, by names of ``getrusage``."""
        return {
            "ru_utime": self._user_s,
            "ru_stime": self._system_s,
            "ru_maxrss": self._peak_bytes // KIBIBYTE,
        }

    def _memory_breach(self, pids: tuple[int, ...]) -> JobEnd | None:
        most = self.limits.memory_bytes
        if most is None:
            return None
        # Reading exact figures stops the process for a moment, so they are read only if needed.
        resident = sum(map(_resident_bytes, pids))  # shared pages count for each process
        if resident > most and sum(map(_proportional_bytes, pids)) > most:
            return JobEnd.MEMORY_LIMIT
        return JobEnd.HOST_MEMORY if available_bytes() < _SPARE_BYTES else None


def files_of(pid: int) -> int:
    """Return the number of files and folders that a sandbox has in its writable folders.

    :param pid: a process in the sandbox; 0 is returned while the sandbox is being made
    """
    count = 0
    for name in _WRITABLE:
        inside = _PROC / str(pid) / "root" / name
        try:
            if inside.stat().st_dev != Path("/", name).stat().st_dev:
                state = os.statvfs(inside)
                count += state.f_files - state.f_ffree
        except OSError:  # it ended
            return 0
    return count


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
            with contextlib.suppress(psutil.Error):
                yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
    except ProcessLookupError:
        return


#: Whether the kernel lists the children of a process (``CONFIG_PROC_CHILDREN``); most do.
_LISTS_CHILDREN = (_PROC / "thread-self" / "children").exists()


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 (names, many times a second)
    except OSError:
        return []


def _times(pid: int) -> tuple[float, float]:
    """Return user and system time of a process and of the children that it waited for, in s."""
    # proc_pid_stat(5): the fields after the command, which may contain anything.
    fields = _content(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return 0.0, 0.0
    user, system, children_user, children_system = map(int, fields[11:15])
    return (user + children_user) * _TICKS_S, (system + children_system) * _TICKS_S


def _peak_bytes(pid: int) -> int:
    match = _PEAK.search(_content(pid, "status"))
    return int(match[1]) * KIBIBYTE if match else 0


def _resident_bytes(pid: int) -> int:
    sizes = _content(pid, "statm").split()
    return int(sizes[1]) * _PAGE_BYTES if sizes else 0


def _proportional_bytes(pid: int) -> int:
    """Return the memory of a process with its part of shared pages (PSS, proc(5)).

    If that is unreadable, return the larger resident memory.
    """
    if not (content := _content(pid, "smaps_rollup")):
        return _resident_bytes(pid)
    match = _PSS.search(content)
    return int(match[1]) * KIBIBYTE if match else 0


def _content(pid: int, name: str) -> bytes:
    """A file of a process; empty if it cannot be read, such as after the end of the process."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
