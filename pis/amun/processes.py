"""Processes from outside: where they run, with whom they end, and whether they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import which

import psutil

_GONE_S = 2.0


@contextlib.contextmanager
def pinned(cpus: Sequence[int] | None) -> Iterator[None]:
    """What is started within inherits ``cpus`` as its affinity."""
    if not cpus:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def dying_with_us(command: Sequence[str]) -> list[str]:
    """A job of a runner that was killed would disturb those of the next one."""
    setpriv = which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *command]


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP are what Ctrl-C is; one that is ignored (``nohup``) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    taken = [it for it in numbers if signal.getsignal(it) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def run_group(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in a group of its own, of which nothing is left however this ends.

    :raises subprocess.TimeoutExpired: after ``timeout_s``
    """
    with subprocess.Popen(
        dying_with_us(command),
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
            wait_until_gone(process.pid)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def wait_until_gone(group: int) -> None:
    """Until no process of the group runs; those that nobody collected yet run no more."""
    until = time.monotonic() + _GONE_S
    while time.monotonic() < until:
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
