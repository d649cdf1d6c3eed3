"""Start and end child processes: CPU affinity, signals, process groups."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import psutil

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
GIBIBYTE = 1024 * MEBIBYTE


#: What shells and containers add to the number of the signal that ended a process.
SIGNAL_EXIT_CODE = 128
_KILL_TIMEOUT_S = 2.0


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
    memory_bytes=2 * GIBIBYTE, processes=256, file_bytes=256 * MEBIBYTE, disk_bytes=512 * MEBIBYTE
)


@contextlib.contextmanager
def pinned_to_cpus(cpus: Sequence[int] | None) -> Iterator[None]:
    """Restrict processes that are started inside the ``with`` block to ``cpus``."""
    if not cpus:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return ``command``, wrapped so that the kernel kills it when this process dies.

    Otherwise, a job of a killed runner would disturb the jobs of the next runner.
    """
    setpriv = which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *command]


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Inside the block, SIGTERM and SIGHUP act like Ctrl-C, unless they are ignored (``nohup``)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    replaced = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def run_group(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in a process group of its own, and kill the whole group afterwards.

    :raises subprocess.TimeoutExpired: after ``timeout_s``
    """
    with subprocess.Popen(
        dying_with_parent(command),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        finally:
            kill_group(process.pid)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def kill_group(group: int) -> None:
    """Kill the process group, and wait until none of its processes runs; zombies do not count."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        if not any(map(_runs, _members(group))):
            return
        time.sleep(0.01)


def _members(group: int) -> Iterator[int]:
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group:
                yield pid


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
