"""Processes from outside: where they run, with whom they die, and whether they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
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
