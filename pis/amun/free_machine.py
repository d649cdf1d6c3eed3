"""Waits until this machine is free: no other measurement runs, and no other process is busy."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model.errors import AlreadyRunning
from pis.amun.conditions import busy_share

#: Address of the lock, in Linux's abstract namespace (unix(7)). The kernel frees it when the
#: process ends, however it ends, and it works across users and homes.
_LOCK = "\0thoth-measures"
_PAUSE_S = 1.0

#: Called at least once a second while something waits, with the cause and the time that it has
#: waited so far, s: 0 at the first call.
OnWait = Callable[[str, float], None]


def _no_report(_cause: str, _waited_s: float) -> None: ...


class MachineBusy(AlreadyRunning):
    """The machine did not become free in time; the message says what it waited for."""


@contextmanager
def free_machine(
    wait_s: float, most_busy: float = 1.0, on_wait: OnWait = _no_report
) -> Iterator[None]:
    """Hold the machine for measurements, once it is free.

    A job of a killed process may still run for a moment; it keeps the machine busy.

    :param wait_s: limit for both waits together
    :param most_busy: share of all processors that other processes may use; 1 for any
    :raises MachineBusy: after ``wait_s``
    """
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while not _bound(lock):
            _pause(began, wait_s, "another measurement runs on this machine", on_wait)
        if most_busy < 1:
            wait_until_quiet(wait_s - (time.monotonic() - began), most_busy, on_wait)
        yield


def wait_until_quiet(wait_s: float, most_busy: float, on_wait: OnWait = _no_report) -> None:
    """Wait until other processes use little of the processors.

    :param most_busy: share of all processors that they may use
    :raises MachineBusy: after ``wait_s``
    """
    began: float | None = None
    while (share := busy_share()) > most_busy:
        began = began or time.monotonic()
        _pause(began, wait_s, f"other processes use {share:.0%} of the processors", on_wait)


def _bound(lock: socket.socket) -> bool:
    try:
        lock.bind(_LOCK)
    except OSError:
        return False
    return True


def _pause(began: float, wait_s: float, cause: str, on_wait: OnWait) -> None:
    waited_s = time.monotonic() - began
    if waited_s >= wait_s:
        raise MachineBusy(cause)
    on_wait(cause, waited_s if waited_s >= _PAUSE_S else 0.0)
    time.sleep(_PAUSE_S)
